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

/** How a job ended whose log is stopped, by this job or before. */
export interface Stopped {
  readonly outcome: 'stopped';
  readonly position: Position;
  readonly stop: Stop;
}

/**
 * Does a job's work on a snapshot, unless the log is stopped before it. Where the work finds something wrong with the
 * log itself, it stops the log.
 * @param again true where it is to be tried although a stop holds
 * @param work is given the stop that does not hold for this snapshot, where there is one
 * @throws whatever may pass: the job is to be delivered again
 */
export async function withStopGuard<T>(
  deps: StopGuardDeps,
  { log, position, again }: { readonly log: LogId; readonly position: Position; readonly again?: true | undefined },
  work: (stop: Stop | undefined) => Promise<T>,
): Promise<T | Stopped> {
  const stop = await readStop(deps.blobs, log);
  if (stop !== undefined && again !== true && stopHolds(stop, deps.reducer, position)) {
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
