import { isOfOneLog, UsageError } from '../../errors.ts';
import { FEED_LOG } from '../../feed/feed-log.ts';
import type { LogId } from '../../ids/log-id.ts';
import { START } from '../../ids/position.ts';
import type { TableReader } from '../../log/log-store.ts';
import { LOG_KINDS, revisionLog, type SourceTable } from '../../revisions/source-table.ts';
import { type LoadDeps, loadState } from '../../snapshot/load.ts';
import { keyNamesOf } from '../../state/items/item-key.ts';
import { type ItemsState, liveItems, sourceTableOf } from '../../state/items/reducer.ts';

/** This many logs show what the logs of a deployment are. */
const SAMPLE = 32;

/**
 * Whether a log has the revisions of an item or of a partition key. Its id shows this, with any of
 * its items. Undefined if no item exists, or if the log has another id.
 */
export async function logKind(
  platform: LoadDeps['platform'],
  log: LogId,
  state: ItemsState,
): Promise<SourceTable['per'] | undefined> {
  const table = sourceTableOf(state);
  if (table === undefined) return undefined;
  for await (const { key, item } of liveItems(state)) {
    const keyNames = keyNamesOf(key, item);
    return keyNames && LOG_KINDS.find((per) => revisionLog(platform, { table, keyNames, per }, item) === log);
  }
  return undefined;
}

/**
 * Whether items or partition keys of a table have logs, by the first logs that are found; undefined
 * if none of them shows it.
 * @throws UsageError if there are logs of both kinds
 */
export async function recordedKind(
  deps: LoadDeps & { readonly tables: Pick<TableReader, 'allSegments'> },
  table: string,
): Promise<SourceTable['per'] | undefined> {
  let kind: SourceTable['per'] | undefined;
  let left = SAMPLE;
  for await (const { log, segment } of deps.tables.allSegments()) {
    if (segment !== START.segment || log === FEED_LOG) continue;
    const found = await kindOf(deps, table, log).catch((error: unknown) => {
      // Another log shows it.
      if (!isOfOneLog(error)) throw error;
      return undefined;
    });
    if (kind !== undefined && found !== undefined && kind !== found) throw bothKinds(table);
    kind ??= found;
    if (--left === 0) break;
  }
  return kind;
}

async function kindOf(deps: LoadDeps, table: string, log: LogId): Promise<SourceTable['per'] | undefined> {
  const { draft } = await loadState(deps, log);
  return sourceTableOf(draft) === table ? logKind(deps.platform, log, draft) : undefined;
}

/** The error for a table whose logs were changed from one kind to the other. */
export function bothKinds(table: string): UsageError {
  return new UsageError(`table '${table}' has logs of items and logs of partition keys`, {
    advice: 'Give --per item or --per partition: the newest revisions are in the kind that is recorded now',
  });
}
