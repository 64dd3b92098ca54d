import { expect } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import { RESERVED_TYPES, type RootRef, rootOf } from '../../src/log/entry.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import { buildState } from '../../src/snapshot/build.ts';
import { chunkStore, loadRoot, nodeStore } from '../../src/snapshot/snapshots.ts';
import { stateTops } from '../../src/state/state.ts';
import type { BlobInfo, BlobStore } from '../../src/store/blob-store.ts';
import { archiveKey, bodyKey, chunkKey, collectedKey, condemnedKey, rootKey } from '../../src/store/keys.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type CollectDeps, type CollectOptions, type CollectResult, collectLog } from '../../src/workers/gc/collect.ts';
import { readCollected, readCondemned } from '../../src/workers/gc/collection-record.ts';
import { MemoryChunks, SMALL_SHAPE } from './chunks.ts';
import { flushedHash } from './models/flushed-hash.ts';
import { SheetLog, set } from './sheet-log.ts';
import { type Interceptor, interceptBlobStore, interceptLogStore } from './stores/interceptor.ts';
import { testDeployment } from './test-deployment.ts';

export const GRACE_SECONDS = 24 * 3600;
export const GRACE = GRACE_SECONDS * 1000;

export type Collected = Extract<CollectResult, { outcome: 'collected' }>;

/**
 * Collects a log.
 * @throws Error if the collection is refused or does not finish
 */
export async function collect(
  sheet: SheetLog,
  options: Partial<CollectOptions> = {},
  deps: Partial<CollectDeps> = {},
): Promise<Collected> {
  const result = await collectLog({ ...sheet.deps, ...deps }, sheet, {
    graceSeconds: GRACE_SECONDS,
    keepSnapshots: 'all',
    ...options,
  });
  if (result.outcome === 'refused') throw result.error;
  if (result.outcome !== 'collected') throw new Error(`the collection ended with '${result.outcome}'`);
  return result;
}

/** Dependencies of a collection on another bucket, with an interceptor for each operation. */
export function depsOn(
  sheet: SheetLog,
  bucket: BlobStore,
  intercept: Interceptor = (_, effect) => effect(),
): Pick<CollectDeps, 'store' | 'blobs'> {
  const blobs = interceptBlobStore(bucket, intercept);
  return testDeployment({ tables: interceptLogStore(sheet.tables, intercept), blobs });
}

/** The objects of a bucket, each with the time of its last write. */
export function objectsIn(blobs: BlobStore): Promise<BlobInfo[]> {
  return Array.fromAsync(blobs.list(''));
}

/**
 * Everything in a bucket: each object with the time of its last write and its bytes, and each
 * unfinished upload.
 */
export async function contentsOf(blobs: BlobStore): Promise<Readonly<Record<string, string>>> {
  const contents: Record<string, string> = {};
  for await (const { key, modified } of blobs.list('')) {
    contents[key] = `${modified} ${Buffer.from((await blobs.get(key)) ?? []).toString('base64')}`;
  }
  for await (const { key, started } of blobs.uploads('')) contents[key] = `unfinished since ${started}`;
  return contents;
}

/**
 * The bucket after a collection, comparable for any number of runs. A run does not know the name of
 * a root that an earlier run removed, so it forgets earlier that the root was dropped.
 */
export async function collectedContents(blobs: BlobStore, log: LogId): Promise<Readonly<Record<string, unknown>>> {
  const { bodies, dropped } = await readCollected(blobs, log);
  const record = await readCondemned(blobs, log);
  const contents = await contentsOf(blobs);
  const known = dropped.filter(([name]) => !name.startsWith('logs/') || name in contents);
  const condemned = { ...record, condemned: new Map(record.condemned) };
  return { ...contents, [collectedKey(log)]: { bodies, dropped: known }, [condemnedKey(log)]: condemned };
}

/** A bucket with the same objects and uploads, each with its original time. */
export async function copyOfBucket(blobs: BlobStore, now: () => number): Promise<MemoryBlobStore> {
  let time: number | undefined;
  const copy = new MemoryBlobStore(() => time ?? now());
  for await (const { key, modified } of blobs.list('')) {
    time = modified;
    await copy.put(key, (await blobs.get(key)) ?? new Uint8Array());
  }
  for await (const { key, started } of blobs.uploads('')) {
    time = started;
    beginUpload(copy, key);
  }
  time = undefined;
  return copy;
}

/** Begins an upload and never finishes it. */
export function beginUpload(blobs: BlobStore, key: string): void {
  async function* never(): AsyncGenerator<Uint8Array> {
    await new Promise<never>(() => undefined);
    yield new Uint8Array();
  }
  void blobs.putStream(key, never());
}

/**
 * The positions of a log's kept complete snapshots, with their roots. Only the entries in table and
 * archives decide.
 */
export async function keptSnapshots(
  sheet: SheetLog,
  keep: CollectOptions['keepSnapshots'] = 'all',
): Promise<{ readonly position: Position; readonly ref: RootRef }[]> {
  const kept: { position: Position; ref: RootRef }[] = [];
  for await (const { segment, lastSnapshot, archive } of sheet.tables.segments(sheet.log)) {
    const range = { segment, from: 0, to: MAX_NUMBER + 1 };
    for await (const page of sheet.deps.store.items(sheet.log, range, { consistent: true })) {
      for (const item of page.filter(({ T }) => T?.S === RESERVED_TYPES.snapshot)) {
        const entry = decodeEntry(item);
        const ref = rootOf(entry);
        const isLast =
          entry.position.entry === lastSnapshot?.position.entry ||
          (archive === undefined && entry.position.entry > (lastSnapshot?.position.entry ?? -1));
        if (ref !== undefined && (isLast || (keep === 'all' && archive === undefined))) {
          kept.push({ position: entry.position, ref });
        }
      }
    }
  }
  return kept;
}

