import { SQSClient } from '@aws-sdk/client-sqs';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { SqsJobQueue } from '../src/adapters/sqs/job-queue.ts';
import { jobsFunction } from '../src/functions/jobs-function.ts';
import { readEnvironment, workEnvironment } from './environment.ts';
import { instrumented, logger } from './instrument.ts';
import { once } from './once.ts';
import { wireJobs } from './wire.ts';

/** For requests that a job can do without: it does not wait for a minute until they succeed. */
const IMPATIENT = sdkConfig({ retries: { attempts: 4, baseMs: 100, capMs: 2_000 }, idleMs: 5_000 });

/**
 * A function that does the jobs of a queue. What keeps it from working, as a parameter that makes no sense or a reducer
 * that cannot be loaded, is logged when it starts, and fails each job, which then waits as others do. If it ended the
 * function instead, nobody would give the messages back: each would be hidden for the queue's visibility timeout.
 * @param queue the variable that holds the queue's address
 */
export async function jobsHandler(
  queue: 'SNAPSHOT_QUEUE_URL' | 'MAINTENANCE_QUEUE_URL',
): Promise<(event: SQSEvent, context: Context) => Promise<SQSBatchResponse>> {
  const wired = once(async () => wireJobs(readEnvironment(workEnvironment, process.env)));
  const jobs = once(async () => {
    const { jobs, check } = await wired();
    await check();
    return jobs;
  });
  // Waited for here, since a start has more of the processor than an invocation.
  await wired().catch((error: unknown) => logger.error('the function cannot work', { error }));
  const messages = new SqsJobQueue({ client: new SQSClient(IMPATIENT), queueUrl: process.env[queue] ?? '' });
  const changeVisibility = (receipt: string, ms: number) => messages.changeVisibility(receipt, ms);
  return instrumented((report) => jobsFunction({ jobs, report, changeVisibility }));
}
