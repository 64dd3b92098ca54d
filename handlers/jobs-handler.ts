import { SQSClient } from '@aws-sdk/client-sqs';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { IMPATIENT, sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { SqsJobQueue } from '../src/adapters/sqs/job-queue.ts';
import { jobsFunction } from '../src/functions/jobs-function.ts';
import { readEnvironment, workEnvironment } from './environment.ts';
import { instrumented, logger } from './instrument.ts';
import { once } from './once.ts';
import { wireJobs } from './wire.ts';

/**
 * Makes the handler that runs the jobs of a queue. If it cannot work, because a parameter is
 * invalid or the reducer cannot be loaded, it logs the reason when it starts and fails each job,
 * which is then retried like any other. If it threw instead, each message would stay hidden for the
 * queue's whole visibility timeout.
 * @param queue the environment variable with the queue's URL
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
  // Awaited here, because Lambda gives a start more CPU than an invocation.
  await wired().catch((error: unknown) => logger.error('the function cannot work', { error }));
  const messages = new SqsJobQueue({ client: new SQSClient(sdkConfig(IMPATIENT)), queueUrl: process.env[queue] ?? '' });
  const changeVisibility = (receipt: string, ms: number) => messages.changeVisibility(receipt, ms);
  return instrumented((report) => jobsFunction({ jobs, report, changeVisibility }));
}
