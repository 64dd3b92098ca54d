import type { Document } from '../../client/document.ts';
import { type Logs, openOrCreate } from '../../client/logs.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { isOfOneLog, UsageError } from '../../errors.ts';
import { FEED_LOG } from '../../feed/feed-log.ts';
import type { LogId } from '../../ids/log-id.ts';
import { START } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { TableReader } from '../../log/log-store.ts';
import { checkOptionNames } from '../../log/option-names.ts';
import { LOG_KINDS, revisionLog, type SourceTable } from '../../revisions/source-table.ts';
import { type LoadDeps, loadState } from '../../snapshot/load.ts';
import { keyNamesOf } from '../../state/items/item-key.ts';
import { foldsItems, type ItemsState, items, liveItems, sourceTableOf } from '../../state/items/reducer.ts';
import type { Reducer } from '../../state/reducer.ts';

export interface RevisionLogsDeps {
  readonly logs: Pick<Logs, 'open' | 'client'>;
  readonly source: SourceTable;
  readonly platform: Pick<ChunkPlatform, 'sha256'>;
  /** The reducer of the deployment: `items`, which is the default, or `items+history`. */
  readonly reducer?: Reducer | undefined;
  /** The most documents that stay open; 100 by default. Each holds its entries since a snapshot. */
  readonly most?: number | undefined;
}

interface OpenDocument {
  readonly document: Promise<Document>;
  users: number;
}

const MOST = 100;
const DEPS_NAMES = ['logs', 'source', 'platform', 'reducer', 'most'] satisfies (keyof RevisionLogsDeps)[];
const SOURCE_NAMES = ['table', 'keyNames', 'per', 'actor'] satisfies (keyof SourceTable)[];

/** The logs of one source table. Keeps the documents that were used last open. */
export class RevisionLogs {
  readonly source: SourceTable;
  readonly #deps: RevisionLogsDeps;
  readonly #reducer: Reducer;
  readonly #most: number;
  /** The document that was used last comes last. */
  readonly #open = new Map<LogId, OpenDocument>();

  /** @throws UsageError if the reducer does not fold revisions of items, or a name is wrong */
  constructor(deps: RevisionLogsDeps) {
    const { source, reducer = items, most = MOST } = deps;
    checkOptionNames('RevisionLogs', deps, DEPS_NAMES);
    checkOptionNames("'source' of RevisionLogs", source, SOURCE_NAMES);
    requireItemsReducer(reducer);
    this.source = source;
    this.#deps = deps;
    this.#reducer = reducer;
    this.#most = most;
  }

  /** The log with an item's revisions. @param keys an item, or only its key */
  logOf(keys: StoredItem): LogId {
    return revisionLog(this.#deps.platform, this.source, keys);
  }

  /**
   * Runs work with the document of a log, which stays open during the work. A document that was
   * open may lack the newest revisions of other processes.
   * @param created time in epoch seconds with which a missing log is created; if it is absent, a
   * missing log is an error
   * @throws LogNotFoundError if the log is missing and `created` is absent
   * @throws the errors of `Logs.open`, and those of the work
   */
  async use<T>(
    log: LogId,
    work: (document: Document, how: { readonly wasOpen: boolean }) => Promise<T>,
    created?: number,
  ): Promise<T> {
    const before = this.#open.get(log);
    const open = before ?? { document: this.#load(log, created), users: 0 };
    this.#open.delete(log);
    this.#open.set(log, open);
    open.users++;
    try {
      // Before the work: which documents stay open must not depend on how long work takes.
      await this.#closeOldest();
      return await work(await open.document, { wasOpen: before !== undefined });
    } catch (error) {
      // The next use opens the log again.
      if (this.#open.get(log) === open) this.#open.delete(log);
      throw error;
    } finally {
      open.users--;
      if (open.users === 0 && this.#open.get(log) !== open) await closeDocument(open);
      await this.#closeOldest();
    }
  }

  /** Closes the documents that nobody uses. */
  async close(): Promise<void> {
    await this.#closeOldest(0);
  }

  async #load(log: LogId, created: number | undefined): Promise<Document> {
    const { logs } = this.#deps;
    const options = { reducer: this.#reducer };
    return created === undefined ? logs.open(log, options) : openOrCreate(logs, log, { ...options, created });
  }

  async #closeOldest(most = this.#most): Promise<void> {
    for (const [log, open] of this.#open) {
      if (this.#open.size <= most) return;
      if (open.users > 0) continue;
      this.#open.delete(log);
      await closeDocument(open);
    }
  }
}

async function closeDocument({ document }: OpenDocument): Promise<void> {
  // A document that did not open needs no end.
  await document.then(
    (opened) => opened.close(),
    () => undefined,
  );
}

/** @throws UsageError if the reducer does not fold revisions of items */
export function requireItemsReducer(reducer: Pick<Reducer, 'name'>): void {
  if (foldsItems(reducer)) return;
  throw new UsageError(`reducer '${reducer.name}' does not fold the revisions of items`, {
    advice: 'Give --reducer items or --reducer items+history',
  });
}

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
