import type { LogId } from '../../ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../ids/position.ts';
import { type ReservedTypes, type RootRef, rootOf } from '../../log/entry.ts';
import { guardPointer, otherArchiveName } from '../../log/guard.ts';
import { decodeEntry } from '../../log/item-codec.ts';
import { lastWithoutRoot } from '../../log/last-snapshot.ts';
import { requireDense, requireKnown } from '../../log/newest.ts';
import { mayLackEntries, type Segment } from '../../log/segment.ts';
import { keepsSnapshot, type RetentionPolicy } from '../../retention/retention-policy.ts';
import { keyOfProgress, listProgress } from '../../snapshot/progress.ts';
import type { SnapshotStores } from '../../snapshot/snapshots.ts';
import { findBlob } from '../../store/blob-store.ts';
import { archivePrefix, parseKey, rootPrefix } from '../../store/keys.ts';

export interface KeptRoot {
  readonly position: Position;
  readonly ref: RootRef;
  /** False if perhaps no reader needs it any more. Damage in such a root is ignored. */
  readonly needed: boolean;
}

export interface KeptRoots {
  readonly roots: readonly KeptRoot[];
  /**
   * Names of dropped roots, with the times when they were dropped, in epoch milliseconds by the
   * bucket's clock.
   */
  readonly dropped: ReadonlyMap<string, number>;
  /** External bodies that entries in the table name. */
  readonly externals: ReadonlySet<string>;
  /** Texts of attributes that another program wrote. An object with such a key is kept. */
  readonly others: ReadonlySet<string>;
}

export interface KeptRootsDeps extends Pick<SnapshotStores, 'store' | 'blobs'> {
  readonly types: ReservedTypes;
}

export interface KeptRootsQuestion {
  readonly log: LogId;
  /**
   * All segments of the log, in ascending order, read after progress was listed: see
   * {@link listProgressRoots}.
   */
  readonly segments: readonly Segment[];
  readonly keepSnapshots: RetentionPolicy['keepSnapshots'];
  /** The bucket's time, in epoch milliseconds. */
  readonly now: number;
  /** How long a dropped root still counts as kept, in milliseconds. */
  readonly graceMs: number;
  /** Roots that earlier collections dropped. */
  readonly dropped: ReadonlyMap<string, number>;
}

/**
 * The roots of running builds. Call it before the segments are read: when a build completes, its
 * root moves from the progress onto a Snapshot entry.
 */
export async function listProgressRoots(deps: Pick<SnapshotStores, 'blobs'>, log: LogId): Promise<KeptRoot[]> {
  const all = await listProgress(deps.blobs, log);
  return all.map((each) => ({ position: each.reached, ref: { key: keyOfProgress(each) }, needed: false }));
}

/**
 * Finds the roots of all kept snapshots of a log, and of snapshots that were dropped less than a
 * grace period ago, because a build may have started from them. It decodes only Snapshot entries,
 * so other malformed entries do not matter. It passes over what another program wrote. If that
 * replaced Last Snapshot of a segment, all snapshots of the segment are kept that were not dropped.
 * @throws SegmentGapError if the table lacks a segment that other segments, entries, an archive or
 * a root imply
 * @throws ItemInvalidError if a Snapshot entry cannot be read
 * @throws RootInvalidError if the entry of Last Snapshot is missing, or has no root although its
 * segment is archived
 */
