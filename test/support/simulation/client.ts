import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import {
  AttemptsExhaustedError,
  EntryExistsError,
  HistoryGoneError,
  LogfoldError,
  SegmentClosedError,
  SegmentWithoutSnapshotError,
  StoreUnavailableError,
} from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../../../src/ids/position.ts';
import type { AppendOptions, LogClient, NewEntry } from '../../../src/log/client.ts';
import { type Entry, RESERVED_TYPES, snapshotStatus } from '../../../src/log/entry.ts';
import type { EntryPlace } from '../../../src/log/item-codec.ts';
import { buildState } from '../../../src/snapshot/build.ts';
import { loadState } from '../../../src/snapshot/load.ts';
import { encodeRoot } from '../../../src/snapshot/root.ts';
import { type CellEdit, type SheetEdit, sheetBody } from '../../../src/state/spreadsheet/reducer.ts';
import { bodyKey, rootKey } from '../../../src/store/keys.ts';
import { MemoryChunks } from '../chunks.ts';
import type { Random } from '../models/random.ts';
import { FAULTY, NOTE, readRows, versionedSheet } from '../models/versioned-sheet.ts';
import { STALE_MS } from '../stores/recorded-log-store.ts';
import { firstPoison, isHealthy, namesPoison, rowsAfter } from './log-truth.ts';
import { InjectedFault } from './process.ts';
import type { Poison, Ports, View, World } from './world.ts';

/** Whether the code under test failed with an injected fault, and with no other error. */
export function isInjected(error: unknown): boolean {
  if (error instanceof StoreUnavailableError || error instanceof AttemptsExhaustedError) return true;
  return error instanceof InjectedFault;
}

/** The work of a client, and its progress. The plan survives the client's crashes. */
export interface ClientPlan {
  readonly log: LogId;
  readonly edits: readonly SheetEdit[];
  next: number;
  /** Index of the edit before which the client poisons the log. */
  readonly poisonAt: number | undefined;
  /** Absent if the client does not number its entries. */
  readonly mutations: MutationPlan | undefined;
}

/** The numbered entries of a client. A client that crashed sends the last ones again. */
export interface MutationPlan {
  readonly client: string;
  /** The highest number that was given to an entry. */
  newest: number;
  /** The entries that were sent last. */
  sent: readonly NewEntry[];
  isAnswered: boolean;
}

/**
 * One life of a client. It edits, asks for snapshots, starts segments and loads until its plan is
 * done.
 */
export async function liveClient(world: World, ports: Ports, plan: ClientPlan): Promise<void> {
  const client = world.client(ports);
  const { random, scheduler } = world;
  while (plan.next < plan.edits.length || plan.mutations?.isAnswered === false) {
    await scheduler.sleep(pauseMs(random));
    try {
      await act(world, ports, client, plan);
    } catch (error) {
      if (!isInjected(error) && !(error instanceof SegmentWithoutSnapshotError)) throw error;
    }
  }
}

/**
 * Mostly seconds. Some pauses take a large part of the grace period, so that scheduled work happens
 * in between.
 */
export function pauseMs(random: Random): number {
  if (random.chance(0.06)) return random.integer(600_000, 5_400_000);
  return random.integer(0, random.chance(0.1) ? 30_000 : 2_000);
}

async function act(world: World, ports: Ports, client: LogClient, plan: ClientPlan): Promise<void> {
  const choice = world.random.next();
  const { log } = plan;
  const { name } = ports.process;
  if (choice < 0.008) await plantWrongRoot(world, log);
  else if (choice < 0.14) {
    const { position } = await client.addSnapshot(log);
    world.tell(name, log, position, [{ type: RESERVED_TYPES.snapshot }]);
  } else if (choice < 0.22) {
    const { position } = await client.startSegment(log);
    world.tell(name, log, position, [{ type: RESERVED_TYPES.snapshot }]);
  } else if (choice < 0.36) await loadAndCheck(world, ports, log);
  else if (choice < 0.4) await setAttribute(world, client, log);
  else {
    const count = world.random.chance(0.8) ? 1 : world.random.integer(2, 6);
    const edits = plan.edits.slice(plan.next, plan.next + count);
    const poisoned = plan.poisonAt !== undefined && plan.poisonAt >= plan.next && plan.poisonAt < plan.next + count;
    const { mutations } = plan;
    const repeats = mutations !== undefined && mutations.sent.length > 0 && world.random.chance(0.15);
    if (mutations !== undefined && (repeats || !mutations.isAnswered)) {
      world.trace(`${world.scheduler.now()} ${name} repeats mutation ${mutations.newest} of ${mutations.client}`);
      await send(world, { client, name, plan }, mutations.sent);
      return;
    }
    plan.next += count;
    if (poisoned) await poisonLog(world, log);
    await addEdits(world, { client, name, plan }, edits);
  }
}

