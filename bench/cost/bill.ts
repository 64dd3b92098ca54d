import { PRICES } from '../../examples/demo/prices.ts';
import { KINDS, type Kind, type Month } from './deployment.ts';
import { EXPIRE_WRITE_UNITS, MEMORY_MB } from './model.ts';
import type { Months } from './months.ts';
import { scanUnits } from './units.ts';
import { addWork, sumWork, type Work } from './work.ts';

/** The size and use of a deployment. */
export interface Size {
  readonly logs: number;
  /** The share of logs that are edited every day, from 0 to 1. The others are at rest. */
  readonly activeShare: number;
}

/** US dollars a month. */
export interface Bill {
  readonly writes: number;
  readonly reads: number;
  readonly s3: number;
  readonly sqs: number;
  readonly lambda: number;
  /** Both tables and the bucket. */
  readonly storage: number;
  readonly total: number;
  /** The cost of the application's appends, which is not part of the total. */
  readonly appending: number;
}

const KEYS_A_REQUEST = 1000;
/** The requests that a job runs at the same time; 1 for kinds that are not listed. */
const CONCURRENCY: Partial<Record<Kind, number>> = { expire: 16, sweep: 8 };

/**
 * Scales to a month of a deployment of the given size: the empty deployment, plus the share of each
 * log.
 */
export function scale({ active, atRest, empty }: Months, { logs, activeShare }: Size): Month {
  const activeLogs = Math.round(logs * activeShare);
  const parts = [
    { month: active, times: activeLogs },
    { month: atRest, times: logs - activeLogs },
  ];
  const sum = (of: (month: Month) => number): number =>
    parts.reduce((total, { month, times }) => total + times * (of(month) - of(empty)), of(empty));
  const workOf = (kind: Kind): Work =>
    parts.reduce(
      (total, { month, times }) => addWork(total, addWork(month.work[kind], empty.work[kind], -1), times),
      empty.work[kind],
    );
  return {
    work: {
      append: workOf('append'),
      stream: workOf('stream'),
      divide: workOf('divide'),
      snapshot: workOf('snapshot'),
      flush: workOf('flush'),
      archive: workOf('archive'),
      expire: workOf('expire'),
      collect: workOf('collect'),
      sweep: workOf('sweep'),
    },
    tableBytes: sum(({ tableBytes }) => tableBytes),
    bucketBytes: sum(({ bucketBytes }) => bucketBytes),
  };
}

/**
 * The cost of a month at {@link PRICES}.
 * @param requestMs milliseconds that a function waits for a request
 */
export function billOf({ work, tableBytes, bucketBytes }: Month, requestMs: number): Bill {
  const { append, ...own } = work;
  const all = requestCosts(sumWork(Object.values(own)));
  const { perMillion } = PRICES.lambda;
  const lambda = KINDS.filter((kind) => kind !== 'append').reduce((total, kind) => {
    const seconds = gigabyteSeconds(kind, work[kind], requestMs);
    return total + work[kind].invocations * perMillion.invocations + seconds * perMillion.gigabyteSeconds;
  }, 0);
  const { tableMegabyteMonths, bucketMegabyteMonths } = PRICES.storage.perMillion;
  const storage = (tableBytes * tableMegabyteMonths + bucketBytes * bucketMegabyteMonths) / 1e6;
  const costs = { ...all, lambda, storage };
  const total = Object.values(costs).reduce((sum, each) => sum + each, 0);
  const { writes, reads, s3, sqs } = requestCosts(append);
  const appending = writes + reads + s3 + sqs;
  return {
    writes: costs.writes / 1e6,
    reads: costs.reads / 1e6,
    s3: costs.s3 / 1e6,
    sqs: costs.sqs / 1e6,
    lambda: costs.lambda / 1e6,
    storage: costs.storage / 1e6,
    total: total / 1e6,
    appending: appending / 1e6,
  };
}

/** Costs in millionths of a dollar. */
function requestCosts(work: Work): Pick<Bill, 'writes' | 'reads' | 's3' | 'sqs'> {
  const { dynamodb, s3, sqs } = PRICES;
  return {
    writes: work.writeUnits * dynamodb.perMillion.writeUnits,
    reads: allReadUnits(work) * dynamodb.perMillion.readUnits,
    s3: work.puts * s3.perMillion.puts + work.gets * s3.perMillion.gets + allLists(work) * s3.perMillion.lists,
    sqs: work.queueRequests * sqs.perMillion.requests,
  };
}

/** All read units, including those of scans. */
export function allReadUnits({ readUnits, scannedBytes, scans }: Work): number {
  return readUnits + scanUnits(scannedBytes, scans);
}

/** All LIST requests: one per listing, and one per thousand listed keys. */
export function allLists({ lists, listedKeys }: Work): number {
  return lists + listedKeys / KEYS_A_REQUEST;
}

/**
 * Gigabyte-seconds of a function: its computing time, plus its waits for requests or for the rate
 * limiter.
 */
function gigabyteSeconds(kind: Kind, work: Work, requestMs: number): number {
  const requests = work.requests + work.scans + work.puts + work.gets + allLists(work) + work.queueRequests;
  const waits = (requests * requestMs) / (CONCURRENCY[kind] ?? 1);
  const limited = kind === 'expire' ? (work.writeUnits / EXPIRE_WRITE_UNITS) * 1000 : 0;
  const ms = Math.max(0, work.milliseconds) + Math.max(waits, limited);
  const memory = kind === 'stream' || kind === 'sweep' ? MEMORY_MB[kind] : MEMORY_MB.jobs;
  return (ms / 1000) * (memory / 1024);
}
