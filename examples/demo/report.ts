import Table from 'cli-table3';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { Replayed } from '../../src/workers/audit/replay.ts';
import { count, formatBytes } from '../../src/workers/jobs/report.ts';
import type { SnapshotTotals } from './audit.ts';
import type { Comparison } from './plain-sheet.ts';
import { PRICES, priceOf, type Usage } from './prices.ts';
import type { Sharing } from './sharing.ts';
import { type EntryCounts, SNAPSHOT_EVERY } from './team.ts';
import type { View } from './view.ts';

/** Rows of the client's rectangle in the report. */
const SHOWN_ROWS = 5;

/** Two snapshots and the edits between them. */
export interface Between extends Sharing {
  readonly edits: number;
  /** The city in the middle of the edits. */
  readonly place: string;
  readonly older: Position;
  readonly newer: Position;
}

/** A value for each actor whose requests count. `logfold` is the pipeline. */
export interface ByRole<T> {
  readonly team: T;
  readonly logfold: T;
  readonly client: T;
}

/** The result of the demo, as `--json` prints it. */
export interface DemoResult {
  /** Whether everything agreed. */
  readonly proved: boolean;
  readonly log: string;
  readonly seconds: number;
  readonly data: {
    readonly title: string;
    readonly file: string;
    readonly credit: string;
    readonly rows: number;
    readonly columns: number;
  };
  readonly entries: EntryCounts;
  readonly snapshots: SnapshotTotals;
  /** Jobs of the pipeline that failed and succeeded later. */
  readonly retriedJobs: number;
  readonly usage: ByRole<Usage>;
  /** US dollars. */
  readonly cost: ByRole<number>;
  readonly prices: typeof PRICES;
  readonly between: Between;
  readonly view: View;
  readonly sheet: Comparison;
  readonly replayed: Replayed;
}

/** The cost of each actor's requests on AWS, in US dollars. */
export function costOf({ team, logfold, client }: ByRole<Usage>): ByRole<number> {
  return { team: priceOf(team), logfold: priceOf(logfold), client: priceOf(client) };
}

/** The report for people. */
export function describeResult(result: DemoResult): string {
  return [
    ...section('The run', describeTotals(result)),
    ...section(`Two snapshots ${result.between.edits} edits apart`, describeSharing(result.between)),
    ...section('A client opens the log', describeView(result)),
    ...section('The cost on AWS', describeCosts(result)),
    ...section('Proof', describeProof(result)),
    '',
  ].join('\n');
}

function section(title: string, text: string): string[] {
  return ['', title, ...text.split('\n').map((line) => `  ${line}`.trimEnd())];
}

function describeTotals({ data, entries, snapshots, retriedJobs }: DemoResult): string {
  const table = plainTable([]);
  const { sets, insertedRows, deletedRows } = entries;
  const bytes = formatBytes(snapshots.bytesWritten);
  table.push(
    ['data', `${formatNumber(data.rows)} rows, ${data.columns} columns: ${data.file} (${data.credit})`],
    ['entries', `${formatNumber(entries.entries)} in ${count(entries.segments, 'segment')} of the log`],
    [
      'edits',
      `${formatNumber(sets)} set cells; ${count(insertedRows, 'row')} inserted, ${deletedRows} deleted; 1 column inserted`,
    ],
    [
      'snapshots',
      `${snapshots.snapshots}, each built from its predecessor and the newer entries, in ${ms(snapshots)} on average`,
    ],
    ['chunks', `${snapshots.chunksWritten} written, ${snapshots.chunksReused} reused from earlier snapshots`],
    ['bytes', `${bytes} written to S3, instead of ${formatBytes(snapshots.bytesAsCopies)} without reuse`],
  );
  if (retriedJobs > 0) table.push(['retries', `${count(retriedJobs, 'job')} failed and ran again`]);
  return [
    table.toString(),
    '',
    'A chunk has about 80 KB of the sorted cells before compression. Its name is its SHA-256. A root is',
    'a small object that describes one snapshot and names its chunks.',
  ].join('\n');
}

function ms({ msPerSnapshot }: SnapshotTotals): string {
  return `${Math.round(msPerSnapshot)} ms`;
}

