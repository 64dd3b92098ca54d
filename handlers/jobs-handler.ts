import { SQSClient } from '@aws-sdk/client-sqs';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { sdkConfig } from '../src/adapters/sdk-config.ts';
import { SqsJobQueue } from '../src/adapters/sqs-job-queue.ts';
import { jobsFunction } from '../src/functions/jobs-function.ts';
import { readEnvironment, workEnvironment } from './environment.ts';
import { instrumented, logger } from './instrument.ts';
import { once } from './once.ts';
import { wireJobs } from './wire.ts';

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
  const messages = new SqsJobQueue({ client: new SQSClient(sdkConfig()), queueUrl: process.env[queue] ?? '' });
  const giveBack = (receipt: string, delayMs: number) => messages.changeVisibility(receipt, delayMs);
  return instrumented((report) => jobsFunction({ jobs, report, giveBack }));
}
