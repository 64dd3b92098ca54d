import { encodeItemLine } from '../../archive/item-line.ts';
import { UsageError } from '../../errors.ts';
import { FEED_LOG } from '../../feed/feed-log.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, type Position, START } from '../../ids/position.ts';
import { positionAtTime } from '../../log/find-position.ts';
import type { TableReader } from '../../log/log-store.ts';
import { readEntries } from '../../log/read-entries.ts';
import type { SourceTable } from '../../revisions/source-table.ts';
import { type LoadDeps, loadState } from '../../snapshot/load.ts';
import { liveItems, newestTime, sourceTableOf } from '../../state/items/reducer.ts';
import type { ReducerDraft } from '../../state/reducer.ts';
import { inAdvance } from '../../tree/read.ts';
import { bothKinds, logKind, requireItemsReducer } from './revision-logs.ts';

/** Logs that are begun before the caller asks for them. */
const LOGS_AHEAD = 32;
/** Lines of each of them that are read then. */
const LINES_AHEAD = 16;

export interface ExportDeps extends LoadDeps {
  /** The tables that hold the logs of revisions. */
  readonly tables: Pick<TableReader, 'allSegments'>;
  /** Called with the number of logs that were read. */
  readonly onProgress?: ((logs: number) => void) | undefined;
}

export interface ExportOptions {
  /** The time of the export; by default, everything that is recorded. */
  readonly at?: Date | undefined;
  /** The source table; needed only if the logs have revisions of several tables. */
  readonly table?: string | undefined;
  /** The logs to export; needed only if items have logs, and partition keys too. */
  readonly per?: SourceTable['per'] | undefined;
}

/**
 * The items of a source table, as they were after all revisions up to a second: one line for each,
 * without line end, in the format `DYNAMODB_JSON` of DynamoDB's import from S3. Logs follow each
 * other in the order of the Segment table, which spreads the partitions of the source table, as an
 * import needs it. Memory does not grow with the table.
 *
 * Each log takes two queries. A log with revisions after the time takes about six more.
 * @throws UsageError if the time is invalid, the reducer does not fold revisions of items, or no
 * log has revisions of the table
 * @throws UsageError if the logs have revisions of several tables or of both kinds, and none is
 * named
 * @throws the errors of {@link loadState}, so that no item is left out in silence
 */
export async function* exportTable(deps: ExportDeps, { at, table, per }: ExportOptions = {}): AsyncGenerator<string> {
  requireItemsReducer(deps.reducer);
  const seconds = at === undefined ? undefined : Math.floor(at.getTime() / 1000);
  if (Number.isNaN(seconds)) throw new UsageError('the time of the export is not a valid date');
  async function* logs(): AsyncGenerator<LogId> {
    for await (const { log, segment } of deps.tables.allSegments()) {
      if (segment === START.segment && log !== FEED_LOG) yield log;
    }
  }
  let [exported, exportedKind] = [table, per];
  let count = 0;
  let isFound = false;
  for await (const { source, kind, ahead, rest } of inAdvance(logs(), LOGS_AHEAD, (log) =>
    beginLog(deps, log, seconds),
  )) {
    deps.onProgress?.(++count);
    if (source === undefined || (table !== undefined && source !== table)) continue;
    isFound = true;
    exported ??= source;
    if (source !== exported) {
      throw new UsageError(`the logs have revisions of the tables '${exported}' and '${source}'`, {
        advice: 'Name the table to export with --table NAME',
      });
    }
    if (per !== undefined && kind !== undefined && kind !== per) continue;
    exportedKind ??= kind;
    // Both kinds of logs have the same items.
    if (kind !== undefined && kind !== exportedKind) throw bothKinds(source);
    yield* ahead;
    yield* rest;
  }
  if (!isFound) {
    throw new UsageError(`no log has revisions of ${table === undefined ? 'a plain table' : `table '${table}'`}`, {
      advice: "Check --table; 'logfold table compare --table NAME' records the items of a table",
    });
  }
}

interface BegunLog {
  /** The source table; undefined if the log has no revision. */
  readonly source: string | undefined;
  readonly kind: SourceTable['per'] | undefined;
  readonly ahead: readonly string[];
  readonly rest: AsyncGenerator<string>;
}

async function beginLog(deps: ExportDeps, log: LogId, seconds: number | undefined): Promise<BegunLog> {
  const { draft: newest } = await loadState(deps, log);
  const draft = await stateAtTime(deps, { log, newest }, seconds);
  const rest = lines(draft);
  const ahead: string[] = [];
  while (ahead.length < LINES_AHEAD) {
    const next = await rest.next();
    if (next.done === true) break;
    ahead.push(next.value);
  }
  return { source: sourceTableOf(newest), kind: await logKind(deps.platform, log, draft), ahead, rest };
}

async function* lines(draft: ReducerDraft): AsyncGenerator<string> {
  for await (const { item } of liveItems(draft)) yield encodeItemLine(item);
}

/** The state after all revisions up to a second. */
async function stateAtTime(
  deps: ExportDeps,
  { log, newest }: { readonly log: LogId; readonly newest: ReducerDraft },
  seconds: number | undefined,
): Promise<ReducerDraft> {
  if (seconds === undefined || newestTime(newest) <= seconds) return newest;
  const at = await positionOfRevisions(deps, log, seconds);
  return (await loadState(deps, log, { at })).draft;
}

/**
 * The position of the first revision after a second; the position after the last entry if there is
 * none. The times of revisions never go back, but those of Snapshot entries are later: a revision
 * has the time of its change, and waits in the stream.
 */
async function positionOfRevisions(deps: ExportDeps, log: LogId, seconds: number): Promise<Position> {
  const { types } = deps;
  let end = await positionAtTime(deps, log, seconds);
  for await (const page of readEntries(deps, log, { from: end, to: 'end' })) {
    for (const { position, type, created } of page) {
      if (type !== types.snapshot && type !== types.endSegment && created > seconds) return position;
      if (comparePositions(position, end) >= 0) end = { segment: position.segment, entry: position.entry + 1 };
    }
  }
  return end;
}
