import { LogfoldError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import { isDamage } from '../../snapshot/progress.ts';
import { loadRoot, nodeStore, type SnapshotStores } from '../../snapshot/snapshots.ts';
import { stateTops } from '../../state/state.ts';
import type { BlobInfo } from '../../store/blob-store.ts';
import { logPrefix, parseKey } from '../../store/keys.ts';
import { checkTime, type Deadline, isTimeUp } from '../jobs/deadline.ts';
import type { CollectJob } from '../jobs/job.ts';
import { count, formatBytes, IN_PART, NOTHING_TO_DO, type Refused, type Report, reportUndone } from '../jobs/report.ts';
import {
  type CollectionPlace,
  isJudged,
  type JudgedKeys,
  readRecords,
  writeCollected,
  writeCondemned,
} from './collection-record.ts';
import { findKeptRoots, type KeptRoot, listProgressRoots } from './kept-roots.ts';
import { ALL_IDS, type IdPart, Marks, partOf } from './mark.ts';
import { judgeBodies, keptBodies } from './orphan-bodies.ts';
import { Reaper, type ReaperTallies, type Tally } from './reaper.ts';

/** Default of {@link CollectDeps.maxMarks}: some 180 MB. */
const MAX_MARKS = 2_000_000;

/** Default of {@link CollectDeps.atLeast}: a few seconds of work. */
const AT_LEAST = { objects: 10_000, marks: 10_000 };

export interface CollectDeps extends SnapshotStores, Deadline {
  readonly types: ReservedTypes;
  /**
   * The most chunk ids in memory; 2 million by default. A log with more chunks is collected in
   * parts.
   */
  readonly maxMarks?: number;
  /**
   * Objects that a run judges and chunks that it marks even if its time is up; 10,000 each by
   * default.
   */
  readonly atLeast?: { readonly objects: number; readonly marks: number } | undefined;
  /** Called with the number of judged objects. */
  readonly onProgress?: (objects: number) => void;
}

export interface CollectOptions extends Pick<RetentionPolicy, 'graceSeconds' | 'keepSnapshots'> {
  /**
   * Makes a dry run, which writes and removes nothing and returns what it would remove. The value
   * is the time of the run on the bucket's clock, in epoch milliseconds.
   */
  readonly dryRunAt?: number | undefined;
}

export type CollectResult =
  | (ReaperTallies & {
      readonly outcome: 'collected';
      /** Aborted uploads, which were started long ago and not finished. */
      readonly aborted: number;
      /**
       * Objects under the log's prefix that do not belong to logfold. A collection ignores them.
       */
      readonly foreign: readonly string[];
      /** In a dry run, the keys that it would remove and condemn. */
      readonly keys?: { readonly removed: readonly string[]; readonly condemned: readonly string[] } | undefined;
    })
  /**
   * The time was up. The findings of this run are stored; a continuation judges the other objects.
   */
  | (ReaperTallies & {
      readonly outcome: 'collecting';
      /** Runs of the collection so far, which is the next job's `continuation`. */
      readonly continuation: number;
      /** Start of the first run, in epoch milliseconds by the bucket's clock. */
      readonly since: number;
      readonly foreign: readonly string[];
    })
  /** The job continues a collection that has ended or started over. */
  | { readonly outcome: 'passed' }
  /**
   * A kept object cannot be read, so the objects that it reaches are unknown. The collection
   * removed at most objects that it certainly does not reach.
   */
  | Refused;

export function reportCollection(result: CollectResult): Report {
  switch (result.outcome) {
    case 'collected': {
      const { removed, condemned, aborted } = result;
      const isIdle = removed.objects + condemned.objects + aborted === 0;
      const done = `${count(removed.objects, 'object')} removed, ${formatBytes(removed.bytes)}`;
      const later = `${condemned.objects} removable after the grace period, ${formatBytes(condemned.bytes)}`;
      const uploads = aborted === 0 ? '' : `; ${count(aborted, 'unfinished upload')} aborted`;
      return { text: `${done}; ${later}${uploads}`, level: isIdle ? 'quiet' : 'info' };
    }
    case 'collecting':
      return IN_PART;
    case 'passed':
      return NOTHING_TO_DO;
    default:
      return reportUndone(result);
  }
}

/**
 * Collects the garbage of a log: chunks and roots that no kept snapshot needs, abandoned progress,
 * archives that no segment names, external bodies that no entry names, and unfinished uploads.
 *
 * It takes two steps, a grace period apart by the bucket's clock. The first collection condemns
 * unreachable objects that are older than a grace period. A later collection removes condemned
 * objects that are still unreachable and were not written since. A dropped snapshot counts as kept
 * for one more grace period, so that running builds keep their base. With a grace period of 0,
 * objects are removed immediately. This is safe only if nothing else works on the log.
 *
 * If the time is up, the collection stores its findings and ends with `collecting`. A continuation
 * starts after the last judged key. Each run determines the time, the kept roots and their chunks
 * again, so it is as safe as a new collection. A job without `continuation` starts at the first
 * key.
 *
 * It throws transient errors too; the job is then retried.
 * @throws TimeUpError if time runs out before the reachable chunks are known; the next collection
 * then starts over
 * @throws LogNotFoundError if the log has no segment
 */
export async function collectLog(
  deps: CollectDeps,
  { log, continuation }: Pick<CollectJob, 'log' | 'continuation'>,
  options: CollectOptions,
): Promise<CollectResult> {
  try {
    return await collect(deps, { log, continuation }, options);
  } catch (error) {
    if (error instanceof LogfoldError && error.stopsLog) return { outcome: 'refused', error: error.at({ log }) };
    throw error;
  }
}

async function collect(
  deps: CollectDeps,
  { log, continuation = 0 }: Pick<CollectJob, 'log' | 'continuation'>,
  options: CollectOptions,
): Promise<CollectResult> {
  const { blobs } = deps;
  const dry = options.dryRunAt !== undefined;
  const graceMs = options.graceSeconds * 1000;
  // Before the first write, so that a missing log does not come to exist in the bucket.
  await queryNewestSegments(deps.store, log, { consistent: true });
  const { condemned: before, collected: note, dropped: known } = await readRecords(blobs, log);
  const from = continuation === 0 ? undefined : before.next;
  if (continuation > 0 && (from === undefined || from.turn < continuation)) return { outcome: 'passed' };
  // This run was done before, and died before it sent its continuation.
  if (from !== undefined && from.turn > continuation) return progressOf(from, NOTHING_DONE);
  const now = options.dryRunAt ?? (await writeCollected(blobs, log, note));
  const { since = now, after } = from ?? {};
  const condemnedEarlier = before.condemned.filter(([key]) => !isJudged(key, { after, to: undefined })).length;
  const reaper = new Reaper(blobs, { now, graceMs, before, condemnedEarlier: from && condemnedEarlier, dry });

  const builds = await listProgressRoots(deps, log);
  const segments = await Array.fromAsync(deps.store.segments(log, { consistent: true }));
  const {
    roots,
    dropped,
    externals,
    others: named,
  } = await findKeptRoots(deps, {
    log,
    segments,
    keepSnapshots: options.keepSnapshots,
    now,
    graceMs,
    dropped: known,
  });

  // A walk that ends at a damaged chunk leaves marked nodes whose children are not marked. Roots
  // that may do so come last.
  const needed = roots.filter((root) => root.needed);
  const others = roots.filter((root) => !root.needed);
  const marker = new Marker(deps, log, [...needed, ...builds, ...others]);
  const reached = new Set<string | undefined>([...segments.map(({ archive }) => archive?.key), ...named]);
  for (const { ref } of roots) if ('key' in ref) reached.add(ref.key);
  const isKeptBody = keptBodies({ segments, externals: externals.union(named), seen: note.bodies, reaper });
  const { foreign, bodies, to } = await sweepObjects(deps, log, { after, marker, reached, isKeptBody, reaper });
  await judgeBodies(deps.store, { log, segments }, { bodies, reaper });
  await reaper.flush();
  const aborted = to === undefined ? await abortUploads(deps, log, reaper, dry) : 0;
  // The chunks of an abandoned build are found after its progress was removed.
  const again = reaper.foundYoung || builds.length > 0 || from?.again === true;
  const next = to === undefined ? undefined : { turn: continuation + 1, since, after: to, again };
  if (!dry) {
    const { young = [], old = [] } = Object.groupBy(dropped, ([, since]) => (now - since < graceMs ? 'young' : 'old'));
    const judged: JudgedKeys = { after, to };
    const found = { condemned: [...reaper.condemned], dropped: young, next };
    // The order matters. A root that neither object names counts as dropped now. A body that was
    // checked and not condemned is not checked again.
    const noted = [...new Map([...note.dropped, ...old])];
    if (noted.length > note.dropped.length) await writeCollected(blobs, log, { ...note, dropped: noted });
    await writeCondemned(blobs, log, found, { judged, again });
    // The next collection checks bodies that this one had no room for, or that were written since
    // its first run.
    const bodies = reaper.overflowed ? note.bodies : since - graceMs;
    if (next === undefined) await writeCollected(blobs, log, { bodies, dropped: old });
  }
  if (next !== undefined) return progressOf(next, { ...reaper.tallies, foreign });
  const keys = dry ? { removed: reaper.removedKeys, condemned: [...reaper.condemned.keys()] } : undefined;
  return { outcome: 'collected', ...reaper.tallies, aborted, foreign, keys };
}

type Collecting = Extract<CollectResult, { outcome: 'collecting' }>;

const NOTHING: Tally = { objects: 0, bytes: 0 };
const NOTHING_DONE = { removed: NOTHING, condemned: NOTHING, kept: NOTHING, foreign: [] };

function progressOf(
  { turn, since }: CollectionPlace,
  done: Omit<Collecting, 'outcome' | 'continuation' | 'since'>,
): Collecting {
  return { outcome: 'collecting', continuation: turn, since, ...done };
}

/** Finds the chunks that roots reach. If they do not fit into memory, it marks them in parts. */
class Marker {
  readonly #deps: CollectDeps;
  readonly #log: LogId;
  readonly #roots: readonly KeptRoot[];
  #part: IdPart = ALL_IDS;
  #marks: Marks | undefined;

  constructor(deps: CollectDeps, log: LogId, roots: readonly KeptRoot[]) {
    this.#deps = deps;
    this.#log = log;
    this.#roots = roots;
  }

  /** Whether a part is marked, but the chunk belongs to another part. */
  needsAnother(id: string): boolean {
    return this.#marks !== undefined && partOf(id, this.#part.of).index !== this.#part.index;
  }

  /**
   * Whether roots reach a chunk. Call it in ascending order of ids, because a change of parts is
   * slow.
   */
  async reaches(id: string): Promise<boolean> {
    if (this.needsAnother(id)) this.#marks = undefined;
    for (let { of } = this.#part; this.#marks === undefined; of *= 4) {
      this.#part = partOf(id, of);
      this.#marks = await mark(this.#deps, this.#log, { roots: this.#roots, part: this.#part });
    }
    return this.#marks.has(id);
  }
}

/** The chunks of one part that roots reach; undefined if the part has too many. */
async function mark(
  deps: CollectDeps,
  log: LogId,
  { roots, part }: { readonly roots: readonly KeptRoot[]; readonly part: IdPart },
): Promise<Marks | undefined> {
  const { marks: atLeast } = deps.atLeast ?? AT_LEAST;
  let marked = 0;
  const onMark = (): void => {
    if (++marked <= atLeast) return;
    checkTime(deps, log, {
      what: `the chunks of all kept snapshots were read; ${marked} were`,
      advice: "Run 'logfold collect LOG' on your own machine, where there is no time limit",
    });
  };
  const marks = new Marks(nodeStore(deps, log), part, deps.maxMarks ?? MAX_MARKS, onMark);
  for (const { position, ref, needed } of roots) {
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

interface ObjectSweep {
  /** The last key that earlier runs judged. */
  readonly after: string | undefined;
  readonly marker: Marker;
  readonly reached: ReadonlySet<string | undefined>;
  readonly isKeptBody: (body: BlobInfo) => boolean;
  readonly reaper: Reaper;
}

interface Swept {
  readonly foreign: string[];
  /** Bodies that may be garbage, to be judged together. */
  readonly bodies: BlobInfo[];
  /** The last key that this run judged, if the time was up before the end. */
  readonly to: string | undefined;
}

/**
 * Judges the objects of a log. With a deadline it marks only one part of the chunks, because
 * marking takes longest.
 */
async function sweepObjects(
  deps: CollectDeps,
  log: LogId,
  { after, marker, reached, isKeptBody, reaper }: ObjectSweep,
): Promise<Swept> {
  const { objects } = deps.atLeast ?? AT_LEAST;
  const foreign: string[] = [];
  const bodies: BlobInfo[] = [];
  let [looked, last] = [0, after];
  for await (const blob of deps.blobs.list(logPrefix(log), { after })) {
    const parsed = parseKey(blob.key);
    const kind = parsed?.kind;
    const chunk = parsed?.kind === 'chunk' ? parsed.id : undefined;
    const isLong = deps.deadline !== undefined && chunk !== undefined && marker.needsAnother(chunk);
    if (isLong || (looked >= Math.max(1, objects) && isTimeUp(deps))) return { foreign, bodies, to: last };
    if (kind === undefined) foreign.push(blob.key);
    else if (chunk !== undefined && (await marker.reaches(chunk))) reaper.keep(blob);
    else if (kind === 'body' && !isKeptBody(blob)) bodies.push(blob);
    else if (kind === 'body' || kind === 'stop' || kind === 'collected' || reached.has(blob.key)) reaper.keep(blob);
    else await reaper.judge(blob);
    looked++;
    deps.onProgress?.(looked);
    last = blob.key;
  }
  return { foreign, bodies, to: undefined };
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
