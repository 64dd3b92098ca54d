import { sweepFunction } from '../src/functions/sweep-function.ts';
import { readEnvironment, workEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { wireWork } from './wire.ts';

const settings = readEnvironment(workEnvironment, process.env);
const { stores, adopt, check, checkStream, queues, policy, division, now } = wireWork(settings);
const hasTrigger = checkStream !== undefined;

/** Finds what the stream missed and what is due, in all logs, and sends jobs for it. */
export const handler = instrumented(
  (report) => sweepFunction({ ...stores, adopt, queues, policy, division, now, hasTrigger, checkStream, report }),
  check,
);
