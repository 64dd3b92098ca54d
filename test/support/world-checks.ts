import { expect } from 'vitest';
import type { LogId } from '../../src/log/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../../src/log/position.ts';
import { rootOf } from '../../src/log/root-ref.ts';
import { buildState } from '../../src/snapshot/build.ts';
import { compactionDue } from '../../src/snapshot/compaction.ts';
import { listProgress, loadProgress } from '../../src/snapshot/progress.ts';
import type { Root } from '../../src/snapshot/root.ts';
import { chunkStore, loadRoot, nodeStore } from '../../src/snapshot/snapshots.ts';
import { readStop, stopHolds } from '../../src/snapshot/stop.ts';
import { Draft } from '../../src/state/draft.ts';
import { layersHash, stateTops } from '../../src/state/state.ts';
import { LOGS_PREFIX, parseKey } from '../../src/store/keys.ts';
import { fromHex } from '../../src/tree/bytes.ts';
import type { ChunkId } from '../../src/tree/chunk.ts';
import { chunkId, unpackChunk } from '../../src/tree/chunk-codec.ts';
import { NodeRef } from '../../src/tree/node-ref.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import { replay } from '../../src/workers/replay.ts';
import { verify } from '../../src/workers/verify.ts';
import { MemoryChunks } from './chunks.ts';
import { entriesBefore, firstPoison, isHealthy, rowsAfter, snapshotEntries } from './log-truth.ts';
import { settledHash } from './settled-hash.ts';
import { readRows, versionedSheet } from './versioned-sheet.ts';
import type { World } from './world.ts';

/** What must hold after every single step. */
export class StepChecks {
  readonly #world: World;
  readonly #last = new Map<string, number>();
  /** Snapshots, and chunks below them, that were read whole since the last loss. */
  readonly #readable = new Set<string>();
  #writes = 0;
  #losses = 0;

  constructor(world: World) {
    this.#world = world;
  }

