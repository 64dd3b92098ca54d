import { sweepFunction } from '../src/functions/sweep-function.ts';
import { readEnvironment, workEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { wireWork } from './wire.ts';

const { stores, check, queues, policy, now } = wireWork(readEnvironment(workEnvironment, process.env));

/** Finds what the stream missed and what is due, in all logs, and sends jobs for it. */
export const handler = instrumented((report) => sweepFunction({ ...stores, queues, policy, now, report }), check);
