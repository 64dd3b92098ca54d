import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { SegmentReader } from '../log/log-store.ts';
import { indexAfter, newestEntryOf, type Schedule } from '../log/schedule.ts';

const MAX_CACHED_LOGS = 10_000;

interface EndedSegment {
  readonly segment: number;
  readonly schedule: Schedule;
}

/** Finds the positions of items of mapped logs by the schedules in the Segment table. */
export class LogEnds {
  readonly #records: Pick<SegmentReader, 'newestSegments'>;
  /** The segment of the newest item of each log. The schedule of a segment with items is final. */
  readonly #found = new Map<LogId, EndedSegment>();

  /** @param records the segments that the Segment table records */
  constructor(records: Pick<SegmentReader, 'newestSegments'>) {
    this.#records = records;
  }

  /**
   * The newest entry that certainly exists because an item does: the entry of the item, or the
   * virtual entry after it. For an item before the two newest recorded segments it is a later
   * entry. Takes no request if the last call for the log found the same segment, otherwise one.
   * @param index that of an item that exists
   * @returns undefined if the log is not registered
   */
  async endAt(log: LogId, index: number): Promise<Position | undefined> {
    const known = this.#found.get(log);
    if (known !== undefined && hasItem(known.schedule, index)) return endWith(known, index);
    const [last, before] = await this.#records.newestSegments(log, 2, { consistent: true });
    if (last?.schedule === undefined) return undefined;
    const { segment, schedule } = (index < last.schedule.first ? before : undefined) ?? last;
    // Only the newest recorded segment may not have begun, so the one before it has.
    if (schedule === undefined || index < schedule.first) return { segment, entry: 0 };
    // A segment that is not recorded has the schedule of the one before it, because its first item
    // exists and the records were read later.
    const later = Math.floor((index - schedule.first) / schedule.items);
    const found = {
      segment: segment + later,
      schedule: { ...schedule, first: schedule.first + later * schedule.items },
    };
    this.#remember(log, found);
    return endWith(found, index);
  }

  #remember(log: LogId, found: EndedSegment): void {
    this.#found.delete(log);
    this.#found.set(log, found);
    const [oldest] = this.#found.keys();
    if (this.#found.size > MAX_CACHED_LOGS && oldest !== undefined) this.#found.delete(oldest);
  }
}

function hasItem(schedule: Schedule, index: number): boolean {
  return index >= schedule.first && index < indexAfter(schedule);
}

/** The newest entry while the item of the segment is the newest one of its log. */
function endWith({ segment, schedule }: EndedSegment, index: number): Position {
  // The next segment begins with the last item of a segment.
  if (index + 1 === indexAfter(schedule)) return { segment: segment + 1, entry: 0 };
  return { segment, entry: newestEntryOf(schedule, index + 1) ?? 0 };
}
