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
import { judgeBodies, settledBodies } from './orphan-bodies.ts';
import { Reaper, type Tally } from './reaper.ts';

/** {@link CollectDeps.maxMarks} where it is left out: some 180 MB. */
const MAX_MARKS = 2_000_000;

/** {@link CollectDeps.atLeast} by default: some seconds of work. */
const AT_LEAST = { objects: 10_000, marks: 10_000 };

export interface CollectDeps extends SnapshotStores, Deadline {
  readonly types: ReservedTypes;
  /** Ids of chunks that are held in memory at once; 2 million by default. A log with more is gone through in parts. */
  readonly maxMarks?: number | undefined;
  /** How many objects a turn looks at, and how many chunks it marks, however late it is; 10,000 each by default. */
  readonly atLeast?: { readonly objects: number; readonly marks: number } | undefined;
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
  /** The time was up: what this turn found is written down. The other objects need another turn. */
  | {
      readonly outcome: 'collecting';
      /** Turns that the collection had. */
      readonly turn: number;
      /** When its first turn began, in epoch milliseconds by the bucket's clock. */
      readonly since: number;
      /** Of this turn, as in a collection that had all the time it wants. */
      readonly removed: Tally;
      readonly condemned: Tally;
      readonly kept: Tally;
      readonly foreign: readonly string[];
    }
  /** The job asks for a turn of a collection that has ended, or that has begun again. */
  | { readonly outcome: 'passed' }
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
 *
 * A collection whose time is up writes down what it found and ends with `collecting`. The next turn goes on behind the last
 * key that was judged. Each turn finds out anew which time it is, what is kept and what that reaches, so for each object a turn is
 * as safe as a collection that has just begun. A job without a turn begins at the first key, whatever another one has reached.
 * @throws TimeUpError if the time is up before the chunks that are reached are known; then nothing is removed or written
 * that a next collection does not find out again
 * @throws LogNotFoundError, and whatever may pass
 */
export async function collectLog(
  deps: CollectDeps,
  { log, turn }: Pick<CollectJob, 'log' | 'turn'>,
  options: CollectOptions,
): Promise<CollectResult> {
  try {
    return await collect(deps, { log, turn }, options);
  } catch (error) {
    if (error instanceof LogfoldError && error.stopsLog) return { outcome: 'refused', error: error.at({ log }) };
    throw error;
  }
}

async function collect(
  deps: CollectDeps,
  { log, turn = 0 }: Pick<CollectJob, 'log' | 'turn'>,
  options: CollectOptions,
): Promise<CollectResult> {
  const { blobs } = deps;
  const dry = options.dryRunAt !== undefined;
  const graceMs = options.graceSeconds * 1000;
  // Before anything is written, so that no log begins to exist in the bucket alone.
  await queryNewestSegments(deps.store, log, { consistent: true });
  const { condemned: before, collected: note, dropped: known } = await readRecords(blobs, log);
  const from = turn === 0 ? undefined : before.next;
  if (turn > 0 && (from === undefined || from.turn < turn)) return { outcome: 'passed' };
  // The turn was done, and died before it asked for the next one.
  if (from !== undefined && from.turn > turn) return progressOf(from, NOTHING_DONE);
  const now = options.dryRunAt ?? (await writeCollected(blobs, log, note));
  const { since = now, after } = from ?? {};
  const condemnedEarlier = before.condemned.filter(([key]) => !isJudged(key, { after, to: undefined })).length;
  const reaper = new Reaper(blobs, { now, graceMs, before, condemnedEarlier: from && condemnedEarlier, dry });

  const builds = await listProgressRoots(deps, log);
  const segments = await Array.fromAsync(deps.store.segments(log, { consistent: true }));
  const { roots, dropped, externals } = await findKeptRoots(deps, {
    log,
    segments,
    keepSnapshots: options.keepSnapshots,
    now,
    graceMs,
    dropped: known,
  });

  // A walk that ends at damage leaves marks without what is below them, so those that may do so come last.
  const needed = roots.filter((root) => root.needed);
  const others = roots.filter((root) => !root.needed);
  const marker = new Marker(deps, log, [...needed, ...builds, ...others]);
  const reached = new Set<string | undefined>(segments.map(({ archive }) => archive));
  for (const { ref } of roots) if ('key' in ref) reached.add(ref.key);
  const isFlushed = settledBodies({ segments, externals, seen: note.bodies, reaper });
  const { foreign, bodies, to } = await sweepObjects(deps, log, { after, marker, reached, isFlushed, reaper });
  await judgeBodies(deps.store, { log, segments }, { bodies, reaper });
  await reaper.flush();
  const aborted = to === undefined ? await abortUploads(deps, log, reaper, dry) : 0;
  // What only an abandoned build reached is found once that is gone.
  const again = reaper.foundYoung || builds.length > 0 || from?.again === true;
  const next = to === undefined ? undefined : { turn: turn + 1, since, after: to, again };
  if (!dry) {
    const { young = [], old = [] } = Object.groupBy(dropped, ([, since]) => (now - since < graceMs ? 'young' : 'old'));
    const judged: JudgedKeys = { after, to };
    const found = { condemned: [...reaper.condemned], dropped: young, next };
    // In this order: what is in neither of the two is taken to be dropped now, and bodies that were looked at and not
    // condemned are not looked at again.
    if (old.length > note.dropped.length) await writeCollected(blobs, log, { ...note, dropped: old });
    await writeCondemned(blobs, log, found, { judged, again });
    // What was too much for this collection is new to the next one; what was written since its first turn, too.
    const bodies = reaper.overflowed ? note.bodies : since - graceMs;
    if (next === undefined) await writeCollected(blobs, log, { bodies, dropped: old });
  }
  if (next !== undefined) return progressOf(next, { ...reaper.tallies, foreign });
  const keys = dry ? { removed: reaper.removedKeys, condemned: [...reaper.condemned.keys()] } : undefined;
  return { outcome: 'collected', ...reaper.tallies, aborted, foreign, keys };
}

type Progress = Extract<CollectResult, { outcome: 'collecting' }>;

const NOTHING: Tally = { objects: 0, bytes: 0 };
const NOTHING_DONE = { removed: NOTHING, condemned: NOTHING, kept: NOTHING, foreign: [] };

function progressOf({ turn, since }: CollectionPlace, done: Omit<Progress, 'outcome' | 'turn' | 'since'>): Progress {
  return { outcome: 'collecting', turn, since, ...done };
}

/** Tells which chunks roots reach. It marks them in as many parts as memory asks for. */
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