/** Describes the chunks that two snapshots share. */
export function describeSharing(between: Between): string {
  const { place, olderChunks, shared, touched, buffered, recut, lost } = between;
  const [older, newer] = [formatPosition(between.older), formatPosition(between.newer)];
  if (olderChunks === 0)
    return `${older} and ${newer} have no chunks: they are so small that their roots contain everything.`;
  const sharing = `The snapshots at ${older} and ${newer} (segment/entry) share ${shared} of ${count(olderChunks, 'chunk')}.`;
  if (buffered > 0 && buffered === touched && shared === olderChunks) {
    const edits = `The edits, all around ${place}, belong to ${count(touched, 'chunk')} and are too few to rewrite any.`;
    return `${sharing}\n${edits}\nThe root stores them in its write buffer, so the snapshots share every chunk.`;
  }
  const others =
    lost === 0 ? 'Every other chunk is shared' : `${count(lost, 'OTHER CHUNK IS', 'OTHER CHUNKS ARE')} NOT SHARED`;
  const cut =
    recut === 0
      ? ''
      : `, and ${count(recut, 'chunk')} after them ${recut === 1 ? 'has a new boundary' : 'have new boundaries'}`;
  return [
    sharing,
    `The edits, all around ${place}, touched ${count(touched, 'chunk')}${cut}. ${others}.`,
    ...(buffered === 0
      ? []
      : [
          `${count(buffered, 'touched chunk is', 'touched chunks are')} unchanged: the root stores their few edits in its write buffer.`,
        ]),
  ].join('\n');
}

function describeView({ view, between }: DemoResult): string {
  const table = plainTable([]);
  for (const row of view.cells.slice(0, SHOWN_ROWS)) table.push(row.map((text) => `${text}  `));
  const { rows, columns, fetched, tailEntries } = view;
  const size = `${rows.to - rows.from} rows by ${columns.to - columns.from} columns`;
  return [
    `${size} took ${formatBytes(fetched.bytes)} from S3 in ${count(fetched.objects, 'object')}, including the root. The client fetched`,
    `only the chunks with these cells (out of ${between.newerChunks}), or with cells changed by the ${tailEntries} entries after the snapshot.`,
    '',
    table.toString(),
    '…',
  ].join('\n');
}

function describeCosts({ usage, cost, entries }: DemoResult): string {
  const table = plainTable(['', 'DynamoDB requests', 'write units', 'read units', 'S3 PUTs', 'S3 GETs', 'list price']);
  const line = (name: string, { dynamodb, s3 }: Usage, dollars: number): void => {
    const { requests, writeUnits, readUnits } = dynamodb;
    table.push([
      name,
      ...[requests, writeUnits, readUnits, s3.puts, s3.gets].map(formatNumber),
      `$${dollars.toFixed(6)}`,
    ]);
  };
  line('the team', usage.team, cost.team);
  line('logfold', usage.logfold, cost.logfold);
  line('the client', usage.client, cost.client);
  const forMillion = (dollars: number): string => `$${((dollars / entries.entries) * 1e6).toFixed(2)}`;
  return [
    table.toString(),
    '',
    `A million entries cost ${forMillion(cost.team)} to append, and ${forMillion(cost.logfold)} to fold with a snapshot every ${SNAPSHOT_EVERY} entries.`,
    `List prices of ${PRICES.region}: DynamoDB on demand as of ${PRICES.dynamodb.asOf}, S3 Standard as of ${PRICES.s3.asOf}.`,
    'Lambda reads the stream free of charge. Compute time, SQS and storage are not included.',
  ].join('\n');
}

function describeProof({ sheet, view, replayed, proved, seconds }: DemoResult): string {
  const position = formatPosition(replayed.position);
  const same = sheet.equal && view.equal;
  const again = `All ${formatNumber(replayed.entries)} entries, folded again from the first,`;
  return [
    same
      ? `✔ All ${formatNumber(sheet.cells)} loaded cells equal a copy of the table in plain arrays.`
      : `✘ The loaded sheet DIFFERS from the copy in plain arrays: ${sheet.difference ?? 'in the rectangle'}`,
    replayed.equal
      ? `✔ ${again} give the snapshot at ${position}:`
      : `✘ ${again} DIFFER from the snapshot at ${position}:`,
    `    replayed ${replayed.replayed}`,
    `    stored   ${replayed.stored}`,
    '',
    `${proved ? 'Everything agrees' : 'NOT EVERYTHING AGREES'} (${seconds.toFixed(1)} s).`,
  ].join('\n');
}

function plainTable(head: readonly string[]) {
  const none = Object.fromEntries(
    ['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right']
      .concat(['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'])
      .map((part) => [part, '']),
  );
  return new Table({
    head: [...head],
    chars: { ...none, middle: '  ' },
    colAligns: head.map((_, i) => (i === 0 ? 'left' : 'right')),
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
}

function formatNumber(number: number): string {
  return number.toLocaleString('en', { maximumFractionDigits: 1 });
}
