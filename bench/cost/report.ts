import { PRICES } from '../../examples/demo/prices.ts';
import { markdownTable, type Table } from '../tables.ts';
import { allLists, allReadUnits, type Bill, billOf, type Size, scale } from './bill.ts';
import { KINDS, type Kind, type Month } from './deployment.ts';
import { DEFAULT_MODEL, EXPIRE_WRITE_UNITS, MONTH_DAYS, type UsageModel } from './model.ts';
import type { Months } from './months.ts';
import { addWork, type Work } from './work.ts';

/** Numbers of logs in the report. */
export const SIZES = [1_000, 100_000, 1_000_000] as const;

/** The assumptions of a report. */
export interface CostOptions {
  readonly model: UsageModel;
  /** See {@link Size}. */
  readonly activeShare: number;
  /** See {@link billOf}. */
  readonly requestMs: number;
}

/** The assumptions in `docs/operations.md`. */
export const DEFAULT_OPTIONS: CostOptions = { model: DEFAULT_MODEL, activeShare: 0.05, requestMs: 5 };

/** The cost of a deployment of one size per month. */
export interface Cost extends Size {
  /** US dollars. */
  readonly bill: Bill;
}

const NAMES: Readonly<Record<Kind, string>> = {
  append: 'active log: the application appends',
  stream: 'active log: stream',
  divide: 'active log: dividing',
  snapshot: 'active log: snapshots',
  flush: 'active log: flushing',
  archive: 'active log: archives',
  expire: 'active log: expiring',
  collect: 'active log: collecting',
  sweep: 'active log: its part in sweeps',
};

/** The costs of deployments of all {@link SIZES}. */
export function costsOf(months: Months, { activeShare, requestMs }: CostOptions): Cost[] {
  return SIZES.map((logs) => {
    return { logs, activeShare, bill: billOf(scale(months, { logs, activeShare }), requestMs) };
  });
}

/**
 * The counts for an active log, a log at rest and an empty deployment. They are the same in every
 * run.
 */
export function requestTable({ active, atRest, empty }: Months): Table {
  const rows: [string, Work][] = KINDS.map((kind) => [NAMES[kind], addWork(active.work[kind], empty.work[kind], -1)]);
  rows.push(['log at rest: its part in sweeps', addWork(atRest.work.sweep, empty.work.sweep, -1)]);
  rows.push(['deployment without logs: sweeps', empty.work.sweep]);
  return {
    title: 'Requests to AWS in a month',
    head: [
      'for',
      'invocations',
      'DynamoDB requests',
      'write units',
      'read units',
      'S3 PUTs',
      'S3 GETs',
      'S3 LISTs',
      'SQS requests',
    ],
    rows: rows
      .filter(([, work]) => !isNothing(work))
      .map(([name, work]) => [
        name,
        ...[work.invocations, work.requests + work.scans, work.writeUnits, allReadUnits(work)].map(formatCount),
        ...[work.puts, work.gets, allLists(work), work.queueRequests].map(formatCount),
      ]),
  };
}

/** The costs. Only Lambda's time, and with it the total, differs from run to run. */
export function costTable(costs: readonly Cost[]): Table {
  return {
    title: 'Costs in US dollars a month',
    head: [
      'logs',
      'active a day',
      'writes',
      'reads',
      'S3 requests',
      'SQS',
      'Lambda',
      'storage',
      'total',
      'your appends, extra',
    ],
    rows: costs.map(({ logs, activeShare, bill }) => [
      formatCount(logs),
      formatCount(Math.round(logs * activeShare)),
      ...[bill.writes, bill.reads, bill.s3, bill.sqs, bill.lambda, bill.storage].map(formatDollars),
      formatDollars(bill.total),
      formatDollars(bill.appending),
    ]),
  };
}

/** The whole report in Markdown, as in `docs/operations.md`. */
export function costReport(months: Months, options: CostOptions): string {
  const tables = [requestTable(months), costTable(costsOf(months, options))].map(markdownTable);
  return [describeModel(months, options), ...tables, describePrices(options)].join('\n\n');
}

function describeModel({ active, atRest }: Months, { model, activeShare }: CostOptions): string {
  const { entriesADay, entryBytes, rows, snapshotEvery, segmentEvery, ageDays, sweepHours, policy } = model;
  const { keepDays, keepSegments } = policy;
  return [
    `An active log takes ${entriesADay} entries of ${entryBytes} bytes a day, which fill a sheet of ${formatCount(rows)} rows. It has a`,
    `snapshot every ${snapshotEvery} entries and a segment every ${segmentEvery}. Segments that were closed ${keepDays} days ago are`,
    `archived and expire by TTL, except the newest ${keepSegments}. A sweep runs every ${sweepHours === 1 ? 'hour' : `${sweepHours} hours`}. The counted month of`,
    `${MONTH_DAYS} days begins after ${ageDays} such days. A log at rest is the same log when nothing is left to archive.`,
    `An active log has, on average, ${formatMegabytes(active)}.`,
    `A log at rest has ${formatMegabytes(atRest)}.`,
    `${formatCount(activeShare * 100)} % of the logs are active, the others are at rest.`,
  ].join('\n');
}

function describePrices({ requestMs }: CostOptions): string {
  const { region, dynamodb, s3, sqs, lambda, storage } = PRICES;
  return [
    `List prices of ${region} without free tiers: DynamoDB on demand as of ${dynamodb.asOf},`,
    `S3 Standard as of ${s3.asOf}, SQS FIFO as of ${sqs.asOf}, Lambda on Arm as of ${lambda.asOf},`,
    `storage as of ${storage.asOf}. Requests and units are counted. Lambda is billed for its invocations and its`,
    `time: the time that the same work took in this program, on the machine that ran it, plus ${requestMs} ms for`,
    `each request that it waits for. An expire job is limited to ${EXPIRE_WRITE_UNITS} write units a second, and takes that`,
    'time. Storage covers the tables and the bucket. Random letters hardly compress; real data takes',
    'less. Not included are the fixed costs (below), log lines in CloudWatch, X-Ray, cold starts,',
    'point-in-time recovery, your own KMS keys, and clients that load snapshots.',
  ].join('\n');
}

function isNothing(work: Work): boolean {
  const { milliseconds: _, ...counts } = work;
  return Object.values(counts).every((count) => count === 0);
}

function formatCount(count: number): string {
  return count.toLocaleString('en-US', { maximumFractionDigits: 1 });
}

function formatMegabytes({ tableBytes, bucketBytes }: Month): string {
  return `${(tableBytes / 1e6).toFixed(1)} MB in the tables and ${(bucketBytes / 1e6).toFixed(1)} MB in the bucket`;
}

function formatDollars(dollars: number): string {
  const digits = dollars < 100 ? 2 : 0;
  return dollars.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
