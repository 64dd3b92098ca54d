import { FEED_DIVISION, FEED_LOG } from '../../feed/feed-log.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { type DivisionPolicy, divides, isSegmentDue, isSnapshotDue, NO_DIVISION } from '../../log/division-policy.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import { coveredEntries, isFrozen, type Segment } from '../../log/segment.ts';
import { TailCount } from '../../log/tail-count.ts';
import { isVirtualDue } from '../../mapping/item-division.ts';
import { createdOf, type Finder, isYoung, type SweptLog, type Youth } from './finder.ts';

interface DueDivisionOptions extends Youth {
  readonly division: DivisionPolicy;
  readonly types: ReservedTypes;
}

/**
 * Counts a log's open segment after Last Snapshot: whether the division policy makes an entry due,
 * and how far the newest complete snapshot is behind.
 */
export class DueDivision implements Finder {
  readonly #options: DueDivisionOptions;
  readonly #swept: SweptLog;
  readonly #segment: Segment;
  readonly #last: number;
  /** All entries. Only the sweep knows when minutes have passed. */
  readonly #all: TailCount;
  /** The entries before the first young one. */
  readonly #settled: TailCount;
  #sawYoung = false;
  /** Whether a scheduled log has a segment that is not registered. */
  #sawEnd = false;

  constructor(swept: SweptLog, segment: Segment, options: DueDivisionOptions) {
    this.#swept = swept;
    this.#segment = segment;
    this.#options = options;
    this.#last = coveredEntries(segment) - 1;
    this.#all = new TailCount(options.types, this.#last);
    this.#settled = new TailCount(options.types, this.#last);
  }

  /** The finder of a log's open segment; undefined if no division policy divides it. */
  static of(
    swept: SweptLog,
    {
      division = NO_DIVISION,
      ...youth
    }: Youth & { readonly types: ReservedTypes; readonly division?: DivisionPolicy | undefined },
  ): DueDivision | undefined {
    const segment = swept.segments.at(-1);
    const policy = swept.log === FEED_LOG ? FEED_DIVISION : division;
    if (segment === undefined || isFrozen(segment) || !divides(policy)) return undefined;
    return new DueDivision(swept, segment, { ...youth, division: policy });
  }

  /**
   * Counts the next item. Ignores those up to Last Snapshot.
   * @throws ItemInvalidError if its keys are malformed
   */
  see(item: StoredItem): void {
    if (!this.#all.add(item)) return;
    this.#sawEnd ||= item.T?.S === this.#options.types.endSegment;
    this.#sawYoung ||= isYoung(createdOf(item), this.#options);
    if (!this.#sawYoung) this.#settled.add(item);
  }

  async find(): Promise<void> {
    const { log, isStopped, send, countTail } = this.#swept;
    // Entries since the newest complete snapshot, as far as it is in this segment.
    const entries = this.#all.tail.newest - this.#last;
    countTail(entries, this.#isOverdue && isStopped !== true);
    // A stopped log would only get one pending Snapshot entry after the other.
    if (this.#isDue && isStopped !== true) {
      await send({ job: { kind: 'divide', log }, why: 'the division policy makes it due' });
    }
  }

  /**
   * Whether the newest Snapshot entry of a scheduled log gets its snapshot. Counts young entries
   * too, because it is the age of that Snapshot entry that matters.
   */
  get isVirtualDue(): boolean {
    return isVirtualDue(this.#options.division, this.#segment, this.#all, this.#options.now);
  }

  /**
   * Since when a pending Snapshot entry waits for its snapshot, in epoch seconds. In a scheduled
   * log the entry may exist long before the policy's minutes are over.
   * @param created its creation time
   * @returns undefined if unknown, because the items of the scheduled log have no time
   */
  waitsSince(created: number): number | undefined {
    const { segment, schedule } = this.#segment;
    const { entries, minutes = 0 } = this.#options.division.snapshotEvery;
    if (schedule === undefined) return created;
    if (created === 0) return undefined;
    const isDueAtOnce = entries !== undefined || (segment > 0 && this.#last === -1);
    return isDueAtOnce ? created : Math.max(created, (this.#all.first ?? created) + minutes * 60);
  }

  /**
   * Whether the stream asks for snapshots of the log. In a scheduled log nothing but the policy
   * asks, and only sweeps look at its minutes.
   */
  get isAskedByStream(): boolean {
    const { entries, bytes } = this.#options.division.snapshotEvery;
    return this.#segment.schedule === undefined || entries !== undefined || bytes !== undefined;
  }

  /** Whether a divide job is due: for a Snapshot entry, a segment, or to register a segment. */
  get #isDue(): boolean {
    if (this.#segment.schedule !== undefined) return this.#sawEnd;
    const { division, now } = this.#options;
    const { snapshotEvery } = division;
    const settled = this.#settled.tail;
    const withoutMinutes = { ...division, snapshotEvery: { ...snapshotEvery, minutes: undefined } };
    const onlyMinutes = { ...division, snapshotEvery: { minutes: snapshotEvery.minutes } };
    // A segment starts only after one with a complete snapshot.
    const endsSegment = this.#segment.lastSnapshot !== undefined && isSegmentDue(division, settled);
    return (
      endsSegment || isSnapshotDue(withoutMinutes, settled, now) || isSnapshotDue(onlyMinutes, this.#all.tail, now)
    );
  }

  /** Whether more than twice the entries or bytes of the policy wait for a complete snapshot. */
  get #isOverdue(): boolean {
    const { entries, bytes } = this.#options.division.snapshotEvery;
    const { newest } = this.#settled.tail;
    return (
      newest - this.#last > 2 * (entries ?? Number.POSITIVE_INFINITY) ||
      this.#settled.allBytes > 2 * (bytes ?? Number.POSITIVE_INFINITY)
    );
  }
}
