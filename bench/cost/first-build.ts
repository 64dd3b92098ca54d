import { PRICES } from '../../examples/demo/prices.ts';
import { MARGIN_MS } from '../../src/functions/invocation.ts';
import { Results } from '../bounds.ts';
import type { Run } from '../measured.ts';
import { LOG_ROWS, type Result } from '../phases.ts';
import { markdownTable, type Table } from '../tables.ts';
import { COLUMNS } from '../workload.ts';
import { MEMORY_MB, TIMEOUT_SECONDS } from './model.ts';

const MILLION = 1_000_000;
/** Logs of the table. Their entries edit the cells of a sheet in no order. */
const LOGS = [
  { entries: MILLION, cells: MILLION },
  { entries: 10 * MILLION, cells: MILLION },
  { entries: 10 * MILLION, cells: 10 * MILLION },
  { entries: 100 * MILLION, cells: MILLION },
  { entries: 100 * MILLION, cells: 10 * MILLION },
];
/** Seconds after which a build saves its progress and leaves the rest to a continuation. */
const RUN_SECONDS = TIMEOUT_SECONDS - MARGIN_MS / 1000;
/** Entries whose edits a build holds before it writes chunks, if each edits one cell. */
const BATCH_ENTRIES = MILLION;

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
/** Read units that one partition serves in a second. */
const PARTITION_UNITS = 3_000;
/** Bytes that one read unit reads, eventually consistently. */
const UNIT_BYTES = 8_192;

/** Figures of a run of the benchmark, for one entry or one cell. */
export interface BuildFigures {
  /** Processor time of a first build for an entry, from DynamoDB's answer to the written chunk. */
  readonly cpuSeconds: number;
  /** The same of a bare loop on the SDK. */
  readonly loopSeconds: number;
  /** Bytes of an entry's item. */
  readonly itemBytes: number;
  /** For each cell that the sheet has already when a batch of edits rewrites its leaves. */
  readonly rewrite: { readonly cpuSeconds: number; readonly gets: number };
  /** For each cell that the sheet has after a batch. */
  readonly puts: number;
}

/** Time, requests and price of a log's first build. */
export interface FirstBuild {
  readonly entries: number;
  readonly cells: number;
  readonly readUnits: number;
  readonly cpuSeconds: number;
  /** The least time in which one partition serves the log. */
  readonly partitionSeconds: number;
  readonly lambdaSeconds: number;
  readonly invocations: number;
  readonly puts: number;
  readonly gets: number;
  readonly dollars: number;
}

/**
 * The figures of a run.
 * @throws Error if the run lacks a phase that they need
 */
export function buildFigures({ results, rows }: Pick<Run, 'results' | 'rows'>): BuildFigures {
  const all = new Results(results);
  const need = (phase: string, system: string): Result => {
    const result = all.get(phase, system);
    if (result === undefined) throw new Error(`the run has no result of ${system} in phase ${phase}`);
    return result;
  };
  const [build, loop] = [need('read', 'logfold'), need('read', 'sdk-loop')];
  const [small, large] = [need('full-shuffled', 'logfold'), need('full-10m', 'logfold')];
  const entries = Math.min(LOG_ROWS, rows) * COLUMNS;
  const cells = rows * COLUMNS * 10;
  const { written, rewritten } = cellsOfBatches({ entries: cells, cells });
  return {
    cpuSeconds: build.cpuSeconds / entries,
    loopSeconds: loop.cpuSeconds / entries,
    itemBytes: loop.bytes / entries,
    rewrite: {
      cpuSeconds: Math.max(0, large.cpuSeconds - 10 * small.cpuSeconds) / rewritten,
      gets: (large.requests - large.objects) / rewritten,
    },
    puts: large.objects / written,
  };
}

/** The first build of a log in the function of the template. */
export function firstBuild(
  figures: BuildFigures,
  log: { readonly entries: number; readonly cells: number },
): FirstBuild {
  const { entries } = log;
  const { written, rewritten } = cellsOfBatches(log);
  const readUnits = (entries * figures.itemBytes) / UNIT_BYTES;
  const cpuSeconds = entries * figures.cpuSeconds + rewritten * figures.rewrite.cpuSeconds;
  const partitionSeconds = readUnits / PARTITION_UNITS;
  const lambdaSeconds = Math.max(cpuSeconds, partitionSeconds);
  const invocations = Math.ceil(lambdaSeconds / RUN_SECONDS);
  const puts = written * figures.puts;
  const gets = rewritten * figures.rewrite.gets;
  const { dynamodb, s3, lambda } = PRICES;
  const millionths =
    readUnits * dynamodb.perMillion.readUnits +
    puts * s3.perMillion.puts +
    gets * s3.perMillion.gets +
    invocations * lambda.perMillion.invocations +
    lambdaSeconds * (MEMORY_MB.jobs / 1024) * lambda.perMillion.gigabyteSeconds;
  return {
    ...log,
    readUnits,
    cpuSeconds,
    partitionSeconds,
    lambdaSeconds,
    invocations,
    puts,
    gets,
    dollars: millionths / 1e6,
  };
}

/**
 * The cells in all leaves that a build writes, and those that it read and wrote before. Edits in no
 * order touch every leaf in each batch.
 */
function cellsOfBatches({ entries, cells }: { readonly entries: number; readonly cells: number }) {
  const sum = { written: 0, rewritten: 0 };
  for (let folded = 0; folded < entries; folded += BATCH_ENTRIES) {
    sum.rewritten += Math.min(folded, cells);
    sum.written += Math.min(folded + BATCH_ENTRIES, cells);
  }
  return sum;
}

/**
 * The tables of `docs/performance.md` in Markdown.
 * @throws Error if the run lacks a phase
 */
export function firstBuildReport(run: Run): string {
  const figures = buildFigures(run);
  return [buildsTable(figures), entryTable(figures)].map(markdownTable).join('\n\n');
}

function buildsTable(figures: BuildFigures): Table {
  return {
    title: 'First builds in the snapshot function',
    head: [
      'entries',
      'cells',
      'read units',
      'CPU s',
      'partition s',
      'Lambda s',
      'invocations',
      'S3 PUTs',
      'S3 GETs',
      'US dollars',
    ],
    rows: LOGS.map((log) => firstBuild(figures, log)).map((build) => [
      ...[build.entries, build.cells, build.readUnits].map(formatCount),
      ...[build.cpuSeconds, build.partitionSeconds, build.lambdaSeconds].map((seconds) => formatDecimal(seconds)),
      ...[build.invocations, build.puts, build.gets].map(formatCount),
      formatDecimal(build.dollars, 4),
    ]),
  };
}

function entryTable({ cpuSeconds, loopSeconds, itemBytes }: BuildFigures): Table {
  const partitionBytes = PARTITION_UNITS * UNIT_BYTES;
  return {
    title: 'One entry, and the next limit',
    head: ['figure', 'value'],
    rows: [
      ['bytes of an item', formatCount(itemBytes)],
      ['processor time of an entry in the build, µs', formatDecimal(cpuSeconds * 1e6)],
      ['processor time of an entry in a loop on the SDK, µs', formatDecimal(loopSeconds * 1e6)],
      ['entries a second that one vCPU builds', formatCount(1 / cpuSeconds)],
      ['MB a second of these entries', formatDecimal(itemBytes / cpuSeconds / 1e6)],
      ['MB a second that one partition serves', formatDecimal(partitionBytes / 1e6)],
      ['bytes of an item from which the partition is the limit', formatCount(partitionBytes * cpuSeconds)],
    ],
  };
}

function formatCount(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}

function formatDecimal(number: number, digits = 1): string {
  return number.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
