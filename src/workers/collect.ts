import { LogfoldError } from '../errors.ts';
import { checkTypes, type ReservedTypes } from '../log/entry.ts';
import type { LogId } from '../log/log-id.ts';
import { queryNewestSegments } from '../log/newest.ts';
import { findKeptRoots, type KeptRoot, listProgressRoots } from '../snapshot/kept-roots.ts';
import { ALL_IDS, type IdPart, Marks, prefixesOf } from '../snapshot/mark.ts';
import { isDamage } from '../snapshot/progress.ts';
import type { RetentionPolicy } from '../snapshot/retention.ts';
import { loadRoot, nodeStore, type SnapshotStores } from '../snapshot/snapshots.ts';
import { stateTops } from '../state/state.ts';
import type { BlobInfo } from '../store/blob-store.ts';
import { chunkPrefix, logPrefix, parseKey } from '../store/keys.ts';
import { readRecords, writeCollected, writeCondemned } from './collection-record.ts';
import { checkTime, type Deadline } from './deadline.ts';
import type { CollectJob } from './job.ts';
import { judgeBodies, settledBodies } from './orphan-bodies.ts';
import { Reaper, type Tally } from './reaper.ts';

/** {@link CollectDeps.maxMarks} where it is left out: some 180 MB. */
const MAX_MARKS = 2_000_000;

export interface CollectDeps extends SnapshotStores, Deadline {
  readonly types?: ReservedTypes | undefined;
  /** Ids of chunks that are held in memory at once; 2 million by default. A log with more is gone through in parts. */
  readonly maxMarks?: number | undefined;
  /** Told how many objects have been looked at so far. */
  readonly onProgress?: ((objects: number) => void) | undefined;
}

export interface CollectOptions extends Pick<RetentionPolicy, 'graceSeconds' | 'keepSnapshots'> {
  /** Removes and writes nothing, and says what would go. The bucket's time is then taken to be this, in epoch milliseconds. */
  readonly dryRunAt?: number | undefined;
}

/** How a collection ended. */
export type CollectResult =
  | {
      readonly outcome: 'collected';
      /** Removed now, or what would be, in a dry run. */
      readonly removed: Tally;
      /** Reached by nothing now, and to be removed by a collection a grace period from now. */
      readonly condemned: Tally;
      readonly kept: Tally;
      /** Uploads that were begun long ago and never finished; given up now. */
      readonly aborted: number;
      /** Objects under the log's prefix that are none of logfold's; they are left alone. */
      readonly foreign: readonly string[];
      /** In a dry run, the keys that would be removed and condemned. */
      readonly keys?: { readonly removed: readonly string[]; readonly condemned: readonly string[] } | undefined;
    }
  /**
   * Something that is to be kept cannot be read, so that nobody knows what it reaches: nothing was removed but, at the
   * most, what is known not to be reached by it.
   */
  | { readonly outcome: 'refused'; readonly error: LogfoldError };

/**
 * Removes what nothing of a log reaches any more: chunks and roots that no kept snapshot needs, abandoned progress,
 * archives that no segment names, external bodies that no entry names, unfinished uploads.
 *
 * In two steps, a grace period apart by the bucket's own clock. The first condemns what is older than that and
 * unreachable; the second, some later collection, removes what was condemned, is unreachable still, and was not written
 * since. So a build that is under way keeps what it started from, whatever is dropped meanwhile: a snapshot that is
 * no longer kept counts as kept for a grace period more. With a grace period of 0 both are done at once, which is
 * safe only where nothing else works on the log.
 * @throws TimeUpError if the deadline passes first. What was removed until then was reached by nothing; nothing else is
 * written, so the next collection begins again.
 * @throws LogNotFoundError, and whatever may pass
 */
export async function collectLog(
  deps: CollectDeps,
  { log }: Pick<CollectJob, 'log'>,
  options: CollectOptions,
): Promise<CollectResult> {
  try {
    return await collect(deps, log, options);
  } catch (error) {
    if (error instanceof LogfoldError && error.stopsLog) return { outcome: 'refused', error: error.at({ log }) };
    throw error;
  }
}

