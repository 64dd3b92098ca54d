import { createGzip } from 'node:zlib';
import { Command, Option } from '@commander-js/extra-typings';
import { TableMeter } from '../../adapters/dynamodb/requests.ts';
import { DynamoDbSourceItems } from '../../adapters/dynamodb/source-items.ts';
import { describeTable } from '../../adapters/dynamodb/table-settings.ts';
import { sleep } from '../../adapters/platform/node-logs.ts';
import { encodeItemLine } from '../../archive/item-line.ts';
import { parseJson } from '../../codec/json.ts';
import { type LogfoldError, LogNotFoundError, UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Item } from '../../log/attribute.ts';
import { LOG_KINDS, revisionLog, type SourceTable } from '../../revisions/source-table.ts';
import { type ItemRevision, readItemRevision } from '../../state/items/edit.ts';
import { itemKey, type KeyNames } from '../../state/items/item-key.ts';
import { ITEMS_MAP, items } from '../../state/items/reducer.ts';
import { count, formatDate } from '../../workers/jobs/report.ts';
import { type CompareResult, compareTable } from '../../workers/revisions/compare-table.ts';
import { exportTable } from '../../workers/revisions/export-table.ts';
import { bothKinds, RevisionLogs, recordedKind, requireItemsReducer } from '../../workers/revisions/revision-logs.ts';
import { type CommonOptions, command, examples, inEnvironment, parse, readingCommand } from '../command.ts';
import type { Environment } from '../environment.ts';
import { fittedTable, parseDuration, type TableRow } from '../format.ts';
import { parseMoment } from '../moment.ts';
import { pastable } from '../next-step.ts';
import type { Output } from '../output.ts';
import { openDynamoDb } from '../place.ts';
import { READ_UNITS, TableScan } from '../table-scan.ts';
import { lineParts, writeFile, writeStandardOutput } from '../write.ts';

const PER_HELP = `
Without --per, the existing logs show whether items or partition keys have logs.`;

const EXPORT_HELP = `
The command writes each item of the table as it was after all changes up to the second of --at, one per line, as
DynamoDB's import from S3 takes it (DYNAMODB_JSON). With --json and without --output it writes the same lines. A time
without an offset is UTC, and a date is its midnight.
${PER_HELP}`;

const REVISIONS_HELP = `
KEY is the primary key of the item as JSON, such as {"id":"a","number":7} or {"id":{"S":"a"},"number":{"N":"7"}}. A Gap
stands for changes that are lost: only the item after them is known.
${PER_HELP}`;

const COMPARE_HELP = `
The command reads the table and the revisions. A difference may be a change on its way, so it is noted only. A run that
begins 25 hours later records a Gap if nothing has changed: the stream keeps no record for longer. If you know that all
changes are recorded, give --wait: the run then looks again after that time. Each item that is older than the stream is
a difference too. Interrupt the command and run it again: it continues where it stopped.

With --local, the changes are in the stream until 'logfold work --revisions-of TABLE' takes them. Run that command with
--until-idle first. Then no change is on its way, and compare can look again immediately, with --wait 0s.
${PER_HELP} If there are none yet, compare makes
logs of items: give --per partition if the deployment has RevisionsPer=partition.`;

const TABLE = ['--table <name>', 'the plain table'] as const;

export function tableCommand() {
  return new Command('table')
    .description('Export a plain table as it was, list the revisions of an item, or find lost changes.')
    .helpCommand(false)
    .addHelpText(
      'after',
      `
These commands are for a deployment that records the revisions of a plain table: each item that the table has had, and
who changed it. The reducer is items by default.`,
    )
    .addCommand(tableExportCommand())
    .addCommand(revisionsCommand())
    .addCommand(compareCommand());
}

