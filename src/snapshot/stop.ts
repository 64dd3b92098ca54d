import * as z from 'zod';
import type { LogfoldError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { type BlobStore, findBlob } from '../store/blob-store.ts';
import { readJson, writeJson } from '../store/json-object.ts';
import { stopKey } from '../store/keys.ts';
import type { ReducerId } from './root.ts';

const schema = z.strictObject({
  format: z.literal(1),
  code: z.string(),
  message: z.string(),
  segment: z.int().nullable(),
  entry: z.int().nullable(),
  reducer: z.strictObject({ name: z.string(), version: z.int() }),
  /** Epoch milliseconds. */
  since: z.number(),
});

/** Why a log's snapshots are stopped, and where; kept beside its chunks until a person acts. */
export type Stop = Readonly<z.infer<typeof schema>>;

/** Stops a log's snapshots. */
export async function writeStop(
  blobs: BlobStore,
  log: LogId,
  stop: { readonly error: LogfoldError; readonly reducer: ReducerId; readonly since: number },
): Promise<Stop> {
  const { error, reducer, since } = stop;
  const written: Stop = {
    format: 1,
    code: error.code,
    message: error.message,
    segment: error.segment ?? null,
    entry: error.entry ?? null,
    reducer: { name: reducer.name, version: reducer.version },
    since,
  };
  await writeJson(blobs, stopKey(log), written, 2);
  return written;
}

/**
 * Why a log is stopped; undefined where it is not.
 * @throws ObjectInvalidError where the note cannot be read
 */
export function readStop(blobs: BlobStore, log: LogId): Promise<Stop | undefined> {
  return readJson(blobs, {
    key: stopKey(log),
    log,
    schema,
    advice: "Look at it, then run 'logfold resume LOG', which removes it",
  });
}

/** Whether there is a note that says why a log is stopped, readable or not. One LIST, which needs no right to read. */
export async function hasStop(blobs: BlobStore, log: LogId): Promise<boolean> {
  return (await findBlob(blobs, stopKey(log))) !== undefined;
}

/** Lets a log's snapshots go on; no error where they are not stopped. */
export async function clearStop(blobs: BlobStore, log: LogId): Promise<void> {
  await blobs.delete([stopKey(log)]);
}

/**
 * Whether a stop holds for a snapshot. Deploying another reducer, or another version, is a person's act and lifts it;
 * and a snapshot at or before the entry that stopped the log does not contain it.
 */
export function stopHolds(stop: Stop, reducer: ReducerId, snapshot: Position): boolean {
  if (stop.reducer.name !== reducer.name || stop.reducer.version !== reducer.version) return false;
  return contains(snapshot, stop);
}

/** Whether a snapshot at a position contains the entry that stopped the log, so that building it proves that mended. */
export function contains(snapshot: Position, { segment, entry }: Stop): boolean {
  return segment === null || entry === null || comparePositions({ segment, entry }, snapshot) < 0;
}

/** Whether the entry that stopped the log is the Snapshot entry at a position: its own root was wrong. */
export function isAt(snapshot: Position, { segment, entry }: Stop): boolean {
  return segment === snapshot.segment && entry === snapshot.entry;
}
