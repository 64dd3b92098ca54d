import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { fromHex, toHex } from '../../../src/codec/bytes.ts';
import { type ChunkId, chunkId, unpackChunk } from '../../../src/codec/chunk.ts';
import { printable } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { comparePositions, formatPosition, MAX_NUMBER, type Position, START } from '../../../src/ids/position.ts';
import { type Entry, RESERVED_TYPES, rootOf } from '../../../src/log/entry.ts';
import type { EntryPlace } from '../../../src/log/item-codec.ts';
import { isFrozen, mayLackEntries, type Segment } from '../../../src/log/segment.ts';
import { keepsSnapshot, planRetention } from '../../../src/retention/retention-policy.ts';
import { buildState } from '../../../src/snapshot/build.ts';
import { listProgress, loadProgress } from '../../../src/snapshot/progress.ts';
import { flushDue, type Root } from '../../../src/snapshot/root.ts';
import { chunkStore, loadRoot, nodeStore } from '../../../src/snapshot/snapshots.ts';
import { readStop, stopHolds } from '../../../src/snapshot/stop.ts';
import { appliedMutation, Draft } from '../../../src/state/draft.ts';
import { stateTops } from '../../../src/state/state.ts';
import { ADOPT_KEY, archivePrefix, LOGS_PREFIX, logName, parseKey, parseListedId } from '../../../src/store/keys.ts';
import { NodeRef } from '../../../src/tree/node.ts';
import { walkChunks } from '../../../src/tree/walk.ts';
import { replay } from '../../../src/workers/audit/replay.ts';
import { verify } from '../../../src/workers/audit/verify.ts';
import { collectLog } from '../../../src/workers/gc/collect.ts';
import { MemoryChunks } from '../chunks.ts';
import { flushedHash } from '../models/flushed-hash.ts';
import { readRows, versionedSheet } from '../models/versioned-sheet.ts';
import {
  entriesBefore,
  firstPoison,
  isHealthy,
  mutationsAfter,
  namesPoison,
  rowsAfter,
  snapshotEntries,
} from './log-truth.ts';
import type { World } from './world.ts';

/** Checks that must hold after every step. */
export class StepChecks {
  readonly #world: World;
  readonly #last = new Map<string, number>();
  /** Snapshots, and chunks below them, that were read completely since the last loss. */
  readonly #readable = new Set<string>();
  #writes = 0;
  #stamps = 0;
  #losses = 0;

  constructor(world: World) {
    this.#world = world;
  }

