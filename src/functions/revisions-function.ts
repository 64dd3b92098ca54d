import type { DynamoDBBatchResponse } from 'aws-lambda';
import * as z from 'zod';
import type { LogId } from '../ids/log-id.ts';
import type { ImageChange } from '../revisions/image-change.ts';
import type { CompareOptions, CompareResult } from '../workers/revisions/compare-table.ts';
import { recordRevisions } from '../workers/revisions/record-revisions.ts';
import type { RevisionLogs } from '../workers/revisions/revision-logs.ts';
import type { ComparisonDeps } from '../workers/revisions/table-comparison.ts';
import type { RevisionsEvent } from './function-event.ts';
import { deadlineOf, type Invocation, parseEvent } from './invocation.ts';
import { fromLambdaChange } from './lambda-change.ts';
import { fieldsOf } from './stream-function.ts';

const compareEvent = z.strictObject({ compare: z.literal(true), settleSeconds: z.number().min(0).max(600).optional() });

const COMPARE_EVENT = { name: 'revisions', advice: 'Give {"compare": true}, perhaps with settleSeconds' };

export interface RevisionsFunctionDeps {
  /** The logs of the source table. Called for every event; make the logs once. */
  readonly logs: () => Promise<RevisionLogs>;
  /** Rejects if new changes do not arrive any more. */
  readonly checkStream: () => Promise<void>;
  /** Compares the source table with its logs. */
  readonly compare: (
    logs: RevisionLogs,
    options: CompareOptions & Pick<ComparisonDeps, 'onFailure'>,
  ) => Promise<CompareResult>;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly report: (event: RevisionsEvent) => void;
}

/**
 * Makes the function that records the changes of a plain table as revisions. Records of the table's
 * stream become revisions. A malformed record fails alone; the records of the other logs and the
 * later ones are still recorded. The event `{"compare":true}`, which the schedule sends, compares
 * the table with its revisions, as far as its time goes; the next such run continues. An operator
 * may give `settleSeconds`, as in `CompareOptions`.
 * @throws UsageError from the function if the event has neither records nor `compare`
 */
export function revisionsFunction(
  deps: RevisionsFunctionDeps,
): (event: unknown, invocation: Invocation) => Promise<DynamoDBBatchResponse | CompareResult> {
  return async (event, invocation) => {
    const { Records: records } = fieldsOf(event);
    if (Array.isArray(records))
      return recordRecords(deps, records, { ...LAMBDA_RECORDS, run: invocation.awsRequestId });
    const { settleSeconds } = parseEvent(compareEvent, event, COMPARE_EVENT);
    return compare(deps, settleSeconds, invocation);
  };
}

/** How to read the records of a stream. */
interface RecordForm<R> {
  /** @throws MessageInvalidError if the record is malformed */
  readonly changeOf: (record: R) => ImageChange;
  readonly sequenceOf: (record: R) => string;
}

/**
 * Records the changes in records. A malformed record fails alone.
 * @returns the records that must be delivered again
 * @throws the errors of `logs`
 */
export async function recordRecords<R>(
  { logs, report }: Pick<RevisionsFunctionDeps, 'logs' | 'report'>,
  records: readonly R[],
  { run, changeOf, sequenceOf }: RecordForm<R> & { readonly run: string },
): Promise<DynamoDBBatchResponse> {
  const changes: ImageChange[] = [];
  const malformed: string[] = [];
  const fail = (error: unknown, sequence: string): void => report({ kind: 'unrecorded', run, sequence, error });
  for (const record of records) {
    try {
      changes.push(changeOf(record));
    } catch (error) {
      const sequence = sequenceOf(record);
      malformed.push(sequence);
      fail(error, sequence);
    }
  }
  const started = performance.now();
  const onFailure = (error: unknown, { sequence }: ImageChange): void => fail(error, sequence);
  const result = await recordRevisions({ logs: await logs(), onFailure }, changes);
  const failed = [...new Set([...malformed, ...result.failed])];
  const { recorded, gaps } = result;
  report({ kind: 'recorded', run, recorded, gaps, failed: failed.length, ms: performance.now() - started });
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}

const LAMBDA_RECORDS: RecordForm<unknown> = {
  changeOf: fromLambdaChange,
  /** If a malformed record has no sequence number, Lambda delivers the whole batch again. */
  sequenceOf: (record) => {
    const { SequenceNumber } = fieldsOf(fieldsOf(record).dynamodb);
    return typeof SequenceNumber === 'string' ? SequenceNumber : '';
  },
};

async function compare(
  deps: RevisionsFunctionDeps,
  settleSeconds: number | undefined,
  invocation: Invocation,
): Promise<CompareResult> {
  const { logs, report } = deps;
  const { awsRequestId: run } = invocation;
  const started = performance.now();
  const deadline = deadlineOf(invocation, deps);
  const onFailure = (log: LogId | undefined, error: unknown): void => report({ kind: 'uncompared', run, log, error });
  // The comparison finds what no stream brings; the report tells the operator.
  await deps.checkStream().catch((error: unknown) => onFailure(undefined, error));
  try {
    const result = await deps.compare(await logs(), { settleSeconds, deadline, onFailure });
    report({ kind: 'compared', run, result, ms: performance.now() - started });
    return result;
  } catch (error) {
    onFailure(undefined, error);
    throw error;
  }
}
