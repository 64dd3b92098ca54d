import { FEED_LOG } from '../../feed/feed-log.ts';
import type { TableReader } from '../../log/log-store.ts';
import { type GcCandidate, requireInTables } from '../gc/candidates.ts';
import type { Finder, SweptLog } from './finder.ts';

/**
 * Finds the collection of a gc candidate. Leaves out a feed without a table: the feed was turned
 * off, and its objects are kept. The search throws LogNotFoundError if only the bucket has the log.
 */
export function dueCollection({ log, send }: SweptLog, tables: TableReader, { why, due }: GcCandidate): Finder {
  const find = async (): Promise<void> => {
    if (log === FEED_LOG && (await tables.newestSegments(log, 1, { consistent: true })).length === 0) return;
    await requireInTables(tables, log);
    await send({ job: { kind: 'collect', log }, why, since: due / 1000 });
  };
  return { find };
}