  async afterStep(): Promise<void> {
    const { tables: store, blobs, registered: logs } = this.#world;
    for (const log of logs) await this.#noStopWithoutReason(log);
    for (const place of this.#world.removed.splice(0)) await this.#checkGone(place);
    if (store.writes === this.#writes && blobs.losses === this.#losses) return;
    if (store.stamps !== this.#stamps) for (const log of logs) await this.#noneExpires(log);
    this.#stamps = store.stamps;
    const lost = blobs.losses !== this.#losses;
    if (lost) this.#readable.clear();
    this.#writes = store.writes;
    this.#losses = blobs.losses;
    for (const log of logs) {
      for await (const item of store.segments(log)) {
        const { segment } = item;
        const lastSnapshot = item.lastSnapshot?.position.entry;
        const before = this.#last.get(`${log}/${segment}`) ?? -1;
        if ((lastSnapshot ?? -1) < before) throw new Error(`Last Snapshot of ${log}/${segment} moved back`);
        if (lastSnapshot === undefined) continue;
        this.#last.set(`${log}/${segment}`, lastSnapshot);
        // Without an archive, a snapshot is removed together with its segment.
        if (!mayLackEntries(item)) await this.#isReadable(log, { segment, entry: lastSnapshot });
      }
      if (lost) await this.#nothingIsLost(log);
    }
  }

  /**
   * Checks an entry that is gone from the table. It was covered, and if the policy archives, the
   * archive has it unchanged.
   */
  async #checkGone({ log, position }: EntryPlace): Promise<void> {
    const { store, tables, policy } = this.#world;
    const name = `${log}/${formatPosition(position)}`;
    const segment = await tables.getSegment(log, position.segment, { consistent: true });
    const segments = await Array.fromAsync(tables.segments(log, { consistent: true }));
    // The application of a mapped log starts segments before the previous one has a snapshot.
    const reach = this.#world.mapped === undefined ? 1 : segments.length;
    const later = segments.slice(position.segment + 1).slice(0, reach);
    if (segment === undefined || later.every(({ lastSnapshot }) => lastSnapshot === undefined))
      throw new Error(`${name} is gone but was not covered`);
    if (!isFrozen(segment)) throw new Error(`${name} is gone although its segment stays`);
    if (!policy.archive) return;
    if (segment.archive === undefined) throw new Error(`${name} is gone but was not archived`);
    await this.#world.mapped?.checkArchived(this.#world.store, log, position);
    if (this.#world.mapped !== undefined) return;
    const archived = await store.getEntry(log, position, { consistent: true });
    const written = tables.history(log).find(({ entry }) => comparePositions(entry.position, position) === 0)?.entry;
    if (!isDeepStrictEqual(withoutRoot(archived), withoutRoot(written)))
      throw new Error(`${name} is gone and its archived copy differs`);
  }

  /** Checks that no entry expires in a segment that stays and has no archive. */
  async #noneExpires(log: LogId): Promise<void> {
    const { tables } = this.#world;
    for await (const item of tables.segments(log)) {
      if (isFrozen(item)) continue;
      const { segment } = item;
      const range = { segment, from: 0, to: MAX_NUMBER + 1 };
      for await (const page of tables.items(log, range, { consistent: true })) {
        const stamped = page.find(({ X }) => X !== undefined);
        if (stamped === undefined) continue;
        throw new Error(`${log}/${segment}/${stamped.N?.N} expires although its segment stays`);
      }
    }
  }

  /**
   * After a deletion: every kept snapshot is whole, and every archive and every external body
   * exists.
   */
  async #nothingIsLost(log: LogId): Promise<void> {
    const { tables, blobs, policy } = this.#world;
    for await (const segment of tables.segments(log)) {
      const { archive } = segment;
      if (archive !== undefined && (await blobs.get(archive.key)) === undefined)
        throw new Error(`${archive.key} is gone`);
      if (isFrozen(segment) || policy.keepSnapshots === 'last') continue;
      const range = { segment: segment.segment, from: 0, to: Number.MAX_SAFE_INTEGER };
      for await (const page of tables.entries(log, range, { consistent: true })) {
        for (const entry of page) {
          if (entry.type !== this.#world.types.snapshot || rootOf(entry) === undefined) continue;
          if (this.#isDamaged(log, entry.position)) continue;
          await this.#isReadable(log, entry.position);
        }
      }
    }
    if (!policy.archive && policy.expire !== 'never') return;
    for (const { entry } of tables.history(log)) {
      if (entry.type === this.#world.types.snapshot) continue;
      const poisoned = this.#world.poisons.has(entry.created);
      if (entry.external === undefined || poisoned || (await blobs.get(entry.external)) !== undefined) continue;
      throw new Error(`the body of ${log}/${formatPosition(entry.position)} is gone`);
    }
  }

  async #noStopWithoutReason(log: LogId): Promise<void> {
    const stop = await readStop(this.#world.blobs, log);
    if (stop === undefined || !isHealthy(this.#world, log)) return;
    const { segment, entry } = stop;
    if (stop.code === 'ROOT_INVALID' && segment !== null && entry !== null) {
      if (this.#isDamaged(log, { segment, entry })) return;
    }
    throw new Error(`${log} is stopped although it is healthy: ${stop.message}`);
  }

  #isDamaged(log: LogId, position: Position): boolean {
    return this.#world.damagedRoots.some((each) => each.log === log && comparePositions(each.position, position) === 0);
  }

  async #isReadable(log: LogId, position: Position): Promise<void> {
    const entry = await this.#world.store.getEntry(log, position, { consistent: true });
    const ref = entry && rootOf(entry);
    if (ref === undefined) throw new Error(`Last Snapshot names ${log}/${formatPosition(position)}, which has no root`);
    // A flushed root replaces one with buffered edits, and has its own chunks.
    const name = `${log}/${formatPosition(position)} ${'key' in ref ? ref.key : toHex(ref.inline)}`;
    if (this.#readable.has(name)) return;
    const root = await loadRoot(this.#world.deps(), { log, position }, ref);
    const nodes = nodeStore(this.#world.deps(), log);
    const seen = (id: ChunkId): boolean => this.#readable.has(id) || !this.#readable.add(id);
    for (const top of stateTops(root.state)) {
      for await (const { id, holds } of walkChunks(nodes, top, { values: true, skip: seen })) {
        await (holds === 'value' ? nodes.loadValue(id) : nodes.load(NodeRef.stored(fromHex(id), UNCOUNTED)));
      }
    }
    this.#readable.add(name);
  }
}

/** The entry as clients wrote it. Builds add roots, some of them late. */
function withoutRoot(entry: Entry | undefined): object | undefined {
  if (entry === undefined) return undefined;
  const { expires: _, ...rest } = entry;
  if (entry.type !== RESERVED_TYPES.snapshot) return rest;
  const { body: __, external: ___, ...bare } = rest;
  return bare;
}

/** Fields of a reference that the check does not read. */
const UNCOUNTED = { count: 0, weight: 0 };

async function storedRoot(world: World, log: LogId, position: Position): Promise<Root | undefined> {
  const entry = await world.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  return ref && loadRoot(world.deps(), { log, position }, ref);
}

function isForeign({ foreign }: World, log: LogId, position: Position): boolean {
  return foreign.some((each) => each.log === log && comparePositions(each.position, position) === 0);
}

/** Checks that what another program wrote is as it was, in the table or in an archive. */
async function checkForeign(world: World, log: LogId): Promise<void> {
  for (const { position, body, external } of world.foreign.filter((each) => each.log === log)) {
    const entry = await world.store.getEntry(log, position, { consistent: true });
    const stored = await world.tables.getSegment(log, position.segment, { consistent: true });
    if (entry === undefined && stored !== undefined && mayLackEntries(stored)) continue;
    const at = `${log}/${formatPosition(position)}`;
    assert.deepEqual([entry?.body, entry?.external], [body, external], `the foreign root at ${at}`);
  }
}

/** Checks that no attribute is lost, whether its entry is in the table or in an archive. */
async function checkAttributes(world: World, log: LogId): Promise<void> {
  for (const { position, name } of world.attributes.filter((each) => each.log === log)) {
    const { segment, entry } = position;
    const range = { segment, from: entry, to: entry + 1 };
    const [item] = (await Array.fromAsync(world.store.items(log, range, { consistent: true }))).flat();
    const stored = await world.tables.getSegment(log, segment, { consistent: true });
    if (item === undefined && stored !== undefined && mayLackEntries(stored)) continue;
    assert.deepEqual(item?.[name], { BOOL: true }, `'${name}' of ${log}/${formatPosition(position)}`);
  }
}

/** The way in which lost records were made up for. */
export type Repair = 'late snapshot' | 'redelivery' | 'sweep';

/** Checks that must hold for a log when no work is left. */
export async function checkLogAtRest(world: World, log: LogId, repair: Repair): Promise<void> {
  const ids = world.tables.history(log).flatMap(({ entry }) => (entry.id === undefined ? [] : [toHex(entry.id)]));
  assert.equal(new Set(ids).size, ids.length, `an entry of ${log} was appended twice`);
  await checkAttributes(world, log);
  checkMutations(world, log);
  checkNumbers(world, log);
  const poison = firstPoison(world, log);
  await checkForeign(world, log);
  const requested = snapshotEntries(world, log).filter((position) => !isForeign(world, log, position));
  const isBuildable = (position: Position): boolean =>
    poison === undefined || comparePositions(position, poison.position) <= 0;
  const segments = await Array.fromAsync(world.tables.segments(log));
  // Snapshots of archived segments, and of segments whose entries may be gone, are no longer
  // completed.
  const stays = ({ segment }: Position): boolean => {
    const found = segments[segment];
    return found === undefined || !isFrozen(found);
  };
  const wanted = requested.filter(isBuildable);
  const complete: Position[] = [];
  let maker = versionedSheet(world.version);
  let newest: Root | undefined;
  for (const position of wanted) {
    const segment = segments[position.segment];
    if (segment === undefined || !keepsSnapshot(segment, position.entry, world.policy.keepSnapshots)) continue;
    const root = await storedRoot(world, log, position);
    if (root === undefined) continue;
    if (stays(position)) complete.push(position);
    maker = versionedSheet(root.reducer.version);
    await checkSnapshot(world, root);
    newest = root;
  }
  const last = await newestLastSnapshot(world, log);
  const kept = wanted.filter((position) => {
    const segment = segments[position.segment];
    return segment !== undefined && keepsSnapshot(segment, position.entry, world.policy.keepSnapshots);
  });
  // The next snapshot makes up for a job in the dead-letter queue. If that snapshot is stopped,
  // nothing does. In a mapped log only the newest snapshot is asked for again.
  const isMadeUpFor = poison === undefined || (repair !== 'late snapshot' && world.mapped === undefined);
  if (isMadeUpFor) assert.deepEqual(last, newest?.position, `Last Snapshot of ${log}`);
  else if (world.mapped !== undefined && last !== undefined && newest !== undefined) {
    assert.ok(comparePositions(last, newest.position) <= 0, `Last Snapshot of ${log}`);
  }
  // After a late snapshot only the newest one is promised. The same holds if the history of an
  // older one is gone.
  const promisesAll = repair !== 'late snapshot' && world.mapped === undefined;
  if (promisesAll && isWholeHistory(world, segments))
    assert.deepEqual(complete, kept.filter(stays), `complete snapshots of ${log}`);
  else if (poison === undefined && promisesNewest(world)) {
    // Nothing asks for the snapshot of the empty state.
    const due = world.mapped === undefined ? wanted : wanted.slice(1);
    assert.deepEqual(last, due.at(-1), `Last Snapshot of ${log}`);
  }

  // A sweep does not search for due flushes: the next snapshot flushes. A redelivered record of a
  // mapped log asks for the newest snapshot only if it is not complete.
  const looksForFlush = repair === 'late snapshot' || (repair === 'redelivery' && world.mapped === undefined);
  if (newest?.reducer.version === world.version && looksForFlush && isMadeUpFor) {
    assert.equal(flushDue(newest.state), undefined, `due flush of ${log}`);
  }

  if (poison === undefined && world.mapped === undefined) checkDivision(world, log);

  const stop = await readStop(world.blobs, log);
  const isAskedFor = promisesNewest(world) || startsUncovered(segments);
  if (poison !== undefined && !requested.every(isBuildable) && (isAskedFor || stop !== undefined)) {
    assert.ok(stop !== undefined && namesPoison(world, poison, stop), `the stop of ${log}: ${JSON.stringify(stop)}`);
    assert.ok(stop.message.includes(printable(log)));
  } else {
    // A slow worker of an old version may have left a stop that no longer holds.
    const end = { segment: Number.MAX_SAFE_INTEGER, entry: 0 };
    assert.notEqual(stop && stopHolds(stop, versionedSheet(world.version), end), true, `stop of ${log}`);
  }

  // Progress objects of unfinished builds must be right too: the next build continues from them.
  for (const progress of await listProgress(world.blobs, log)) {
    await checkSnapshot(world, await loadProgress(world.deps(), progress));
  }

  // A verification reads every entry, so it stops at a gap.
  if (poison?.code !== 'ENTRY_GAP') {
    const { keepSnapshots } = world.policy;
    assert.deepEqual((await verify({ ...world.deps(), keepSnapshots }, log)).problems, []);
  }
  if (poison === undefined && last !== undefined && isWholeHistory(world, segments)) {
    const replayed = await replay({ ...world.deps(world, maker), scratch: new MemoryChunks() }, log);
    assert.equal(replayed.equal, true, `replay of ${log}`);
    assert.deepEqual(replayed.snapshot, last, `replay of ${log}`);
  }
}

/**
 * Checks that the first entry of each mutation is in the order of the numbers, without a gap, and
 * that no confirmed mutation is lost.
 */
function checkMutations(world: World, log: LogId): void {
  const applied = new Map<string, number>();
  for (const { entry } of world.tables.history(log)) {
    if (entry.once === undefined) continue;
    const { client, mutation } = entry.once;
    const before = applied.get(client) ?? 0;
    if (mutation <= before) continue;
    assert.equal(mutation, before + 1, `the next mutation of ${client} in ${log}`);
    applied.set(client, mutation);
  }
  for (const [client, newest] of applied) {
    assert.ok((world.confirmed.get(client) ?? 0) <= newest, `the confirmed mutations of ${client} in ${log}`);
  }
}

/** Checks that a division policy makes nothing due, by plain counting in the open segment. */
function checkDivision(world: World, log: LogId): void {
  const { division, types } = world;
  const entries = world.tables.history(log).map(({ entry }) => entry);
  const newest = entries.at(-1)?.position ?? START;
  const open = entries.filter(({ position }) => position.segment === newest.segment);
  const since = newest.entry - (open.findLast(({ type }) => type === types.snapshot)?.position.entry ?? -1);
  if (since === 0) return;
  const name = `${log} at ${formatPosition(newest)}, ${since} entries after a Snapshot entry`;
  assert.ok(since < (division.snapshotEvery.entries ?? MAX_NUMBER), `a due Snapshot entry of ${name}`);
  assert.equal(division.snapshotEvery.minutes, undefined, `a Snapshot entry of ${name} that is due since minutes`);
  assert.ok(newest.entry < (division.segmentEvery.entries ?? MAX_NUMBER), `a due segment of ${name}`);
}

/**
 * Whether a snapshot of the newest Snapshot entry is due when no work is left. The Snapshot entries
 * of a mapped log exist anyway. Under a policy that counts only bytes, nothing asks for the
 * snapshots of few small items, so that nothing stops the log at an item among them either.
 */
function promisesNewest({ mapped, division }: World): boolean {
  const { entries, minutes } = division.snapshotEvery;
  return mapped === undefined || entries !== undefined || minutes !== undefined;
}

/** Whether the newest segment has no snapshot yet, and every policy asks for its first one. */
function startsUncovered(segments: readonly Segment[]): boolean {
  const newest = segments.at(-1);
  return newest !== undefined && newest.segment > 0 && newest.lastSnapshot === undefined;
}

/** Checks that the numbers of entries have no gap up to the first entry of another program. */
function checkNumbers(world: World, log: LogId): void {
  if (world.mapped !== undefined) return;
  const entries = world.tables.history(log).map(({ entry }) => entry);
  const foreign = entries.findIndex(({ number }) => number === undefined);
  let count = 0;
  for (const { position, type, number } of foreign === -1 ? entries : entries.slice(0, foreign)) {
    if (!world.types.includes(type)) count++;
    assert.equal(number, count, `the number of ${log}/${formatPosition(position)}`);
  }
}

/** Whether every entry that is gone from the table is in an archive. */
function isWholeHistory({ policy }: World, segments: readonly Segment[]): boolean {
  return policy.archive || segments.every(({ expiry }) => expiry === undefined);
}

/**
 * Checks that a snapshot is the fold of the entries before it, both by the plain model and by a
 * build without other snapshots.
 */
async function checkSnapshot(world: World, { log, position, reducer, state }: Root): Promise<void> {
  const at = `${log}/${formatPosition(position)}`;
  const deps = world.deps(world, versionedSheet(reducer.version));
  const nodes = nodeStore(deps, log);
  const before = entriesBefore(world, log, position);
  const expected = rowsAfter(world, before, reducer.version);
  assert.deepEqual(await readRows(new Draft(nodes, state)), expected, `rows of the snapshot at ${at}`);
  for (const [client, newest] of Object.entries(mutationsAfter(before))) {
    assert.equal(
      await appliedMutation(nodes, state, client),
      newest,
      `mutations of ${client} in the snapshot at ${at}`,
    );
  }
  if (!isWholeHistory(world, await Array.fromAsync(world.tables.segments(log)))) return;
  if (isBeforeLostStart(world, log, position)) return;
  const scratch = new MemoryChunks();
  const fresh = await buildState({ ...deps, chunks: scratch }, log, { at: position, only: 'beginning' });
  const stored = await flushedHash(chunkStore(world.blobs, log), state, deps.nodes);
  const built = await flushedHash(scratch, fresh.root.state, deps.nodes);
  assert.equal(stored, built, `state hash of the snapshot at ${at}`);
}

/**
 * Whether a position is directly after the first Snapshot entry of a mapped log whose first item is
 * missing. Reads that reach the next item show this entry, so a run may save progress after it.
 * Reads up to the position show nothing, so no build repeats it. The state there is empty.
 */
function isBeforeLostStart(world: World, log: LogId, position: Position): boolean {
  const lost = firstPoison(world, log);
  if (lost?.code !== 'ENTRY_GAP' || comparePositions(lost.position, START) !== 0) return false;
  return comparePositions(position, { segment: 0, entry: 1 }) === 0;
}

async function newestLastSnapshot(world: World, log: LogId): Promise<Position | undefined> {
  const positions: Position[] = [];
  for await (const { lastSnapshot } of world.store.segments(log)) {
    if (lastSnapshot !== undefined) positions.push(lastSnapshot.position);
  }
  return positions.at(-1);
}

/** Checks every object in the bucket, reachable or not: its bytes are valid and match its name. */
export async function checkObjects(world: World): Promise<void> {
  const { platform } = world.deps();
  const names = new Set(world.logs.map(logName));
  for await (const { key } of world.blobs.list('')) {
    // The note of the scan for logs belongs to no log.
    if (world.mapped !== undefined && key === ADOPT_KEY) continue;
    const listed = parseListedId(key);
    if (listed !== undefined && world.mapped === undefined && world.logs.includes(listed)) continue;
    const parsed = parseKey(key);
    assert.ok(parsed !== undefined && names.has(parsed.name), `${key} under ${LOGS_PREFIX}`);
    if (parsed.kind !== 'chunk' && parsed.kind !== 'root' && parsed.kind !== 'progress') continue;
    const stored = (await world.blobs.get(key)) ?? new Uint8Array();
    assert.equal(chunkId(platform, unpackChunk(platform, stored)), parsed.id);
  }
}

/** Checks the promises of retention when no work is left. */
export async function checkRetention(world: World): Promise<void> {
  await world.mapped?.application.checkTable();
  const { policy } = world;
  for (const log of world.logs) {
    const segments = await Array.fromAsync(world.tables.segments(log));
    const jobs = planRetention(segments, policy, world.scheduler.now());
    assert.deepEqual(jobs, [], `due jobs of ${log}`);
    for (const { segment, expiry } of segments) {
      if (expiry?.state !== 'expired' || expiry.at * 1000 > world.scheduler.now()) continue;
      const items = await Array.fromAsync(world.tables.items(log, { segment, from: 0, to: 1e9 }, { consistent: true }));
      // The virtual Snapshot entry of a mapped log's segment stays as long as the item before it.
      const left = items.flat().filter(({ T }) => world.mapped === undefined || !world.types.includes(T?.S ?? ''));
      assert.deepEqual(left, [], `entries of the expired segment ${log}/${segment}`);
    }
    const debris = await collectLog(
      world.deps(),
      { log },
      { ...policy, graceSeconds: 0, dryRunAt: world.scheduler.now() },
    );
    if (firstPoison(world, log) !== undefined) continue;
    assert.equal(debris.outcome, 'collected');
    assert.deepEqual('keys' in debris && debris.keys?.removed, [], `unreachable objects of ${log}`);
    assert.deepEqual(await Array.fromAsync(world.blobs.uploads('')), [], 'unfinished uploads');
    // Compare bucket and table directly, without the collector's view of needed objects.
    const named = new Set(segments.map(({ archive }) => archive?.key));
    for await (const { key } of world.blobs.list(archivePrefix(log)))
      assert.ok(named.has(key), `no segment names ${key}`);
  }
}