/** Sets an attribute of one of the newest entries of the application. */
async function setAttribute(world: World, client: LogClient, log: LogId): Promise<void> {
  const newest = world.tables.history(log).slice(-8);
  const changes = newest.filter(({ entry }) => !RESERVED_TYPES.includes(entry.type));
  const chosen = changes.at(-world.random.integer(1, 8));
  if (chosen === undefined) return;
  const { position } = chosen.entry;
  const name = `note ${world.nextSerial()}`;
  try {
    await client.updateAttributes(log, position, { set: { [name]: true } });
    world.attributes.push({ log, position, name });
  } catch (error) {
    if (!(error instanceof SegmentClosedError)) throw error;
    world.trace(`${world.scheduler.now()} attributes of a closed segment`);
  }
}

interface Sender {
  readonly client: LogClient;
  readonly name: string;
  readonly plan: ClientPlan;
}

/**
 * Adds edits. If another client adds to the same log at the same time, both may write equal
 * entries. Some clients add only if no other entry follows the one that they know, and add again
 * after a conflict.
 */
async function addEdits(world: World, sender: Sender, edits: readonly SheetEdit[]): Promise<void> {
  const { name, plan } = sender;
  const { log, mutations } = plan;
  const others = world.adding.get(log);
  const equal = others !== undefined && world.random.chance(0.5);
  if (equal) world.trace(`${world.scheduler.now()} ${name} adds equal entries`);
  const entries = equal ? others : edits.map((edit) => newEntry(world, enlarge(world, edit), mutations));
  if (mutations !== undefined && !equal) Object.assign(mutations, { sent: entries, isAnswered: false });
  world.adding.set(log, entries);
  const snapshotBefore = world.random.chance(0.1);
  const after = world.random.chance(0.3)
    ? world.tables.history(log).at(-world.random.integer(1, 3))?.entry.position
    : undefined;
  const add = (options: AppendOptions) => send(world, sender, entries, { ...options, snapshotBefore });
  try {
    if (after === undefined) await add({});
    else await addAfter(world, { log, after, add });
  } finally {
    if (world.adding.get(log) === entries) world.adding.delete(log);
  }
}

/** Checks that an append succeeds if and only if no entry of the application follows. */
async function addAfter(
  world: World,
  {
    log,
    after,
    add,
  }: {
    readonly log: LogId;
    readonly after: Position;
    readonly add: (options: AppendOptions) => Promise<Position>;
  },
): Promise<void> {
  const isBetween = (position: Position, to: Position) =>
    comparePositions(position, after) > 0 && comparePositions(position, to) < 0;
  const followed = (to: Position) =>
    world.tables
      .history(log)
      .some(({ entry }) => isBetween(entry.position, to) && !RESERVED_TYPES.includes(entry.type));
  const name = `${log} after ${formatPosition(after)}`;
  try {
    const first = await add({ after });
    if (followed(first)) throw new Error(`an append to ${name} came after an entry that its client did not know`);
  } catch (error) {
    if (!(error instanceof EntryExistsError)) throw error;
    const { newest } = error;
    if (newest === undefined) throw new Error(`a conflict in ${name} does not name the newest entry`, { cause: error });
    const next = { segment: newest.segment, entry: newest.entry + 1 };
    // Entries of an older segment may be gone.
    if (newest.segment === after.segment && isHealthy(world, log) && !followed(next)) {
      throw new Error(`only Snapshot and End Segment entries follow in ${name}, and an append was refused`);
    }
    world.trace(`${world.scheduler.now()} conflict after ${formatPosition(after)}`);
    await add({});
  }
}

