import { scratchOf } from '../src/adapters/filesystem/scratch.ts';
import { foldWatchOf } from '../src/adapters/platform/fold-watch.ts';
import { replayFunction } from '../src/functions/replay-function.ts';
import { readEnvironment, replayEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { wireReducer, wireStores } from './wire.ts';

const settings = readEnvironment(replayEnvironment, process.env);
const { stores, checkAll: check } = wireStores(settings, { ttl: false, readsSizes: false });
const reducer = await wireReducer(settings);

/** Folds a log from its beginning, on demand, and compares the result with the stored snapshot. */
export const handler = instrumented(
  (report) =>
    replayFunction({
      ...stores,
      reducer,
      now: Date.now,
      watch: foldWatchOf(process.env),
      withScratch: scratchOf(process.env),
      report,
    }),
  check,
);