function tableExportCommand() {
  return readingCommand('export', 'Write the items of a plain table as they were.')
    .option('--table <name>', 'the plain table; needed only if several tables have revisions')
    .option('--at <time>', 'the time; by default everything that is recorded', parseTime)
    .option('--output <file>', 'write into this file, with gzip if its name ends with .gz')
    .addOption(perOption())
    .addHelpText('after', EXPORT_HELP)
    .addHelpText('after', examples('table export --at 2026-01-31T08:00:00Z --output orders.json.gz'))
    .action((options) =>
      inEnvironment(placeOf(options), (environment, output) => writeExport(environment, output, options)),
    );
}

function revisionsCommand() {
  return readingCommand('revisions', 'List what an item of a plain table has been.')
    .argument('<key>', 'the primary key of the item, as JSON', parseItemKey)
    .requiredOption(...TABLE)
    .option('--limit <n>', 'the most revisions; the newest are shown', parse.count, 1_000)
    .addOption(perOption())
    .addHelpText('after', REVISIONS_HELP)
    .addHelpText('after', examples(`table revisions '{"id":"a"}' --table orders`))
    .action((keys, options) =>
      inEnvironment(placeOf(options), (environment, output) =>
        listRevisions(environment, output, { ...options, keys }),
      ),
    );
}

function compareCommand() {
  return command('compare', "Find changes that a plain table's stream lost.")
    .requiredOption(...TABLE)
    .addOption(perOption())
    .option('--actor <attribute>', 'the attribute that names who changed an item')
    .option('--wait <duration>', 'look again after this time; by default a later run does', parseDuration)
    .option('--read-units <n>', 'use at most this many read units of the table per second', parse.count, READ_UNITS)
    .addHelpText('after', COMPARE_HELP)
    .addHelpText('after', examples('table compare --table orders --local data'))
    .action((options) => {
      const place = { ...placeOf(options), creates: true, createsDirectory: false, endsItself: true };
      return inEnvironment(place, (environment, output, stop) => compare(environment, output, { ...options, stop }));
    });
}

function perOption() {
  return new Option(
    '--per <what>',
    'whether an item or a partition key has a log; by default as the logs that exist',
  ).choices(LOG_KINDS);
}

/** @throws UsageError if a mapping is given */
function placeOf<T extends CommonOptions>(options: T): T {
  if (options.mapping === undefined) return { ...options, reducer: options.reducer ?? items.name };
  throw new UsageError('the revisions of a plain table need no mapping', { advice: 'Leave out --mapping' });
}

/** @throws UsageError if the text is not a time */
function parseTime(text: string): Date {
  const moment = parseMoment(text);
  if (moment instanceof Date) return moment;
  throw new UsageError(`'${text}' is a place in one log, and a table has many logs`, {
    advice: "Write a time, such as '2024-01-31' or '2024-01-31T08:00:00Z'",
  });
}

async function writeExport(
  { deps, lost }: Environment,
  output: Output,
  {
    at,
    table,
    per,
    output: file,
  }: { readonly at?: Date; readonly table?: string; readonly per?: SourceTable['per']; readonly output?: string },
): Promise<void> {
  const progress = output.progress('Logs');
  let lines = 0;
  async function* counted(): AsyncGenerator<string> {
    const onProgress = (logs: number) => progress.update(logs);
    for await (const line of exportTable({ ...deps, onProgress }, { at, table, per })) {
      lines++;
      yield line;
      lost.throwIfAborted();
    }
  }
  const parts = lineParts(counted(), (line) => line);
  try {
    if (file === undefined) await writeStandardOutput(parts);
    else await writeFile(file, parts, file.endsWith('.gz') ? createGzip() : undefined);
  } finally {
    progress.stop();
  }
  if (file === undefined) return;
  const time = at === undefined ? '' : ` as of ${formatDate(at.getTime() / 1000)}`;
  output.result(
    { file, items: lines, at: at === undefined ? null : Math.floor(at.getTime() / 1000) },
    `${count(lines, 'item')}${time} written to ${file}`,
  );
}