/**
 * The keys of all objects that a log needs, computed without the collector. A collection that has
 * removed all garbage leaves exactly these.
 */
export async function neededKeys(
  sheet: SheetLog,
  keep: CollectOptions['keepSnapshots'] = 'all',
): Promise<readonly string[]> {
  const { log, deps } = sheet;
  const keys = new Set([collectedKey(log)]);
  for (const { position, ref } of await keptSnapshots(sheet, keep)) {
    if ('key' in ref) keys.add(ref.key);
    const { state } = await loadRoot(deps, { log, position }, ref);
    for (const top of stateTops(state)) {
      for await (const { id } of walkChunks(nodeStore(deps, log), top, { values: true })) keys.add(chunkKey(log, id));
    }
  }
  for await (const { segment, archive } of sheet.tables.segments(log)) {
    if (archive !== undefined) keys.add(archive.key);
    const range = { segment, from: 0, to: MAX_NUMBER + 1 };
    for await (const page of deps.store.items(log, range, { consistent: true })) {
      for (const { E } of page) if (E?.S !== undefined) keys.add(E.S);
    }
  }
  return [...keys].sort();
}

/**
 * Fills the sheet with texts of 7 characters, which differ for each name, and a few large texts.
 * The entry has an external body.
 */
export async function refill(sheet: SheetLog, name: string, rows = 25): Promise<Position> {
  const cells = Array.from({ length: rows * 4 }, (_, i) => [i >> 2, i & 3, `${name} ${1000 + i}`] as const);
  const large = Array.from({ length: 4 }, (_, i) => [i, 5, `${name} ${i} `.repeat(1_300)] as const);
  return sheet.edit({ type: 'Set', cells: [...cells, ...large] });
}

/**
 * A log with every kind of kept object and every kind of garbage. Its first segment is archived and
 * has two snapshots. The last one is kept, and its root was replaced.
 */
export async function livedLog(): Promise<SheetLog> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await refill(sheet, 'first');
  await sheet.completed();
  for (let i = 0; i < 3; i++) await sheet.edit(set(i * 8, 1, `edit ${i}`));
  const last = await sheet.completed();
  await sheet.flush(last);
  await sheet.edit(set(2, 2, 'late'));
  await sheet.covered();
  await sheet.archive();
  await refill(sheet, 'second');
  await sheet.completed();
  await sheet.edit(set(1, 1, 'later'));
  await sheet.completed();
  return sheet;
}

/** Keys of objects that no kept root reaches, by kind. */
export interface Debris {
  readonly chunk: string;
  readonly root: string;
  readonly progress: string;
  readonly archive: string;
  readonly body: string;
}

const NAME = 'ab'.repeat(32);

/** Creates the garbage that dying processes leave. */
export async function leaveDebris(sheet: SheetLog): Promise<Debris> {
  const { log, blobs } = sheet;
  const chunk = chunkKey(log, NAME);
  const root = rootKey(log, { segment: 0, entry: 1 }, NAME);
  const archive = archiveKey(log, 0, NAME.slice(0, 32));
  const body = bodyKey(log, NAME, NAME.slice(0, 12));
  for (const key of [chunk, root, archive, body]) await blobs.put(key, Uint8Array.of(1, 2, 3));
  beginUpload(blobs, archiveKey(log, 0, NAME.slice(1, 33)));
  await refill(sheet, 'wasted');
  await sheet.edit(set(0, 0, 'wasted'));
  await sheet.complete(await sheet.snapshot(), { rangeEntries: 1, deadline: 0 });
  const progress = (await sheet.keys()).find((key) => key.includes('/progress/'));
  if (progress === undefined) throw new Error('the build left no progress object');
  return { chunk, root, progress, archive, body };
}

/**
 * Expects that nothing is lost. Every object that entries and kept snapshots name exists and can be
 * read. Each of these snapshots equals the fold of the log from its beginning.
 */
export async function expectWhole(sheet: SheetLog, keep: CollectOptions['keepSnapshots'] = 'all'): Promise<void> {
  const { log, deps, blobs } = sheet;
  expect((await verify({ ...deps, keepSnapshots: keep }, log)).problems).toEqual([]);
  const there = new Set(await sheet.keys()).add(collectedKey(log));
  expect((await neededKeys(sheet, keep)).filter((key) => !there.has(key))).toEqual([]);
  for (const { position, ref } of await keptSnapshots(sheet, keep)) {
    const { state } = await loadRoot(deps, { log, position }, ref);
    const chunks = new MemoryChunks();
    const { root } = await buildState({ ...deps, chunks }, log, { at: position, only: 'beginning' });
    const stored = await flushedHash(chunkStore(blobs, log), state, deps.nodes);
    expect(stored).toBe(await flushedHash(chunks, root.state, deps.nodes));
  }
}

/** Runs some collections, each after a grace period, and returns their results. */
export async function collectAfterEachGrace(
  sheet: SheetLog,
  times: number,
  options?: Partial<CollectOptions>,
): Promise<Collected[]> {
  const results: Collected[] = [];
  for (let i = 0; i < times; i++) {
    sheet.nowMs += GRACE;
    results.push(await collect(sheet, options));
  }
  return results;
}

/** Number of large values in the kept snapshots of a lived log. Each is a separate chunk. */
export const LARGE_VALUES = 8;

/** A log after a long life, and its debris. */
export async function logWithDebris(): Promise<{ readonly sheet: SheetLog; readonly debris: Debris }> {
  const sheet = await livedLog();
  return { sheet, debris: await leaveDebris(sheet) };
}