  /** Whether a part is marked already, and a chunk belongs to another one. */
  needsAnother(id: string): boolean {
    return this.#marks !== undefined && partOf(id, this.#part.of).index !== this.#part.index;
  }

  /** Whether roots reach a chunk. It is quick for the ids of one part: ask in ascending order. */
  async reaches(id: string): Promise<boolean> {
    if (this.needsAnother(id)) this.#marks = undefined;
    for (let { of } = this.#part; this.#marks === undefined; of *= 4) {
      this.#part = partOf(id, of);
      this.#marks = await mark(this.#deps, this.#log, { roots: this.#roots, part: this.#part });
    }
    return this.#marks.has(id);
  }
}

/** The chunks of one part that roots reach; undefined where they are too many for one part of this size. */
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
      what: `what is to be kept of the log was read; ${marked} chunks of it were`,
      advice: "Run 'logfold collect LOG' where no time limit holds",
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
  /** The last key that earlier turns judged. */
  readonly after: string | undefined;
  readonly marker: Marker;
  readonly reached: ReadonlySet<string | undefined>;
  readonly isFlushed: (body: BlobInfo) => boolean;
  readonly reaper: Reaper;
}

interface Swept {
  readonly foreign: string[];
  /** Those that are not settled, to be looked at together. */
  readonly bodies: BlobInfo[];
  /** The last key that this turn went through, if the time was up before the end. */
  readonly to: string | undefined;
}

/** Goes through the objects of a log. With a deadline it marks only one part of the chunks: marking takes longest. */
async function sweepObjects(
  deps: CollectDeps,
  log: LogId,
  { after, marker, reached, isFlushed, reaper }: ObjectSweep,
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
    else if (kind === 'body' && !isFlushed(blob)) bodies.push(blob);
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
