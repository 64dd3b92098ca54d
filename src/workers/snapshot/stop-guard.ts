import { LogfoldError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Position } from '../../ids/position.ts';
import { readStop, type Stop, stopHolds, writeStop } from '../../snapshot/stop.ts';
import type { Reducer } from '../../state/reducer.ts';
import type { BlobStore } from '../../store/blob-store.ts';

export interface StopGuardDeps {
  readonly blobs: BlobStore;
  readonly reducer: Reducer;
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
  const stop = await readStop(deps.blobs, log);
  if (stop !== undefined && force !== true && stopHolds(stop, deps.reducer, position)) {
    return { outcome: 'stopped', position, stop };
  }
  try {
    return await work(stop);
  } catch (error) {
    if (!(error instanceof LogfoldError && error.stopsLog)) throw error;
    const written = await writeStop(deps.blobs, log, {
      error: error.at({ log }),
      reducer: deps.reducer,
      since: deps.now(),
    });
    return { outcome: 'stopped', position, stop: written };
  }
}
