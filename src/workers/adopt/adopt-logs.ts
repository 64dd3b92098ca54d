import * as z from 'zod';
import { type ItemInvalidError, isOfOneLog, type LogfoldError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { MappedTable } from '../../mapping/bucket-claim.ts';
import type { MappedItems } from '../../mapping/mapped-items.ts';
import { meaningParts } from '../../mapping/meaning.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { JsonObject } from '../../store/json-object.ts';
import { ADOPT_KEY } from '../../store/keys.ts';
import { isAtEnd, type ScanPlace, type ScanPlaces, scanPlaces } from '../../store/scan-places.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { Report } from '../jobs/report.ts';

/** Parts of the application's table that are scanned concurrently. */
const PARTS = 8;
/**
 * How often the note is written, in milliseconds. After a crash, at most this much is read again.
 */
const NOTE_EVERY_MS = 60_000;

export interface AdoptDeps {
  /** The application's table. */
  readonly items: Pick<MappedItems, 'logs'>;
  /**
   * Records the segments of a log that have begun and are not recorded.
   * @returns how many it recorded; 0 if the log was registered
   */
  readonly register: (log: LogId) => Promise<number>;
  readonly blobs: BlobStore;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Called after each page of the scan; the scan continues when it resolves. None by default. */
  readonly onPage?: () => Promise<void>;
  /** Called for each item or log that does not fit the mapping, and that is skipped. */
  readonly onFailure: (error: LogfoldError) => void;
  readonly onProgress?: (logs: number) => void;
}

export interface AdoptOptions {
  /** As {@link adoptSource} gives it, so that a note of another table or mapping does not count. */
  readonly source: string;
  /**
   * Epoch milliseconds; none by default. Then each part ends after its current log, because a page
   * may have thousands.
   */
  readonly deadline?: number | undefined;
  /** Aborted when the scan should end, each part after its current log. */
  readonly stop?: AbortSignal;
}

export interface AdoptResult {
  /** Logs that the scan found. */
  readonly logs: number;
  /** Those that were not registered before, or whose newest segments were not recorded. */
  readonly registered: number;
  /** Items whose key does not fit the mapping. */
  readonly unfit: number;
  /** Logs that could not be registered. */
  readonly failed: number;
  /** Whether an earlier run had scanned a part of the table. */
  readonly continued: boolean;
  /** Whether the whole table is scanned. If not, the next run continues where this one stopped. */
  readonly complete: boolean;
}

export function reportAdoption({ complete }: AdoptResult): Report {
  const text = complete
    ? 'looked for logs in the whole table'
    : 'looked for logs in a part of the table; the next run continues from there';
  return { text, level: 'info' };
}

/** Names a table and its mapping. Equal mappings have equal names, however they were written. */
export function adoptSource({ table, mapping }: MappedTable): string {
  return JSON.stringify([table, meaningParts(mapping)]);
}

/**
 * Registers the logs that are already in the application's table. It reads only keys, in parts, and
 * notes in the bucket where it stopped. A log that is registered stays as it is. A crash loses at
 * most the last minute of the scan.
 *
 * A scan costs read units for all items of the table, although it returns only keys. Each log costs
 * what its registration costs.
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function adoptLogs(deps: AdoptDeps, options: AdoptOptions): Promise<AdoptResult> {
  const noted = await readAdoptNote(deps.blobs, options.source);
  const run = new AdoptRun(deps, options, noted);
  const parts = await Promise.allSettled(run.places.map((_, index) => run.part(index)));
  const complete = isAtEnd(run.places);
  await writeAdoptNote(deps.blobs, options.source, complete ? undefined : run.places);
  const failed = parts.find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
  return { ...run.counts, continued: noted !== undefined, complete };
}

class AdoptRun {
  readonly #deps: AdoptDeps;
  readonly #options: AdoptOptions;
  readonly places: ScanPlace[];
  readonly counts = { logs: 0, registered: 0, unfit: 0, failed: 0 };
  #notedAt: number;

  constructor(deps: AdoptDeps, options: AdoptOptions, noted: ScanPlaces | undefined) {
    this.#deps = deps;
    this.#options = options;
    this.places = noted === undefined ? Array.from({ length: PARTS }, () => 'beginning' as const) : [...noted];
    this.#notedAt = deps.now();
  }

  async part(index: number): Promise<void> {
    const from = this.places[index];
    if (from === undefined || from === 'end') return;
    const after = from === 'beginning' ? undefined : from.after;
    const onInvalid = (error: ItemInvalidError): void => {
      this.counts.unfit++;
      this.#deps.onFailure(error);
    };
    // The items of one log follow each other, so a page may begin with the last log of the page
    // before it.
    let last: LogId | undefined;
    const part = { index, of: this.places.length, after };
    for await (const { logs, next } of this.#deps.items.logs(part, onInvalid)) {
      for (const { log, after } of logs) {
        if (this.#isOver()) return;
        if (log !== last) await this.#register(log);
        last = log;
        this.places[index] = { after };
        await this.#note();
      }
      this.places[index] = { after: next };
      await this.#note();
      await this.#deps.onPage?.();
      if (this.#isOver()) return;
    }
    this.places[index] = 'end';
  }

  #isOver(): boolean {
    const { deadline, stop } = this.#options;
    return stop?.aborted === true || isTimeUp({ now: this.#deps.now, deadline });
  }

  async #register(log: LogId): Promise<void> {
    const { counts } = this;
    try {
      if ((await this.#deps.register(log)) > 0) counts.registered++;
    } catch (error) {
      if (!isOfOneLog(error)) throw error;
      counts.failed++;
      this.#deps.onFailure(error.at({ log }));
    }
    counts.logs++;
    this.#deps.onProgress?.(counts.logs);
  }

  async #note(): Promise<void> {
    const { now, blobs } = this.#deps;
    if (now() < this.#notedAt + NOTE_EVERY_MS) return;
    this.#notedAt = now();
    await writeAdoptNote(blobs, this.#options.source, this.places);
  }
}

const schema = z.object({
  format: z.literal(1),
  /** Names the table and its mapping. */
  source: z.string(),
  rest: scanPlaces,
});

type StoredNote = z.infer<typeof schema>;

const OBJECT = new JsonObject({
  key: ADOPT_KEY,
  schema,
  advice: 'Remove it: the next run then looks for logs in the whole table',
});

/**
 * The point at which a scan for logs stopped.
 * @param source as {@link adoptSource} gives it; the note of another one does not count
 * @returns undefined if there is no such note: the last scan was complete
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readAdoptNote(blobs: BlobStore, source: string): Promise<ScanPlaces | undefined> {
  const note = await OBJECT.read(blobs);
  return note?.source === source && !isAtEnd(note.rest) ? note.rest : undefined;
}

/**
 * Notes the point at which a scan for logs stopped; undefined if it is complete.
 * @throws ObjectInvalidError if the current note cannot be read; nothing is written then
 */
export async function writeAdoptNote(blobs: BlobStore, source: string, rest: ScanPlaces | undefined): Promise<void> {
  await OBJECT.update(blobs, (present): StoredNote | undefined => {
    if (rest === undefined && present === undefined) return undefined;
    return { format: 1, source, rest: rest ?? [] };
  });
}
