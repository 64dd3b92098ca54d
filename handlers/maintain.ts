import { jobsFunction } from '../src/functions/jobs-function.ts';
import { readEnvironment, workEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { once } from './once.ts';
import { wireJobs } from './wire.ts';

const { jobs, queues, check } = await wireJobs(readEnvironment(workEnvironment, process.env));
const giveBack = (receipt: string, delayMs: number) => queues.maintenance.changeVisibility(receipt, delayMs);

/** Settles, archives, expires and collects. */
export const handler = instrumented((report) => jobsFunction({ jobs, report, giveBack, check: once(check) }));
