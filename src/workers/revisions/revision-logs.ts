import type { Document } from '../../client/document.ts';
import { type Logs, openOrCreate } from '../../client/logs.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { revisionLog, type SourceTable } from '../../revisions/source-table.ts';
import { foldsItems, items } from '../../state/items/reducer.ts';
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

/** The logs of one source table. Keeps the documents that were used last open. */
export class RevisionLogs {
  readonly source: SourceTable;
  readonly #deps: RevisionLogsDeps;
  readonly #reducer: Reducer;
  readonly #most: number;
  /** The document that was used last comes last. */
  readonly #open = new Map<LogId, OpenDocument>();

  /** @throws UsageError if the reducer does not fold revisions of items */
  constructor(deps: RevisionLogsDeps) {
    const { source, reducer = items, most = MOST } = deps;
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
