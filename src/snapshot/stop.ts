import * as z from 'zod';
import { LogfoldError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { type BlobStore, findBlob } from '../store/blob-store.ts';
import { JsonObject } from '../store/json-object.ts';
import { stopKey } from '../store/keys.ts';
import type { ReducerId } from './root.ts';

const schema = z.object({
  format: z.literal(1),
  code: z.string(),
  message: z.string(),
  segment: z.int().nullable(),
  entry: z.int().nullable(),
  reducer: z.object({ name: z.string(), version: z.int() }),
  /** Epoch milliseconds. */
  since: z.number(),
});

/**
 * A stop note: why and at which entry a log is stopped. It stays in the bucket until a person acts.
 */
export type Stop = Readonly<z.infer<typeof schema>>;

/** Stops a log: writes its stop note. */
export async function writeStop(
  blobs: BlobStore,
  log: LogId,
  by: { readonly error: LogfoldError; readonly reducer: ReducerId; readonly since: number },
): Promise<Stop> {
  const stop = stopBy(by);
  await noteOf(log).write(blobs, stop);
  return stop;
}

function stopBy({
  error,
  reducer: { name, version },
  since,
}: {
  readonly error: LogfoldError;
  readonly reducer: ReducerId;
  readonly since: number;
}): Stop {
  const { code, message, segment = null, entry = null } = error;
  return { format: 1, code, message, segment, entry, reducer: { name, version }, since };
}

/**
 * The stop note of a log; undefined if the log is not stopped.
 * @throws ObjectInvalidError if the note cannot be read
 */
export function readStop(blobs: BlobStore, log: LogId): Promise<Stop | undefined> {
  return noteOf(log).read(blobs);
}

function noteOf(log: LogId) {
  return new JsonObject({
    key: stopKey(log),
    log,
    schema,
    advice: "Look at the object, then run 'logfold resume LOG', which removes it",
    indent: 2,
  });
}

/**
 * Whether a log has a stop note, readable or not. Costs one LIST, which needs no permission to read
 * objects.
 */
export async function hasStop(blobs: BlobStore, log: LogId): Promise<boolean> {
  return (await findBlob(blobs, stopKey(log))) !== undefined;
}

/** Removes a log's stop note. A log without a stop note is not an error. */
export async function clearStop(blobs: BlobStore, log: LogId): Promise<void> {
  await blobs.delete([stopKey(log)]);
}

/**
 * Whether a stop blocks a snapshot. It does not if another reducer or version is deployed since,
 * which a person decides. Nor does it block a snapshot that does not contain the entry that stopped
 * the log.
 */
export function stopHolds(stop: Stop, reducer: ReducerId, snapshot: Position): boolean {
  if (stop.reducer.name !== reducer.name || stop.reducer.version !== reducer.version) return false;
  return contains(snapshot, stop);
}

/**
 * Whether a snapshot at a position contains the entry that stopped the log. Building it proves that
 * the problem is solved.
 */
export function contains(snapshot: Position, { segment, entry }: Stop): boolean {
  return segment === null || entry === null || comparePositions({ segment, entry }, snapshot) < 0;
}

/** Whether the log is stopped at the Snapshot entry of this position, because its root is wrong. */
export function isStopAt(snapshot: Position, { segment, entry }: Stop): boolean {
  return segment === snapshot.segment && entry === snapshot.entry;
}

export interface StopGuardDeps {
  readonly blobs: BlobStore;
  readonly reducer: ReducerId;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** The result of a job whose log is stopped, by this job or before. */
export interface Stopped {
  readonly outcome: 'stopped';
  readonly position: Position;
  readonly stop: Stop;
}

/**
 * Runs work on a snapshot unless the log is stopped before the snapshot. If the work throws an
 * error of the log itself, this stops the log.
 *
 * It throws all other errors; the job is then retried.
 * @param force true to try although a stop holds
 * @param work receives the stop of the log, if there is one that does not hold for this snapshot
 */
export async function withStopGuard<T>(
  deps: StopGuardDeps,
  { log, position, force }: { readonly log: LogId; readonly position: Position; readonly force?: true | undefined },
  work: (stop: Stop | undefined) => Promise<T>,
): Promise<T | Stopped> {
  const note = noteOf(log);
  const stop = await note.read(deps.blobs);
  if (stop !== undefined && force !== true && stopHolds(stop, deps.reducer, position)) {
    return { outcome: 'stopped', position, stop };
  }
  try {
    return await work(stop);
  } catch (error) {
    if (!(error instanceof LogfoldError && error.stopsLog)) throw error;
    const located = error.at({ log });
    const written = stopBy({ error: located, reducer: deps.reducer, since: deps.now() });
    await note.write(deps.blobs, written);
    return { outcome: 'stopped', position, stop: written };
  }
}
