import { EntryNotFoundError } from '../errors.ts';
import type { ReservedTypes } from '../log/entry.ts';
import type { LogId } from '../log/log-id.ts';
import type { LogStore } from '../log/log-store.ts';
import { queryLast, queryNewestSegments } from '../log/newest.ts';
import { formatPosition, type Position } from '../log/position.ts';

/**
 * Makes sure that a position which somebody typed is in a log, or right behind the last entry of one of its segments.
 * @throws LogNotFoundError
 * @throws EntryNotFoundError where it is not
 */
export async function requirePosition(
  source: { readonly store: LogStore; readonly types: ReservedTypes },
  log: LogId,
  at: Position,
): Promise<void> {
  const [newest] = await queryNewestSegments(source.store, log, { consistent: true });
  const segment = Math.min(at.segment, newest.segment);
  const last = (await queryLast(source, log, segment))?.position ?? { segment, entry: -1 };
  if (at.segment <= last.segment && at.entry <= last.entry + 1) return;
  throw new EntryNotFoundError(`the log has no position ${formatPosition(at)}`, {
    log,
    ...at,
    advice: `Give a position up to ${formatPosition({ segment, entry: last.entry + 1 })}, right behind the last entry`,
  });
}
