import { FEED_LOG } from '../../feed/feed-log.ts';
import type { TableReader } from '../../log/log-store.ts';
import { type GcCandidate, requireInTables } from '../gc/candidates.ts';
import type { Finder, SweptLog } from './finder.ts';

/**
 * Finds the collection of a gc candidate. Leaves out a feed without a table: the feed was turned
 * off, and its objects are kept.
 */
export class DueCollection implements Finder {
  readonly #swept: SweptLog;
  readonly #tables: TableReader;
  readonly #candidate: GcCandidate;

  constructor(swept: SweptLog, tables: TableReader, candidate: GcCandidate) {
    this.#swept = swept;
    this.#tables = tables;
    this.#candidate = candidate;
  }

  /** @throws LogNotFoundError if the log is only in the bucket */
  async find(): Promise<void> {
    const { log, send } = this.#swept;
    const { why, due } = this.#candidate;
    const tables = this.#tables;
    if (log === FEED_LOG && (await tables.newestSegments(log, 1, { consistent: true })).length === 0) return;
    await requireInTables(tables, log);
    await send({ job: { kind: 'collect', log }, why, since: due / 1000 });
  }
}