async function listRevisions(
  environment: Environment,
  output: Output,
  request: { readonly table: string; readonly keys: Item; readonly per?: SourceTable['per']; readonly limit: number },
): Promise<void> {
  const { table, keys, limit } = request;
  requireItemsReducer(environment.deps.reducer);
  const found = await output.during('Revisions read', async () => {
    const all: { readonly log: LogId; readonly revisions: ItemRevision[] }[] = [];
    for (const source of possibleSources(request)) {
      const log = revisionLog(environment.deps.platform, source, keys);
      const revisions = await readRevisions(environment, log, { key: itemKey(source, keys), limit });
      if (revisions.length > 0) all.push({ log, revisions });
    }
    const [first, ...others] = all;
    if (others.length > 0) throw bothKinds(table);
    if (first !== undefined) return first;
    throw new UsageError(`no revision of table '${table}' has the key ${JSON.stringify(itemJson(keys))}`, {
      advice: `Check --table, the key and its types; 'logfold table compare' records items that are older than the stream`,
    });
  });
  const { log, revisions } = found;
  const older = (revisions[0]?.revision ?? 1) - 1;
  if (older > 0) output.note(`Left out: ${count(older, 'older revision')}. Raise --limit to show more.`);
  output.result({ table, key: itemJson(keys), log, revisions: revisions.map(jsonOf) }, tableOf(revisions));
}

/** The source tables that a key may belong to: nothing says which of its attributes comes first. */
function possibleSources({ table, per, keys }: Omit<Parameters<typeof listRevisions>[2], 'limit'>) {
  const [first = '', second] = Object.keys(keys);
  const orders: readonly KeyNames[] =
    second === undefined
      ? [[first]]
      : [
          [first, second],
          [second, first],
        ];
  const kinds = per === undefined ? LOG_KINDS : [per];
  return kinds.flatMap((kind) => orders.map((keyNames): SourceTable => ({ table, keyNames, per: kind })));
}

async function readRevisions(
  { logs, deps }: Environment,
  log: LogId,
  { key, limit }: { readonly key: string; readonly limit: number },
): Promise<ItemRevision[]> {
  try {
    const document = await logs.open(log, { reducer: deps.reducer });
    const history = document.history({ map: ITEMS_MAP, key }, { limit });
    return (await Array.fromAsync(history, ({ value }) => value ?? [])).map(readItemRevision);
  } catch (error) {
    if (error instanceof LogNotFoundError) return [];
    throw error;
  }
}

function jsonOf({ revision, created, change, actor, item }: ItemRevision) {
  return {
    revision,
    created,
    change,
    ...(actor !== undefined && { actor }),
    ...(item !== undefined && { item: itemJson(item) }),
  };
}

function tableOf(revisions: readonly ItemRevision[]): string {
  const rows: TableRow[] = [];
  for (const { revision, created, change, actor = '', item } of revisions) {
    rows.push([revision, formatDate(created), change, actor, item === undefined ? '' : JSON.stringify(itemJson(item))]);
  }
  const head = ['revision', 'time', 'change', 'actor', 'item'];
  return fittedTable(head, rows, { spare: ['actor'], long: { actor: 0, item: 0 } }).text;
}

interface TableCompareOptions extends CommonOptions {
  readonly table: string;
  readonly per?: SourceTable['per'];
  readonly actor?: string;
  readonly wait?: number;
  readonly readUnits: number;
  readonly stop: AbortSignal;
}

