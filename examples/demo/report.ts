import Table from 'cli-table3';
import { count, formatBytes } from '../../src/cli/format.ts';
import { PRICES, priceOf, type Usage } from '../../src/cli/prices.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { Replayed } from '../../src/workers/inspect/replay.ts';
import type { SnapshotTotals } from './audit.ts';
import type { Comparison } from './plain-sheet.ts';
import type { Sharing } from './sharing.ts';
import { type EntryCounts, SNAPSHOT_EVERY } from './team.ts';
import type { View } from './view.ts';

/** Rows of the client's rectangle that are printed. */
const SHOWN_ROWS = 5;

/** Two snapshots and the edits between them. */
export interface Between extends Sharing {
  readonly edits: number;
  /** Where the edits were made. */
  readonly place: string;
  readonly older: Position;
  readonly newer: Position;
}

/** Something for everybody who makes requests: whoever appends, the pipeline, and whoever loads a part of the sheet. */
export interface ByRole<T> {
  readonly team: T;
  readonly logfold: T;
  readonly client: T;
}

/** What the demo found out: what it prints with `--json`. */
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

/** What everybody's requests would cost on AWS, in US dollars. */
export function costOf({ team, logfold, client }: ByRole<Usage>): ByRole<number> {
  return { team: priceOf(team), logfold: priceOf(logfold), client: priceOf(client) };
}

/** The same for a person. */
export function describeResult(result: DemoResult): string {
  return [
    ...section('What happened', describeTotals(result)),
    ...section(`Two snapshots ${result.between.edits} edits apart`, describeSharing(result.between)),
    ...section('A client opens the log', describeView(result)),
    ...section('What that would cost on AWS', describeCosts(result)),
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
      `${snapshots.snapshots}, each from the one before and the entries since, in ${ms(snapshots)} on average`,
    ],
    ['chunks', `${snapshots.chunksWritten} written, ${snapshots.chunksReused} reused from snapshots before`],
    ['bytes', `${bytes} written to S3; without reuse it would be ${formatBytes(snapshots.bytesAsCopies)}`],
  );
  if (retriedJobs > 0)
    table.push(['retries', `${count(retriedJobs, 'job')} failed and ${retriedJobs === 1 ? 'was' : 'were'} done again`]);
  return [
    table.toString(),
    '',
    'A chunk is a piece of the sorted cells, some 80 KB before compression, named by its SHA-256. A root',
    'is the small object that describes one snapshot and names its chunks.',
  ].join('\n');
}

function ms({ msPerSnapshot }: SnapshotTotals): string {
  return `${Math.round(msPerSnapshot)} ms`;
}

/** What the snapshots share, for a person. */
export function describeSharing(between: Between): string {
  const { place, olderChunks, shared, touched, waiting, recut, lost } = between;
  const [older, newer] = [formatPosition(between.older), formatPosition(between.newer)];
  if (olderChunks === 0)
    return `${older} and ${newer} have no chunks: they are so small that they travel whole in their roots.`;
  const sharing = `The snapshots at ${older} and ${newer} (segment/entry) share ${shared} of ${count(olderChunks, 'chunk')}.`;
  if (waiting > 0 && waiting === touched && shared === olderChunks) {
    const edits = `The edits, all around ${place}, belong to ${count(touched, 'chunk')}, and are too few for any to be rewritten`;
    return `${sharing}\n${edits}:\nthey wait in the root, so that every chunk is shared.`;
  }
  const others =
    lost === 0 ? 'Every other chunk is shared' : `${count(lost, 'OTHER CHUNK IS', 'OTHER CHUNKS ARE')} NOT SHARED`;
  const cut = recut === 0 ? '' : ` and ${recut} right after these had to be cut anew`;
  return [
    sharing,
    `The edits, all around ${place}, touched ${count(touched, 'chunk')}${cut}. ${others}.`,
    ...(waiting === 0
      ? []
      : [`Too few for ${waiting} of them to be worth writing yet, edits wait beside these in the root.`]),
  ].join('\n');
}

function describeView({ view, between }: DemoResult): string {
  const table = plainTable([]);
  for (const row of view.cells.slice(0, SHOWN_ROWS)) table.push(row.map((text) => `${text}  `));
  const { rows, columns, fetched, tailEntries } = view;
  const size = `${rows.to - rows.from} rows by ${columns.to - columns.from} columns`;
  return [
    `${size} took ${formatBytes(fetched.bytes)} of S3 in ${count(fetched.objects, 'object')}, the root among them. The chunks, of ${between.newerChunks}`,
    `in all, are those with these cells or with others that the ${tailEntries} entries since the snapshot change.`,
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
    `For a million entries: ${forMillion(cost.team)} to append them, ${forMillion(cost.logfold)} to fold them into a snapshot every ${SNAPSHOT_EVERY}.`,
    `List prices of ${PRICES.region}: DynamoDB on demand as of ${PRICES.dynamodb.asOf}, S3 Standard as of ${PRICES.s3.asOf}.`,
    'Lambda reads the stream free of charge; its time, SQS and storage are not counted here.',
  ].join('\n');
}

function describeProof({ sheet, view, replayed, proved, seconds }: DemoResult): string {
  const position = formatPosition(replayed.position);
  const same = sheet.equal && view.equal;
  const again = `All ${formatNumber(replayed.entries)} entries, folded once more from the first one,`;
  return [
    same
      ? `✔ All ${formatNumber(sheet.cells)} cells, as loaded, equal a copy of the table that was kept in plain arrays.`
      : `✘ The sheet, as loaded, DIFFERS from the copy in plain arrays: ${sheet.difference ?? 'in the rectangle'}`,
    replayed.equal
      ? `✔ ${again} give the snapshot at ${position}:`
      : `✘ ${again} DIFFER from the snapshot at ${position}:`,
    `    replayed ${replayed.replayed}`,
    `    stored   ${replayed.stored}`,
    '',
    `${proved ? 'Everything agrees' : 'NOT EVERYTHING AGREES'}. ${seconds.toFixed(1)} s in all.`,
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