  async afterStep(): Promise<void> {
    const { tables: store, blobs, logs } = this.#world;
    for (const log of logs) await this.#noStopWithoutReason(log);
    if (store.writes === this.#writes && blobs.losses === this.#losses) return;
    if (blobs.losses !== this.#losses) this.#readable.clear();
    this.#writes = store.writes;
    this.#losses = blobs.losses;
    for (const log of logs) {
      for await (const { segment, lastSnapshot } of store.segments(log)) {
        const before = this.#last.get(`${log}/${segment}`) ?? -1;
        if ((lastSnapshot ?? -1) < before) throw new Error(`Last Snapshot of ${log}/${segment} went back`);
        if (lastSnapshot === undefined) continue;
        this.#last.set(`${log}/${segment}`, lastSnapshot);
        await this.#isReadable(log, { segment, entry: lastSnapshot });
      }
    }
  }

  async #noStopWithoutReason(log: LogId): Promise<void> {
    const stop = await readStop(this.#world.blobs, log);
    if (stop === undefined || !isHealthy(this.#world, log)) return;
    throw new Error(`${log} is stopped though nothing is wrong with it: ${stop.message}`);
  }

  async #isReadable(log: LogId, position: Position): Promise<void> {
    const root = await storedRoot(this.#world, log, position);
    if (root === undefined)
      throw new Error(`Last Snapshot names ${log}/${formatPosition(position)}, which has no root`);
    // A settled root takes the place of one with waiting edits, and has chunks of its own.
    const name = `${log}/${formatPosition(position)} ${layersHash(this.#world.deps().platform, root.state)}`;
    if (this.#readable.has(name)) return;
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

/** A reference of which only the id is looked at. */
const UNCOUNTED = { count: 0, weight: 0 };

async function storedRoot(world: World, log: LogId, position: Position): Promise<Root | undefined> {
  const entry = await world.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  return ref && loadRoot(world.deps(), { log, position }, ref);
}

/**
 * What must hold of a log once nothing is left to do.
 * @param complete whether every Snapshot entry is to be completed, and not only the newest
 */
export async function checkSettledLog(world: World, log: LogId, complete: boolean): Promise<void> {
  const poison = firstPoison(world, log);
  const asked = snapshotEntries(world, log);
  const isBuildable = (position: Position): boolean =>
    poison === undefined || comparePositions(position, poison.position) <= 0;
  const wanted = asked.filter(isBuildable);
  const completed: Position[] = [];
  let maker = versionedSheet(world.version);
  let newest: Root | undefined;
  for (const position of wanted) {
    const root = await storedRoot(world, log, position);
    if (root === undefined) continue;
    completed.push(position);
    maker = versionedSheet(root.reducer.version);
    await checkSnapshot(world, root);
    newest = root;
  }
  const last = await newestLastSnapshot(world, log);
  expect(last, `Last Snapshot of ${log}`).toEqual(completed.at(-1));
  if (complete) expect(completed, `completed snapshots of ${log}`).toEqual(wanted);
  else if (poison === undefined) expect(last, `Last Snapshot of ${log}`).toEqual(wanted.at(-1));

  if (newest?.reducer.version === world.version) {
    expect(compactionDue(newest.state), `settling of ${log}`).toBeUndefined();
  }

  const stop = await readStop(world.blobs, log);
  if (poison !== undefined && !asked.every(isBuildable)) {
    expect(stop, `stop of ${log}`).toMatchObject({ code: poison.code, ...poison.position });
    expect(stop?.message).toContain(log);
  } else {
    // A worker of an old version that was slow may have left a stop that holds for nobody any more.
    const end = { segment: Number.MAX_SAFE_INTEGER, entry: 0 };
    expect(stop && stopHolds(stop, versionedSheet(world.version), end), `stop of ${log}`).not.toBe(true);
  }

  // What unfinished builds left behind is right as well, for the next one to go on from.
  for (const progress of await listProgress(world.blobs, log)) {
    await checkSnapshot(world, await loadProgress(world.deps(), progress));
  }

  // A verification reads every entry, and so ends at a gap.
  if (poison?.code !== 'ENTRY_GAP') expect((await verify(world.deps(), log)).problems).toEqual([]);
  if (poison === undefined) {
    const replayed = await replay({ ...world.deps(world, maker), scratch: new MemoryChunks() }, log);
    expect(replayed, `replay of ${log}`).toMatchObject({ equal: true, snapshot: last });
  }
}

/** A snapshot is the fold of the entries before it: by the plain model, and by a build that knows no other snapshot. */
async function checkSnapshot(world: World, { log, position, reducer, state }: Root): Promise<void> {
  const at = `${log}/${formatPosition(position)}`;
  const scratch = new MemoryChunks();
  const deps = { ...world.deps(world, versionedSheet(reducer.version)), chunks: scratch };
  const fresh = await buildState(deps, log, { at: position, only: 'beginning' });
  const stored = await settledHash(chunkStore(world.blobs, log), state, deps.nodes);
  expect(stored, `state hash of the snapshot at ${at}`).toBe(await settledHash(scratch, fresh.root.state, deps.nodes));
  const rows = await readRows(new Draft(nodeStore(deps, log), state));
  const expected = rowsAfter(world, entriesBefore(world, log, position), reducer.version);
  expect(rows, `rows of the snapshot at ${at}`).toEqual(expected);
}

async function newestLastSnapshot(world: World, log: LogId): Promise<Position | undefined> {
  const positions: Position[] = [];
  for await (const { segment, lastSnapshot } of world.store.segments(log)) {
    if (lastSnapshot !== undefined) positions.push({ segment, entry: lastSnapshot });
  }
  return positions.at(-1);
}

/** Whatever lies in the bucket, reachable or left over, is whole and under a name that says what it is. */
export async function checkObjects(world: World): Promise<void> {
  const { platform } = world.deps();
  for await (const { key } of world.blobs.list('')) {
    const parsed = parseKey(key);
    expect(parsed !== undefined && world.logs.includes(parsed.log), `${key} under ${LOGS_PREFIX}`).toBe(true);
    if (parsed?.kind !== 'chunk' && parsed?.kind !== 'root' && parsed?.kind !== 'progress') continue;
    const stored = (await world.blobs.get(key)) ?? new Uint8Array();
    expect(chunkId(platform, unpackChunk(platform, stored))).toBe(parsed.id);
  }
}
