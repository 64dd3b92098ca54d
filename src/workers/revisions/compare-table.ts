import type { BlobStore } from '../../store/blob-store.ts';
import { type ItemScanPart, isAtEnd, type ScanPlace } from '../../store/scan-places.ts';
import { countMetric, type Report, secondsMetric } from '../jobs/report.ts';
import { type CompareNote, FirstLooks, isComplete, readCompareNote, writeCompareNote } from './compare-note.ts';
import { type ComparedPage, type ComparisonDeps, type DifferingLog, TableComparison } from './table-comparison.ts';

/** Parts of the source table, and of the logs, that are read concurrently. */
const PARTS = 4;
/** Differences of one part that wait at the same time. */
const MAX_WAITING = 20_000;
/**
 * How often the note is written, in milliseconds. After a crash, at most this much is read again.
 */
const NOTE_EVERY_MS = 60_000;
/** Time that a run with a deadline keeps for its last differences, in milliseconds. */
const RESERVE_MS = 60_000;
/**
 * A record of DynamoDB Streams is gone after 24 hours, and its delivery takes minutes. After this
 * time, no change is on its way that is older than a look at its item.
 */
const ON_THE_WAY_SECONDS = 25 * 3600;

export interface CompareDeps extends ComparisonDeps {
  readonly blobs: BlobStore;
  /** Epoch milliseconds by the clock of this machine, which may be wrong. */
  readonly now: () => number;
  /** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /**
   * Called after each page of the source table, and after each log; the run continues when it
   * resolves.
   */
  readonly onPage?: (() => Promise<void>) | undefined;
}

export interface CompareOptions {
  /**
   * Seconds after which this run reads an item again that differs from its newest revision. It must
   * be more than the age of the stream's records when they are recorded. Otherwise a change that is
   * on its way is recorded as a gap first, with a wrong time. By default the run leaves differences
   * to a later run, 25 hours after the first look: the stream has no older record then.
   */
  readonly settleSeconds?: number | undefined;
  /**
   * Epoch milliseconds; none by default. The run stops reading early enough to wait for its last
   * differences, so it must be later than `settleSeconds` from now.
   */
  readonly deadline?: number | undefined;
  /** Aborted when the run should end. */
  readonly stop?: AbortSignal | undefined;
}

export interface CompareResult {
  /** Items of the source table, and items that exist by their revisions, that were compared. */
  readonly items: number;
  /** `Gap` revisions that were appended. */
  readonly gaps: number;
  /** Logs that could not be read. */
  readonly failed: number;
  /** Differences of this comparison that a later one looks at again. */
  readonly waiting: number;
  /** Whether an earlier run had compared a part. */
  readonly continued: boolean;
  /** Whether everything is compared. If not, the next run continues where this one stopped. */
  readonly complete: boolean;
  /** Seconds since the first run of this comparison began; 0 if it is complete. */
  readonly incompleteSeconds: number;
}

export function reportComparison({ items, gaps, failed, waiting, complete, incompleteSeconds }: CompareResult): Report {
  const text = complete
    ? 'compared the plain table with its revisions'
    : 'compared a part of the plain table with its revisions; the next run continues from there';
  const metrics = [
    countMetric('ItemsCompared', items),
    countMetric('GapsFound', gaps),
    countMetric('DifferencesWaiting', waiting),
    secondsMetric('CompareIncompleteSeconds', incompleteSeconds),
  ];
  return { text, level: gaps > 0 || failed > 0 ? 'warn' : 'info', metrics };
}

/** Differences that wait until they are looked at again. */
interface Waiting {
  readonly logs: readonly DifferingLog[];
  readonly count: number;
  /** Epoch milliseconds. */
  readonly dueMs: number;
  /** The place after them. */
  next: string;
}

