import { Logger } from '@aws-lambda-powertools/logger';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { z } from 'zod';
import { DynamoDbLogStore } from '../src/adapters/dynamodb-log-store.ts';
import { nativePlatform } from '../src/adapters/native-platform.ts';
import { S3BlobStore } from '../src/adapters/s3-blob-store.ts';
import { SqsJobQueue } from '../src/adapters/sqs-job-queue.ts';
import { ArchivedLogStore } from '../src/archive/archived-log-store.ts';
import { UsageError } from '../src/errors.ts';
import type { ReservedTypes } from '../src/log/entry.ts';
import { DEFAULT_POLICY } from '../src/snapshot/retention.ts';
import { spreadsheet } from '../src/state/spreadsheet/reducer.ts';
import type { JobQueue } from '../src/store/job-queue.ts';
import { readPolicies } from '../src/workers/policies.ts';
import type { JobDeps } from '../src/workers/run-job.ts';

type Environment = Readonly<Record<string, string | undefined>>;

const typeNames = {
  SNAPSHOT_TYPE: z.string().min(1).default('Snapshot'),
  END_SEGMENT_TYPE: z.string().min(1).default('End Segment'),
};
const streamSchema = z.object({ ...typeNames, QUEUE_URL: z.url() });
const snapshotSchema = z.object({
  ...typeNames,
  ENTRY_TABLE: z.string().min(1),
  SEGMENT_TABLE: z.string().min(1),
  BUCKET: z.string().min(1),
  QUEUE_URL: z.url(),
});

/** One logger for each function: JSON lines, with the function's name as service. */
export function wireLogger(serviceName: string): Logger {
  return new Logger({ serviceName });
}

/**
 * What the stream function works with.
 * @throws UsageError naming the environment variable that is missing or makes no sense
 */
export function wireStream(environment: Environment): { readonly queue: JobQueue; readonly types: ReservedTypes } {
  const settings = parse(streamSchema, environment);
  return {
    queue: new SqsJobQueue({ client: new SQSClient({}), queueUrl: settings.QUEUE_URL }),
    types: reserved(settings),
  };
}

/**
 * What the snapshot function works with.
 * @throws UsageError naming the environment variable that is missing or makes no sense
 */
export function wireSnapshot(environment: Environment): JobDeps {
  const settings = parse(snapshotSchema, environment);
  const tables = new DynamoDbLogStore({
    client: new DynamoDBClient({}),
    entryTable: settings.ENTRY_TABLE,
    segmentTable: settings.SEGMENT_TABLE,
  });
  const blobs = new S3BlobStore({ client: new S3Client({}), bucket: settings.BUCKET });
  return {
    store: new ArchivedLogStore(tables, { blobs, platform: nativePlatform }),
    tables,
    blobs,
    queue: new SqsJobQueue({ client: new SQSClient({}), queueUrl: settings.QUEUE_URL }),
    platform: nativePlatform,
    reducer: spreadsheet,
    types: reserved(settings),
    now: Date.now,
    random: Math.random,
    policyOf: async (log) => (await readPolicies(blobs, DEFAULT_POLICY)).of(log),
  };
}

function reserved(settings: { readonly SNAPSHOT_TYPE: string; readonly END_SEGMENT_TYPE: string }): ReservedTypes {
  return { snapshot: settings.SNAPSHOT_TYPE, endSegment: settings.END_SEGMENT_TYPE };
}

function parse<T>(schema: z.ZodType<T>, environment: Environment): T {
  const parsed = schema.safeParse(environment);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new UsageError(`the function's environment is not right: ${problems.join('; ')}`, {
    advice: "Correct the template's parameters and deploy again",
  });
}
