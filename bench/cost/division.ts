import { divisionOf } from '../../src/log/division-policy.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { markdownTable, type Table } from '../tables.ts';
import { allReadUnits, billOf } from './bill.ts';
import { Deployment, KINDS, type Kind, type Month } from './deployment.ts';
import { DEFAULT_MODEL, type UsageModel } from './model.ts';
import { addWork, NO_WORK, type Work } from './work.ts';

/** Entries of the counted log. */
const APPENDS = 10_000;
const MILLION = 1_000_000;
/** Entries from one snapshot to the next, and from one segment to the next. */
const EVERY = { snapshot: 100, segment: 1_000 };
/** Records of a batch: in a quiet table, with an entry per second, and in a busy table. */
const BATCHES = [1, 10, 100];
/** The work that depends on who asks for snapshots. */
const ASKING: readonly Kind[] = ['append', 'stream', 'divide'];

/**
 * The price of a division policy: the work of appends under a policy, without that of an
 * application that asks for as many snapshots and segments itself, for a million appends.
 * @param requestMs see {@link billOf}
 */
export async function divisionTable(requestMs: number): Promise<Table> {
  const asked = await workOf({ snapshotEvery: EVERY.snapshot, segmentEvery: EVERY.segment });
  const policy = divisionOf({ snapshotEveryEntries: EVERY.snapshot, segmentEveryEntries: EVERY.segment });
  const rows: string[][] = [rowOf('the application asks', asked, requestMs)];
  for (const batchRecords of BATCHES) {
    const divided = await workOf({ division: { policy, batchRecords } });
    rows.push(
      rowOf(`a policy, ${batchRecords} ${batchRecords === 1 ? 'record' : 'records'} a batch`, divided, requestMs),
    );
  }
  return {
    title: 'For a million appends to logs',
    head: [
      'who asks for snapshots',
      'snapshots',
      'invocations',
      'DynamoDB requests',
      'write units',
      'read units',
      'S3 LISTs',
      'SQS requests',
      'US dollars',
    ],
    rows,
  };
}

/** The table in Markdown, as in `docs/performance.md`. */
export async function divisionReport(requestMs: number): Promise<string> {
  return markdownTable(await divisionTable(requestMs));
}

/** The work of {@link APPENDS} appends to a log, without sweeps. */
async function workOf(changes: Partial<UsageModel>): Promise<Month['work']> {
  const deployment = new Deployment({ ...DEFAULT_MODEL, policy: DEFAULT_POLICY, ...changes });
  await deployment.createLog();
  return deployment.appends(APPENDS);
}

/** The work that asks for snapshots, without the appends of the application's own entries. */
function rowOf(name: string, work: Month['work'], requestMs: number): string[] {
  const scale = (of: Work): Work => addWork(NO_WORK, of, MILLION / APPENDS);
  const own = addWork(NO_WORK, { ...NO_WORK, requests: APPENDS, writeUnits: APPENDS }, -1);
  const asking = { ...work, append: addWork(work.append, own) };
  const sum = ASKING.reduce((total, kind) => addWork(total, scale(asking[kind])), NO_WORK);
  const kinds = KINDS.map((kind): [Kind, Work] => [kind, ASKING.includes(kind) ? scale(asking[kind]) : NO_WORK]);
  const bill = billOf({ work: workByKind(kinds), tableBytes: 0, bucketBytes: 0 }, requestMs);
  return [
    name,
    ...[scale(work.snapshot).invocations, sum.invocations, sum.requests, sum.writeUnits, allReadUnits(sum)].map(count),
    ...[sum.lists, sum.queueRequests].map(count),
    (bill.total + bill.appending).toFixed(2),
  ];
}

function workByKind(kinds: readonly [Kind, Work][]): Month['work'] {
  const found = new Map(kinds);
  const of = (kind: Kind): Work => found.get(kind) ?? NO_WORK;
  return {
    append: of('append'),
    stream: of('stream'),
    divide: of('divide'),
    snapshot: of('snapshot'),
    flush: of('flush'),
    archive: of('archive'),
    expire: of('expire'),
    collect: of('collect'),
    sweep: of('sweep'),
  };
}

function count(number: number): string {
  return number.toLocaleString('en-US', { maximumFractionDigits: 0 });
}
