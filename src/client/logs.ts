import type { LogId } from '../ids/log-id.ts';
import { parseLogId } from '../ids/log-id.ts';
import { START } from '../ids/position.ts';
import { LogClient, type LogClientDeps } from '../log/client.ts';
import { RESERVED_TYPES } from '../log/entry.ts';
import type { SnapshotStores } from '../snapshot/snapshots.ts';
import { NodeCache } from '../tree/node-cache.ts';
import { Document, type DocumentDeps, type DocumentOptions } from './document.ts';

/** The ports of the client, and its settings. */
export interface LogsDeps extends LogClientDeps, Pick<SnapshotStores, 'platform'> {
  readonly sleep: DocumentDeps['sleep'];
  /** Memory for chunks, shared by all documents, in bytes; 64 MiB by default. */
  readonly cacheBytes?: number | undefined;
  /** Releases what `openLogs` opened. */
  readonly close?: (() => Promise<void>) | undefined;
}

/** A log in a listing. */
export interface ListedLog {
  readonly log: LogId;
  /** Epoch seconds. */
  readonly created: number;
}

const CACHE_BYTES = 64 * 1024 * 1024;

/** The logs of two tables and a bucket. Share one object within a process. */
export class Logs {
  /** Appends to logs and reads entries without holding a document. */
  readonly client: LogClient;
  readonly #deps: DocumentDeps;
  readonly #close: () => Promise<void>;
  readonly #open = new Set<Document>();

  constructor(deps: LogsDeps) {
    const { types = RESERVED_TYPES, cacheBytes = CACHE_BYTES, close = async () => undefined } = deps;
    this.client = new LogClient(deps);
    const nodes = { cache: new NodeCache(cacheBytes) };
    const onClose = (document: Document) => void this.#open.delete(document);
    this.#deps = { ...deps, types, client: this.client, nodes, onClose };
    this.#close = close;
  }

  /**
   * Creates a log.
   * @returns its id
   */
  create(): Promise<LogId> {
    return this.client.createLog();
  }

  /**
   * Opens a log as a live document. Takes two queries if the root of the newest snapshot is small,
   * and one object more if it is not. Downloads chunks only when something reads them.
   * @param log the id, as {@link create} returned it
   * @throws LogIdInvalidError if the id is not a UUID
   * @throws LogNotFoundError if the log does not exist
   * @throws SegmentWithoutSnapshotError if neither of the two newest segments has a snapshot
   * @throws any error that stops a log, such as an entry that cannot be folded
   */
  async open(log: string, options: DocumentOptions): Promise<Document> {
    const document = await Document.open(this.#deps, parseLogId(log), options);
    this.#open.add(document);
    return document;
  }

  /** All logs, in no order. Scans the Segment table. */
  async *list(): AsyncGenerator<ListedLog> {
    for await (const { log, segment, created } of this.#deps.store.allSegments()) {
      if (segment === START.segment) yield { log, created };
    }
  }

  /** Closes all documents, then what `openLogs` opened. */
  async close(): Promise<void> {
    for (const document of [...this.#open]) document.close();
    await this.#close();
  }
}
