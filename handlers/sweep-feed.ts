import type { Invocation } from '../src/functions/invocation.ts';
import { sweepFunction } from '../src/functions/sweep-function.ts';
import { feedSweepEnvironment, readEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { wireFeed, wireWork } from './wire.ts';

const settings = readEnvironment(feedSweepEnvironment, process.env);
const { stores, adopt, check, checkStream, queues, policy, division, now } = wireWork(settings);
const { openFeed, publish } = wireFeed(stores, queues.snapshot, settings);
const hasTrigger = checkStream !== undefined;

/** Sweeps, and writes what the stream missed into the feed. */
export const handler = instrumented(
  (report) => (event: unknown, invocation: Invocation) => {
    // Each sweep opens the feed again, because it may have begun again since the last one.
    const deps = {
      ...stores,
      adopt,
      queues,
      policy,
      division,
      now,
      hasTrigger,
      checkStream,
      feed: openFeed(),
      publish,
      report,
    };
    return sweepFunction(deps)(event, invocation);
  },
  check,
);