/** Appends entries, and remembers what the client was told. */
async function send(
  world: World,
  { client, name, plan }: Sender,
  entries: readonly NewEntry[],
  options: AppendOptions = {},
): Promise<Position> {
  const { first, snapshotEntry = first } = await client.addEntries(plan.log, entries, options);
  const snapshot = options.snapshotBefore === true ? [{ type: RESERVED_TYPES.snapshot }] : [];
  world.tell(name, plan.log, snapshotEntry, [...snapshot, ...entries]);
  const { mutations } = plan;
  if (mutations !== undefined && entries === mutations.sent) {
    mutations.isAnswered = true;
    world.confirmed.set(mutations.client, mutations.newest);
  }
  return snapshotEntry;
}

/** An entry with an edit. Its creation time is a number that no other entry has. */
export function newEntry(world: World, edit: SheetEdit, mutations: MutationPlan | undefined): NewEntry {
  const created = world.nextSerial();
  world.edits.set(created, edit);
  const once = mutations && { client: mutations.client, mutation: ++mutations.newest };
  return { type: edit.type, version: 1, body: sheetBody(edit), created, once };
}

/**
 * Makes values of all sizes: some become chunks outside the root, some outside the leaf, and some
 * bodies outside the entry.
 */
export function enlarge(world: World, edit: SheetEdit): SheetEdit {
  if (edit.type !== 'Set' || !world.random.chance(0.25)) return edit;
  const length = world.random.pick([10, 300, 300, 2_000, 5_000, 9_000]);
  const longer = ([row, column]: CellEdit): CellEdit => [row, column, world.random.text(length)];
  return { type: 'Set', cells: edit.cells.map((cell, i) => (i < 2 ? longer(cell) : cell)) };
}

/** Appends an entry that cannot be folded, like another program with access to the table. */
async function poisonLog(world: World, log: LogId): Promise<void> {
  const { tables: store, random } = world;
  const [newest] = await store.newestSegments(log, 1, { consistent: true });
  const end = newest && (await store.newestEntry(log, newest.segment, { consistent: true }));
  if (end === undefined || end.type === RESERVED_TYPES.endSegment)
    throw new Error('the newest segment is empty or has ended');
  const put = async (offset: number, poison: Poison | undefined, changes: object): Promise<void> => {
    const position = { segment: end.position.segment, entry: end.position.entry + offset };
    const created = world.nextSerial();
    if (poison !== undefined) world.poisons.set(created, poison);
    await store.putEntries([{ log, position, created, type: 'Set', version: 1, ...changes }]);
  };
  const incurable = (code: string): Poison => ({ code, curedBy: Number.POSITIVE_INFINITY });
  // Kind 1, which a new version cures, has more weight: the version must come at the right time.
  const kind = random.pick([0, 1, 1, 1, 2, 3, 4, 5, 6]);
  world.trace(`${world.scheduler.now()} poison ${kind} for ${log} after ${end.position.entry}`);
  if (kind === 0) await put(1, incurable('ENTRY_TYPE_UNKNOWN'), { type: 'Pivot' });
  if (kind === 1) await put(1, { code: 'ENTRY_TYPE_UNKNOWN', curedBy: 2 }, { type: NOTE });
  if (kind === 2) await put(1, incurable('FOLD_FAILED'), { type: FAULTY });
  if (kind === 3) await put(1, incurable('ENTRY_VERSION_UNKNOWN'), { version: 9 });
  if (kind === 4) {
    await put(1, incurable('BODY_UNDECODABLE'), { body: { format: 'bytes', bytes: Uint8Array.of(0xc1, 1) } });
  }
  if (kind === 5)
    await put(1, incurable('EXTERNAL_MISSING'), { external: bodyKey(log, '0'.repeat(64), '0'.repeat(12)) });
  if (kind === 6) {
    await put(1, undefined, {});
    await put(2, undefined, { type: 'Insert Rows', body: { format: 'json', text: '[0,0]' } });
    store.lose(log, { segment: end.position.segment, entry: end.position.entry + 1 });
  }
}

/**
 * Appends a Snapshot entry with a value that is not its root, like another program or a restored
 * item. Half of the kinds do not have the form of a root.
 */
