import { sweepFunction } from '../src/functions/sweep-function.ts';
import { feedSweepEnvironment, readEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { wireWork } from './wire.ts';
import { wireFeed } from './wire-feed.ts';

const settings = readEnvironment(feedSweepEnvironment, process.env);
const { stores, dynamodb, adopt, check, queues, policy, division, now } = wireWork(settings);
const { blobs, types } = stores;
const hasTrigger = settings.ENTRY_TABLE_STREAM_ARN !== undefined;
const feed = wireFeed({ dynamodb, blobs, types, queue: queues.snapshot, settings });

/** Sweeps, and writes what the stream missed into the feed. */
export const handler = instrumented(
  (report) => sweepFunction({ ...stores, adopt, queues, policy, division, now, hasTrigger, ...feed, report }),
  check,
);
