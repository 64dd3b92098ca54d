import { arch, cpus, platform, release, totalmem } from 'node:os';
import CliTable from 'cli-table3';
import { BOUNDS, type Bound, Results } from './bounds.ts';
import { LOG_ROWS, PHASES, type Result, type Work } from './phases.ts';
import { COLUMNS } from './workload.ts';

export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The tables for the results of a run: one per kind of phase, and optionally the bounds. */
export function resultTables(
  all: readonly Result[],
  options: { readonly rows: number; readonly bounds: boolean },
): Table[] {
  const results = new Results(all);
  const tables = [
    systemsTable(results),
    partsTable(of(results, 'parts'), options.rows * COLUMNS),
    readTable(results, Math.min(LOG_ROWS, options.rows) * COLUMNS),
    ...(options.bounds ? [boundsTable(results)] : []),
  ];
  return tables.filter(({ rows }) => rows.length > 0);
}

function of(results: Results, kind: Work['kind']): Result[] {
  return results.all.filter(({ phase }) => PHASES.some(({ name, work }) => name === phase && work.kind === kind));
}

function systemsTable(results: Results): Table {
  const compared = results.all.filter((result) => !['parts', 'read'].includes(result.phase));
  return {
    title: 'Phases',
    head: [
      'phase',
      'system',
      'seconds',
      'vs. SQLite',
      'CPU seconds',
      'bytes',
      'vs. SQLite',
      'objects',
      'requests',
      'peak MB',
    ],
    rows: compared.map(({ phase, system, seconds, cpuSeconds, bytes, objects, requests, peakMB }) => {
      const sqlite = results.get(phase, 'sqlite');
      return [
        phase,
        system,
        formatSeconds(seconds),
        sqlite === undefined ? '' : formatRatio(seconds / sqlite.seconds),
        formatSeconds(cpuSeconds),
        formatCount(bytes),
        sqlite === undefined ? '' : formatRatio(bytes / sqlite.bytes),
        formatCount(objects),
        formatCount(requests),
        formatCount(peakMB),
      ];
    }),
  };
}

function partsTable(parts: readonly Result[], cells: number): Table {
  return {
    title: `Parts of a snapshot of ${formatCount(cells)} cells`,
    head: ['part', 'seconds', 'CPU seconds', 'ns per cell', 'output bytes'],
    rows: parts.map(({ system, seconds, cpuSeconds, bytes }) => [
      system,
      formatSeconds(seconds),
      formatSeconds(cpuSeconds),
      formatCount((seconds * 1e9) / cells),
      formatCount(bytes),
    ]),
  };
}

function readTable(results: Results, entries: number): Table {
  const loop = results.get('read', 'sdk-loop');
  return {
    title: `Reading ${formatCount(entries)} entries from a DynamoDB API on this machine`,
    head: ['system', 'seconds', 'CPU seconds', 'CPU µs per entry', 'vs. sdk-loop', 'bytes', 'requests', 'peak MB'],
    rows: of(results, 'read').map(({ system, seconds, cpuSeconds, bytes, requests, peakMB }) => [
      system,
      formatSeconds(seconds),
      formatSeconds(cpuSeconds),
      ((cpuSeconds * 1e6) / entries).toFixed(1),
      loop === undefined ? '' : formatRatio(cpuSeconds / loop.cpuSeconds),
      formatCount(bytes),
      formatCount(requests),
      formatCount(peakMB),
    ]),
  };
}

function boundsTable(results: Results): Table {
  const measured = BOUNDS.flatMap((bound) => {
    const value = bound.measure(results);
    return value === undefined ? [] : [{ bound, value }];
  });
  return {
    title: 'Bounds',
    head: ['phase', 'value', 'at most', 'measured', ''],
    rows: measured.map(({ bound, value }) => [
      bound.phase,
      bound.what,
      inUnit(bound, bound.limit),
      inUnit(bound, value),
      value <= bound.limit ? 'met' : 'NOT met',
    ]),
  };
}

function inUnit({ unit }: Bound, value: number): string {
  if (unit === 'times') return formatRatio(value);
  return `${unit === 'objects' ? formatCount(value) : value.toFixed(1)} ${unit}`;
}

function formatSeconds(seconds: number): string {
  return seconds < 10 ? seconds.toFixed(3) : seconds.toFixed(1);
}

function formatRatio(ratio: number): string {
  return ratio < 10 ? ratio.toFixed(3) : ratio.toFixed(0);
}

function formatCount(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}

/** A table for the terminal. */
export function plainTable({ title, head, rows }: Table): string {
  const colAligns = head.map((_, i) => (isNumeric(rows, i) ? ('right' as const) : ('left' as const)));
  const table = new CliTable({ head: [...head], colAligns, style: { head: [], border: [], compact: true } });
  for (const row of rows) table.push([...row]);
  return `${title}\n${table.toString()}`;
}

/** A table in Markdown. */
export function markdownTable({ title, head, rows }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, i) => (isNumeric(rows, i) ? '---:' : '---'));
  return [`### ${title}`, '', line(head), line(rule), ...rows.map(line)].join('\n');
}

function isNumeric(rows: readonly (readonly string[])[], column: number): boolean {
  return rows.every((row) => /^([\d.,-]+( (KB|MB|objects))?)?$/.test(row[column] ?? '') && column > 0);
}

/** The machine and the versions of Node and SQLite, in one line. */
export function describeMachine(): string {
  const { node, sqlite = 'unknown' } = process.versions;
  const processors = cpus();
  return [
    `${processors[0]?.model.trim() ?? 'unknown processor'}, ${processors.length} cores`,
    `${(totalmem() / 1e9).toFixed(0)} GB of memory`,
    `${platform()} ${release()} ${arch()}`,
    `Node ${node}`,
    `SQLite ${sqlite}`,
  ].join('; ');
}