async function compare(environment: Environment, output: Output, request: TableCompareOptions): Promise<void> {
  const { table, actor, wait, readUnits, stop } = request;
  const { deps, logs, lost } = environment;
  const place = await openDynamoDb(request);
  try {
    const { keyNames } = await describeTable(place.client, table);
    const per = request.per ?? (await recordedKind(deps, table)) ?? 'item';
    const source: SourceTable = { table, keyNames, per, ...(actor !== undefined && { actor }) };
    const meter = new TableMeter();
    const scan = new TableScan(meter, { readUnits, stop });
    const result = await output.during('Items', (progress) =>
      compareTable(
        {
          items: new DynamoDbSourceItems({ client: place.client, table, keyNames, meter: meter.meter }),
          logs: new RevisionLogs({ logs, source, platform: deps.platform, reducer: deps.reducer }),
          tables: deps.tables,
          blobs: deps.blobs,
          platform: deps.platform,
          now: deps.now,
          sleep,
          onPage: scan.onPage,
          onFailure: (_, error) => scan.fail(error),
          onProgress: progress.update,
        },
        { settleSeconds: wait, stop: AbortSignal.any([stop, lost]) },
      ),
    );
    lost.throwIfAborted();
    const { failures } = scan;
    output.result({ table, ...result, failures }, describe(result, failures, request));
    scan.end(result);
  } finally {
    await place.close();
  }
}

function describe(
  result: CompareResult,
  failures: readonly LogfoldError[],
  { table, local, per }: TableCompareOptions,
): string {
  const { items: compared, gaps, failed, waiting, continued, complete } = result;
  const lines = failures.map(({ code, message }) => `FAILED: ${code}: ${message}`);
  if (failed > failures.length) lines.push(`and ${failed - failures.length} more`);
  const from = continued ? ' in the rest of the table' : '';
  lines.push(`${count(compared, 'item')} compared${from}, ${count(gaps, 'gap')} recorded`);
  if (failed > 0) lines.push(`${count(failed, 'log')} could not be read: the items there are not compared.`);
  if (waiting > 0) {
    const changes = waiting === 1 ? 'a change on its way' : 'changes on their way';
    const kind = per === undefined ? '' : ` --per ${per}`;
    const how =
      local === undefined
        ? 'Run the command again after 25 hours, or now with --wait 5m if all changes are recorded.'
        : `Run 'logfold work --revisions-of ${table}${kind} --until-idle', then this command again with --wait 0s.`;
    lines.push(`${count(waiting, 'difference')} may be ${changes}. ${how}`);
  }
  if (!complete) lines.push('The comparison is not complete: run the command again, and it continues.');
  return pastable(lines.join('\n'));
}

/** An item in DynamoDB JSON. */
export function itemJson(item: Item): unknown {
  const line = parseJson(encodeItemLine(item));
  return typeof line === 'object' && line !== null && 'Item' in line ? line.Item : undefined;
}

const KEY_ADVICE = `Write the attributes of the primary key as one JSON object, such as {"id":"a"} or {"id":{"S":"a"}}`;

/**
 * Reads a primary key as people write it: in DynamoDB JSON, or with plain strings and numbers.
 * @throws UsageError
 */
export function parseItemKey(text: string): Item {
  let json: unknown;
  try {
    json = parseJson(text);
  } catch (cause) {
    throw new UsageError(`'${text}' is not JSON`, { advice: KEY_ADVICE, cause });
  }
  const attributes = typeof json === 'object' && json !== null && !Array.isArray(json) ? Object.entries(json) : [];
  if (attributes.length < 1 || attributes.length > 2) {
    throw new UsageError(`'${text}' is not an object with one or two attributes`, { advice: KEY_ADVICE });
  }
  return Object.fromEntries(attributes.map(([name, value]) => [name, keyAttribute(name, value)]));
}

function keyAttribute(name: string, value: unknown): Item[string] {
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'number') {
    if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return { N: String(value) };
    throw new UsageError(`the number of '${name}' has more digits than JSON numbers keep`, {
      advice: `Write it as {"N":"DIGITS"}`,
    });
  }
  const [[type, content] = [], ...others] = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  if (others.length === 0 && typeof content === 'string') {
    if (type === 'S') return { S: content };
    if (type === 'N') return { N: content };
    if (type === 'B') return { B: new Uint8Array(Buffer.from(content, 'base64')) };
  }
  throw new UsageError(`'${name}' is not a text, a number or a binary`, { advice: KEY_ADVICE });
}