/**
 * Finds the changes of a source table that its stream lost. Compares each item with its newest
 * revision, then each item that exists by its revisions with the table. A difference may be a
 * change on its way, so the item is read again later, consistently: after `settleSeconds`, or by a
 * run that begins 25 hours after the first look. If neither the item nor its newest revision has
 * changed by then, the item becomes a `Gap` revision, directly after the revision that was
 * compared, with the time of the first look. If the item has changed, the record of that change
 * shows the gap. Times are those of the source table's service, because the clock of this machine
 * may be wrong.
 *
 * The first comparisons also record the items that are older than the stream: their first revision
 * is a `Gap`.
 *
 * A run notes in the bucket where it stopped, and what it saw first. A crash loses at most the last
 * minute of reading. A run costs a scan of the source table, a consistent read of each item that
 * has revisions, and what it costs to open each log twice.
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function compareTable(deps: CompareDeps, options: CompareOptions = {}): Promise<CompareResult> {
  const { table, keyNames, per } = deps.logs.source;
  const source = JSON.stringify([table, keyNames, per]);
  const noted = await readCompareNote(deps.blobs, source);
  const run = new CompareRun(deps, options, { source, ...noted });
  try {
    await run.compareAll();
  } finally {
    await run.note();
  }
  const { comparison, waiting, incompleteSeconds } = run;
  const complete = isComplete(run.rest);
  return { ...comparison.counts, waiting, continued: noted.rest !== undefined, complete, incompleteSeconds };
}

class CompareRun {
  readonly comparison: TableComparison;
  readonly rest: { readonly items: ScanPlace[]; readonly logs: ScanPlace[] };
  readonly #deps: CompareDeps;
  readonly #source: string;
  /** Epoch seconds; undefined until a request has returned the time of the service. */
  #began: number | undefined;
  readonly #looks: FirstLooks;
  /** Undefined if differences wait for a later run. */
  readonly #settleMs: number | undefined;
  readonly #deadline: number;
  readonly #stop: AbortSignal | undefined;
  #notedAt: number;

  constructor(
    deps: CompareDeps,
    { settleSeconds, deadline = Number.POSITIVE_INFINITY, stop }: CompareOptions,
    { source, rest, looks }: CompareNote & { readonly source: string },
  ) {
    this.comparison = new TableComparison(deps);
    const beginning = Array.from({ length: PARTS }, () => 'beginning' as const);
    this.rest = { items: [...(rest?.items ?? beginning)], logs: [...(rest?.logs ?? beginning)] };
    this.#deps = deps;
    this.#source = source;
    this.#began = rest?.began;
    this.#looks = new FirstLooks(looks);
    this.#settleMs = settleSeconds === undefined ? undefined : settleSeconds * 1000;
    this.#deadline = deadline;
    this.#stop = stop;
    this.#notedAt = deps.now();
  }

  async compareAll(): Promise<void> {
    const { items, logs } = this.rest;
    await this.#compareParts(items, (part) => this.comparison.itemPages(part));
    if (isAtEnd(items)) {
      await this.#compareParts(logs, (part) => this.comparison.logPages(part));
    }
  }

  /** Differences that a later run looks at again. */
  get waiting(): number {
    return this.#looks.count;
  }

  get incompleteSeconds(): number {
    return isComplete(this.rest) ? 0 : this.#seconds() - this.#beginning();
  }

  /** Notes where the run has come, and what it saw. */
  async note(): Promise<void> {
    this.#notedAt = this.#deps.now();
    const isOver = isComplete(this.rest);
    const rest = isOver ? undefined : { ...this.rest, began: this.#beginning() };
    await writeCompareNote(this.#deps.blobs, this.#source, { rest, looks: this.#looks.note(isOver) });
  }

  /** When this comparison began, in epoch seconds. A time in the future is from a wrong clock. */
  #beginning(): number {
    this.#began = Math.min(this.#began ?? Number.POSITIVE_INFINITY, this.#seconds());
    return this.#began;
  }

  /** Epoch seconds by the clock of the source table. */
  #seconds(): number {
    return Math.floor(this.#deps.items.serviceTime() / 1000);
  }

  async #compareParts(places: ScanPlace[], pages: (part: ItemScanPart) => AsyncIterable<ComparedPage>): Promise<void> {
    const parts = await Promise.allSettled(places.map((_, index) => this.#part(places, index, pages)));
    const failed = parts.find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }

  async #part(
    places: ScanPlace[],
    index: number,
    pages: (part: ItemScanPart) => AsyncIterable<ComparedPage>,
  ): Promise<void> {
    const from = places[index];
    if (from === undefined || from === 'end' || this.#isOver(0)) return;
    const { now, onPage } = this.#deps;
    const waiting: Waiting[] = [];
    let count = 0;
    // The place moves on only after differences that were looked at again.
    const settleOldest = async (): Promise<boolean> => {
      const [oldest] = waiting;
      if (oldest === undefined || !(await this.#settle(oldest))) return false;
      waiting.shift();
      count -= oldest.count;
      places[index] = { after: oldest.next };
      if (now() >= this.#notedAt + NOTE_EVERY_MS) await this.note();
      return true;
    };
    const part = { index, of: places.length, after: from === 'beginning' ? undefined : from.after };
    let isThrough = true;
    const settleMs = this.#settleMs ?? 0;
    for await (const { logs: differing, next } of pages(part)) {
      const logs = this.#settleMs === undefined ? this.#due(differing) : differing;
      const differences = logs.reduce((sum, each) => sum + each.differences.length, 0);
      const last = waiting.at(-1);
      if (differences === 0 && last !== undefined) last.next = next;
      else waiting.push({ logs, next, count: differences, dueMs: now() + (differences === 0 ? 0 : settleMs) });
      count += differences;
      await onPage?.();
      while (waiting[0] !== undefined && (waiting[0].dueMs <= now() || count > MAX_WAITING)) {
        if (!(await settleOldest())) return;
      }
      if (!this.#isOver(settleMs + RESERVE_MS)) continue;
      isThrough = false;
      break;
    }
    while (waiting.length > 0) if (!(await settleOldest())) return;
    if (isThrough) places[index] = 'end';
  }

  /**
   * The differences that an earlier run saw long ago, so that no change is on its way. Notes the
   * others.
   */
  #due(logs: readonly DifferingLog[]): DifferingLog[] {
    const now = this.#seconds();
    const due = logs.map(({ log, differences }) => {
      const old = differences.flatMap((difference) => {
        const id = this.comparison.idOf(difference);
        const seen = this.#looks.see(id, now);
        if (seen + ON_THE_WAY_SECONDS > now) return [];
        this.#looks.forget(id);
        return [{ ...difference, seen }];
      });
      return { log, differences: old };
    });
    return due.filter(({ differences }) => differences.length > 0);
  }

  /** Whether less than a time in milliseconds is left. */
  #isOver(reserveMs: number): boolean {
    return this.#stop?.aborted === true || this.#deps.now() + reserveMs > this.#deadline;
  }

  /** @returns false if there was no time for it */
  async #settle({ logs, dueMs }: Waiting): Promise<boolean> {
    if (logs.length === 0) return true;
    const { now, sleep } = this.#deps;
    if (dueMs > this.#deadline) return false;
    if (dueMs > now()) await sleep(dueMs - now(), this.#stop);
    if (this.#isOver(0)) return false;
    await this.comparison.settle(logs);
    return true;
  }
}