async function collect(deps: CollectDeps, log: LogId, options: CollectOptions): Promise<CollectResult> {
  const { blobs } = deps;
  const dry = options.dryRunAt !== undefined;
  const graceMs = options.graceSeconds * 1000;
  // Before anything is written, so that no log begins to exist in the bucket alone.
  await queryNewestSegments(deps.store, log, { consistent: true });
  const { condemned: before, collected: note, dropped: known } = await readRecords(blobs, log);
  const now = options.dryRunAt ?? (await writeCollected(blobs, log, note));
  const reaper = new Reaper(blobs, { now, graceMs, before, dry });

  const builds = await listProgressRoots(deps, log);
  const segments = await Array.fromAsync(deps.store.segments(log, { consistent: true }));
  const { roots, dropped, externals } = await findKeptRoots(
    { ...deps, types: checkTypes(deps.types) },
    {
      log,
      segments,
      keepSnapshots: options.keepSnapshots,
      now,
      graceMs,
      dropped: known,
    },
  );

  let looked = 0;
  const look = (): void => {
    checkTimeOf(deps, log);
    deps.onProgress?.(++looked);
  };
  // A walk that ends at damage leaves marks without what is below them, so those that may do so come last.
  const needed = roots.filter((root) => root.needed);
  const others = roots.filter((root) => !root.needed);
  await sweepChunks(deps, log, { roots: [...needed, ...builds, ...others], reaper, look });
  const reached = new Set<string | undefined>(segments.map(({ archive }) => archive));
  for (const { ref } of roots) if ('key' in ref) reached.add(ref.key);
  const isSettled = settledBodies({ segments, externals, seen: note.bodies, reaper });
  const { foreign, bodies } = await sweepObjects(deps, log, { reached, isSettled, reaper, look });
  await judgeBodies(deps.store, { log, segments }, { bodies, reaper });
  await reaper.flush();
  const aborted = await abortUploads(deps, log, reaper, dry);
  if (!dry) {
    const { young = [], old = [] } = Object.groupBy(dropped, ([, since]) => (now - since < graceMs ? 'young' : 'old'));
    // What was too much for this collection is new to the next one.
    const bodies = reaper.overflowed ? note.bodies : now - graceMs;
    // In this order: what is in neither of the two is taken to be dropped now, and bodies that were looked at and not
    // condemned are not looked at again.
    if (old.length > note.dropped.length) await writeCollected(blobs, log, { ...note, dropped: old });
    // What only an abandoned build reached is found once that is gone.
    const again = reaper.foundYoung || builds.length > 0;
    await writeCondemned(blobs, log, { condemned: [...reaper.condemned], dropped: young }, again);
    await writeCollected(blobs, log, { bodies, dropped: old });
  }
  const keys = dry ? { removed: reaper.removedKeys, condemned: [...reaper.condemned.keys()] } : undefined;
  return { outcome: 'collected', ...reaper.tallies, aborted, foreign, keys };
}

interface ChunkSweep {
  readonly roots: readonly KeptRoot[];
  readonly reaper: Reaper;
  readonly look: () => void;
}

/** Goes through all chunks of a log, in as many parts as memory asks for. */
async function sweepChunks(deps: CollectDeps, log: LogId, sweep: ChunkSweep): Promise<void> {
  let part: IdPart = ALL_IDS;
  while (part.index < part.of) {
    const marks = await mark(deps, log, { roots: sweep.roots, part });
    if (marks === undefined) {
      part = { index: part.index * 4, of: part.of * 4 };
      continue;
    }
    for (const prefix of prefixesOf(part)) {
      for await (const blob of deps.blobs.list(chunkPrefix(log) + prefix)) {
        const parsed = parseKey(blob.key);
        // What else lies there is found with the other objects.
        if (parsed?.kind !== 'chunk') continue;
        sweep.look();
        if (marks.has(parsed.id)) sweep.reaper.keep(blob);
        else await sweep.reaper.judge(blob);
      }
    }
    part = { index: part.index + 1, of: part.of };
  }
}

/** The chunks of one part that roots reach; undefined where they are too many for one part of this size. */
async function mark(
  deps: CollectDeps,
  log: LogId,
  { roots, part }: { readonly roots: readonly KeptRoot[]; readonly part: IdPart },
): Promise<Marks | undefined> {
  const onMark = (): void => checkTimeOf(deps, log);
  const marks = new Marks(nodeStore(deps, log), part, deps.maxMarks ?? MAX_MARKS, onMark);
  for (const { position, ref, needed } of roots) {
    checkTimeOf(deps, log);
    try {
      const { state } = await loadRoot(deps, { log, position }, ref);
      for (const top of stateTops(state)) await marks.addBelow(top);
    } catch (error) {
      if (needed || !isDamage(error)) throw error;
    }
    if (marks.isFull) return undefined;
  }
  return marks;
}

function checkTimeOf(deps: CollectDeps, log: LogId): void {
  checkTime(deps, log, {
    what: 'the log was collected',
    advice: `Run logfold collect ${log} where no time limit holds`,
  });
}

interface ObjectSweep {
  readonly reached: ReadonlySet<string | undefined>;
  readonly isSettled: (body: BlobInfo) => boolean;
  readonly reaper: Reaper;
  readonly look: () => void;
}

/** Goes through all objects of a log but chunks; bodies that are not settled are handed back, to be looked at together. */
async function sweepObjects(
  deps: CollectDeps,
  log: LogId,
  { reached, isSettled, reaper, look }: ObjectSweep,
): Promise<{ readonly foreign: string[]; readonly bodies: BlobInfo[] }> {
  const foreign: string[] = [];
  const bodies: BlobInfo[] = [];
  for await (const blob of deps.blobs.list(logPrefix(log))) {
    const kind = parseKey(blob.key)?.kind;
    if (kind === 'chunk') continue;
    look();
    if (kind === undefined) foreign.push(blob.key);
    else if (kind === 'body' && !isSettled(blob)) bodies.push(blob);
    else if (kind === 'body' || kind === 'stop' || kind === 'collected' || reached.has(blob.key)) reaper.keep(blob);
    else await reaper.judge(blob);
  }
  return { foreign, bodies };
}

async function abortUploads(deps: CollectDeps, log: LogId, reaper: Reaper, dry: boolean): Promise<number> {
  let aborted = 0;
  for await (const upload of deps.blobs.uploads(logPrefix(log))) {
    if (!reaper.isOld({ modified: upload.started })) continue;
    if (!dry) await deps.blobs.abort(upload);
    aborted++;
  }
  return aborted;
}