export async function findKeptRoots(deps: KeptRootsDeps, question: KeptRootsQuestion): Promise<KeptRoots> {
  const { log, segments, now, graceMs } = question;
  const roots: KeptRoot[] = [];
  const externals = new Set<string>();
  const others = new Set<string>();
  const dropped = new Map<string, number>();
  await requireAllSegments(deps, log, segments);
  const drop = (name: string, known: number | undefined, root: Omit<KeptRoot, 'needed'>): void => {
    const since = known ?? now;
    dropped.set(name, since);
    if (now - since < graceMs) roots.push({ ...root, needed: false });
  };
  const named = new Set<string>();
  for (const segment of segments) {
    const { archive, lastSnapshot } = segment;
    // If a segment was archived long ago, all its snapshots except the last were dropped long ago.
    const all = archive === undefined || (await isRecent(deps, archive.key, now - 2 * graceMs));
    const other = otherArchiveName(segment);
    if (other !== undefined) others.add(other);
    const texts = { externals, others };
    const found = await Array.fromAsync(all ? snapshotsOf(deps, segment, texts) : lastSnapshotRoot(deps, segment));
    const isOwn = found.some(({ position }) => position.entry === lastSnapshot?.position.entry);
    const isOther = lastSnapshot !== undefined && !isOwn && !mayLackEntries(segment);
    if (isOther && (await guardPointer(deps.store, segment)) === undefined) throw lastWithoutRoot(segment);
    const kept = isOwn || mayLackEntries(segment) ? segment : { ...segment, lastSnapshot: undefined };
    for (const root of found) {
      if ('key' in root.ref) named.add(root.ref.key);
      const name = droppedName(root.position);
      if (keepsRoot(kept, root.position.entry, question)) roots.push({ ...root, needed: true });
      else drop(name, question.dropped.get(name), root);
    }
  }
  for await (const { key } of deps.blobs.list(rootPrefix(log))) {
    const parsed = parseKey(key);
    if (parsed?.kind !== 'root' || named.has(key)) continue;
    const { position } = parsed;
    await requireKnown(deps.store, log, segments, position.segment);
    // The other snapshots of segments that were archived long ago are known only by their
    // positions.
    const since = question.dropped.get(key) ?? question.dropped.get(droppedName(position));
    drop(key, since, { position, ref: { key } });
  }
  return { roots, dropped, externals, others };
}

/**
 * Checks that the table has all segments of which there are entries or an archive.
 * @throws SegmentGapError if it lacks one
 */
async function requireAllSegments(deps: KeptRootsDeps, log: LogId, segments: readonly Segment[]): Promise<void> {
  requireDense(log, segments);
  const following = await deps.store.newestEntry(log, segments.length, { consistent: true });
  if (following !== undefined) await requireKnown(deps.store, log, segments, segments.length);
  for await (const { key } of deps.blobs.list(archivePrefix(log))) {
    const parsed = parseKey(key);
    if (parsed?.kind === 'archive') await requireKnown(deps.store, log, segments, parsed.segment);
  }
}

/**
 * Whether a complete snapshot is kept. A dropped snapshot stays dropped, even if a later policy
 * keeps more, because some of its chunks may be removed already. The exception is Last Snapshot,
 * which is always kept.
 */
export function keepsRoot(
  segment: Segment,
  entry: number,
  {
    keepSnapshots,
    dropped,
  }: { readonly keepSnapshots: RetentionPolicy['keepSnapshots']; readonly dropped: ReadonlyMap<string, number> },
): boolean {
  const wasDropped =
    entry !== segment.lastSnapshot?.position.entry && dropped.has(droppedName({ segment: segment.segment, entry }));
  return !wasDropped && keepsSnapshot(segment, entry, keepSnapshots);
}

/**
 * All complete snapshots of a segment, in the table or its archive. Adds the bodies of other
 * entries to `externals`, and what another program wrote onto Snapshot entries to `others`.
 */
async function* snapshotsOf(
  deps: KeptRootsDeps,
  { log, segment }: Segment,
  { externals, others }: { readonly externals: Set<string>; readonly others: Set<string> },
): AsyncGenerator<Omit<KeptRoot, 'needed'>> {
  const range = { segment, from: 0, to: MAX_NUMBER + 1 };
  for await (const page of deps.store.items(log, range, { consistent: true })) {
    for (const item of page) {
      if (item.T?.S !== deps.types.snapshot) {
        if (item.E?.S !== undefined) externals.add(item.E.S);
        continue;
      }
      const entry = decodeEntry(item);
      const ref = rootOf(entry);
      if (ref !== undefined) yield { position: entry.position, ref };
      else for (const key of [entry.external, entry.file]) if (key !== undefined) others.add(key);
    }
  }
}

async function* lastSnapshotRoot(
  deps: KeptRootsDeps,
  { log, lastSnapshot }: Segment,
): AsyncGenerator<Omit<KeptRoot, 'needed'>> {
  if (lastSnapshot === undefined) return;
  const { position } = lastSnapshot;
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  if (ref !== undefined) yield { position, ref };
}

/** Whether an object was written after a time, in epoch milliseconds. */
async function isRecent({ blobs }: KeptRootsDeps, key: string, after: number): Promise<boolean> {
  const blob = await findBlob(blobs, key);
  return blob !== undefined && blob.modified > after;
}

/**
 * The name under which a dropped snapshot is remembered. A root that no entry names is remembered
 * by its key.
 */
function droppedName({ segment, entry }: Position): string {
  return `${segment}/${entry}`;
}