async function plantWrongRoot(world: World, log: LogId): Promise<void> {
  const { tables: store, random } = world;
  const [newest] = await store.newestSegments(log, 1, { consistent: true });
  const end = newest && (await store.newestEntry(log, newest.segment, { consistent: true }));
  if (end === undefined || end.type === RESERVED_TYPES.endSegment) return;
  const position = { segment: end.position.segment, entry: end.position.entry + 1 };
  const kind = random.integer(0, 5);
  const carried = await wrongRoot(world, { log, position }, kind);
  const entry: Entry = {
    log,
    position,
    created: world.nextSerial(),
    type: RESERVED_TYPES.snapshot,
    version: 1,
    ...carried,
  };
  try {
    await store.putEntries([entry]);
  } catch (error) {
    if (error instanceof EntryExistsError) return;
    throw error;
  }
  const isForeign = snapshotStatus(entry) === 'foreign';
  if (isForeign) world.foreign.push(entry);
  else world.damagedRoots.push({ log, position });
  const what = isForeign ? 'foreign' : 'damaged';
  world.trace(`${world.scheduler.now()} ${what} root ${kind} for ${log} ${position.segment}/${position.entry}`);
}

async function wrongRoot(
  world: World,
  { log, position }: EntryPlace,
  kind: number,
): Promise<Pick<Entry, 'body' | 'external'>> {
  const bytes = (bytes: Uint8Array): Pick<Entry, 'body'> => ({ body: { format: 'bytes', bytes } });
  if (kind === 1) return { body: { format: 'json', text: '{}' } };
  if (kind === 2) return { external: 's3://snapshots/1' };
  if (kind === 3) return { external: rootKey(log, position, '0'.repeat(64)) };
  if (kind > 3 && isHealthy(world, log)) {
    // The root of another snapshot, or the right root whose chunks were collected earlier.
    const at = kind === 4 ? { segment: 0, entry: 0 } : position;
    const deps = { ...world.deps(world, versionedSheet(world.version)), chunks: new MemoryChunks() };
    const built = await buildState(deps, log, { at, only: 'beginning' }).catch((error: unknown) => {
      // Without an archive, expired entries cannot be folded.
      if (!(error instanceof HistoryGoneError)) throw error;
    });
    if (built !== undefined) return bytes(encodeRoot(nativePlatform, built.root).stored);
  }
  return bytes(Uint8Array.of(1, 2, 3));
}

/**
 * Loads like a client. Compares the rows with the plain fold of as many entries as the load
 * reports.
 */
export async function loadAndCheck(world: World, ports: View, log: LogId): Promise<void> {
  const version = world.random.integer(1, world.version);
  const startedMs = world.scheduler.now();
  let rows: string[][];
  let loaded: Awaited<ReturnType<typeof loadState>>;
  try {
    loaded = await loadState(world.deps(ports, versionedSheet(version)), log);
    rows = await readRows(loaded.draft);
  } catch (error) {
    if (isInjected(error)) throw error;
    return checkPoisoned(world, log, version, error);
  }
  const all = world.tables.history(log);
  const { tailEntries, end } = loaded;
  const snapshot = loaded.base?.position;
  const base = snapshot && all.findIndex(({ entry }) => comparePositions(entry.position, snapshot) === 0);
  const taken = all.slice(0, (base ?? 0) + tailEntries);
  const last = taken.at(-1)?.entry.position ?? { segment: 0, entry: -1 };
  if (comparePositions(end, { segment: last.segment, entry: last.entry + 1 }) !== 0) {
    throw new Error(`a load of ${log} ends at ${JSON.stringify(end)}, and its last entry is ${JSON.stringify(last)}`);
  }
  const missed = all.slice(taken.length).find(({ atMs }) => atMs < startedMs - STALE_MS);
  if (missed !== undefined) throw new Error(`a load of ${log} missed ${JSON.stringify(missed.entry.position)}`);
  const expected = rowsAfter(world, taken, version);
  if (JSON.stringify(rows) !== JSON.stringify(expected)) {
    throw new Error(`a load of ${log} after ${taken.length} entries differs from their plain fold`);
  }
}

function checkPoisoned(world: World, log: LogId, version: number, error: unknown): void {
  const poison = firstPoison(world, log, version);
  const isOfLog = error instanceof LogfoldError && error.log === log;
  if (isOfLog && poison !== undefined && namesPoison(world, poison, error)) return;
  throw new Error(`a load of ${log} failed with another error than its poison ${JSON.stringify(poison)}`, {
    cause: error,
  });
}
