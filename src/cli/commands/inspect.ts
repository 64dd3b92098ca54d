import { readTableSample } from '../../adapters/dynamodb/table-sample.ts';
import {
  type DescribedTable,
  describeKeys,
  describeTable,
  readTtlAttribute,
} from '../../adapters/dynamodb/table-settings.ts';
import { shellWord } from '../../errors.ts';
import { MAPPED_DIVISION } from '../../mapping/item-division.ts';
import { streamFilterOf } from '../../mapping/key-pattern.ts';
import { parseMapping } from '../../mapping/schema-mapping.ts';
import type { Misfit } from '../../proposal/misfits.ts';
import { type KindReport, type Proposal, type ProposedMapping, propose } from '../../proposal/proposal.ts';
import type { TableSample } from '../../proposal/table-sample.ts';
import { count, countEntries } from '../../workers/jobs/report.ts';
import { RateLimiter } from '../../workers/retention/rate-limiter.ts';
import { examples, parse, readingCommand } from '../command.ts';
import { fittedTable, type TableRow } from '../format.ts';
import { commandName } from '../next-step.ts';
import { Output } from '../output.ts';
import { openDynamoDb } from '../place.ts';
import { untilInterrupted } from '../signals.ts';
import { READ_UNITS } from '../table-scan.ts';
import { writeFile } from '../write.ts';

const SAMPLE = 1000;
const PARTITIONS = 10;

const HELP = `
The command reads items from all over the table and some partitions from their first item on. It
writes nothing to the table and needs no other table and no bucket.`;

export function inspectCommand() {
  return readingCommand('inspect', 'Sample a table of your application, and propose a mapping of its items to entries.')
    .argument('<table>', 'the table')
    .option('--sample <n>', 'read this many items, and at most this many of each partition', parse.count, SAMPLE)
    .option('--partitions <n>', 'read this many partitions from their first item onward', parse.count, PARTITIONS)
    .option('--read-units <n>', 'use at most this many read units per second', parse.count, READ_UNITS)
    .option('--output <file>', 'write the mapping into this file')
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples('inspect orders --output mapping.json', 'inspect orders --local data --sample 5000 --read-units 20'),
    )
    .action(async (table, options) => {
      const place = await untilInterrupted(() => openDynamoDb(options));
      try {
        await untilInterrupted(async () => {
          const output = new Output(options.json);
          const { keys, approximateItems, stream } = await describeTable(place.client, table);
          const ttl = await readTtlAttribute(place.client, table);
          const described = { keys, approximateItems, stream, ttl };
          const limiter = new RateLimiter({ perSecond: options.readUnits });
          const sample = await output.during('Items read', (progress) =>
            readTableSample(place.client, table, described, {
              items: options.sample,
              partitions: options.partitions,
              spend: (units) => limiter.take(units),
              onItems: (items) => progress.update(items),
            }),
          );
          const proposal = propose(sample);
          const { mapping } = proposal;
          const written = mapping === undefined ? undefined : options.output;
          if (written !== undefined) await writeFile(written, oneLine(mapping));
          const document = { table, ...described, ...proposal, parameters: mapping && parametersFor(mapping) };
          output.result(
            nullForUndefined(document),
            describe(table, described, proposal, { ...options, written }).join('\n'),
          );
          if (mapping === undefined) process.exitCode = 1;
        });
      } catch (error) {
        throw place.lost.aborted ? place.lost.reason : error;
      } finally {
        await place.close();
      }
    });
}

async function* oneLine(mapping: unknown): AsyncGenerator<string> {
  yield `${JSON.stringify(mapping, undefined, 2)}\n`;
}

function nullForUndefined(document: object): object {
  return Object.fromEntries(Object.entries(document).map(([name, value]) => [name, value ?? null]));
}

/** The parameters of the template that belong to a mapping. */
function parametersFor(mapping: ProposedMapping): { readonly Mapping: string; readonly StreamFilter: string } {
  return { Mapping: JSON.stringify(mapping), StreamFilter: streamFilterOf(parseMapping(mapping)) };
}

function describe(
  table: string,
  described: Pick<DescribedTable, 'keys' | 'approximateItems' | 'stream'> & Pick<TableSample, 'ttl'>,
  proposal: Proposal,
  place: Next,
): string[] {
  const { keys, ttl, stream, approximateItems } = described;
  const { recognized, kinds, mapping, readyMade, beside, misfits } = proposal;
  const { written } = place;
  const lines = [
    `Table '${table}': about ${count(approximateItems, 'item')}; keys ${describeKeys(keys)}; ${ttl === undefined ? 'no TTL' : `TTL on '${ttl}'`}; ${stream === undefined ? 'no stream' : `a stream of ${stream}`}`,
    kinds.length === 0 ? 'The sample has no items.' : describeKinds(kinds),
  ];
  if (recognized !== undefined) lines.push(`These are items of ${recognized}.`);
  if (recognized !== undefined && mapping === undefined) {
    return [...lines, 'No mapping is needed: name the table with --entry-table or --segment-table.'];
  }
  lines.push(...misfits.map(describeMisfit));
  if (mapping === undefined) {
    const why = 'No mapping is proposed: a log needs a sort key with a number that counts from 0 or 1.';
    return [
      ...lines,
      why,
      'For a plain table, see --revisions-of of the command work: it records each change of an item.',
    ];
  }
  if (readyMade !== undefined) lines.push(`The ready-made mapping --mapping ${readyMade} fits.`);
  if (beside.length > 0) {
    lines.push(
      `Beside the body, where reducers do not see them: ${beside.join(', ')}. "body": {"item": true} shows all.`,
    );
  }
  const { Mapping, StreamFilter } = parametersFor(mapping);
  lines.push(
    '',
    written === undefined ? 'Proposed mapping:' : `Proposed mapping, written to ${written}:`,
    JSON.stringify(mapping, undefined, 2),
    '',
    'Template parameters:',
    `  Mapping: ${Mapping}`,
    `  StreamFilter: ${StreamFilter}`,
    '',
    'Next steps:',
    ...nextSteps(table, { ...place, readyMade, hasStream: stream !== undefined }).map(
      (step, i) => `  ${i + 1}. ${step}`,
    ),
  );
  return lines;
}

/** Names of files and resources in the next steps. */
interface Next {
  /** The file with the mapping, if the command wrote it. */
  readonly written: string | undefined;
  /** The name of the mapping, if it is a ready-made one. */
  readonly readyMade?: string | undefined;
  readonly local?: string | undefined;
  readonly segmentTable?: string | undefined;
  readonly bucket?: string | undefined;
  readonly reducer?: string | undefined;
}

/** The steps after an inspection. A command of a step is on a separate, indented line. */
function nextSteps(table: string, { hasStream, ...next }: Next & { readonly hasStream: boolean }): string[] {
  const {
    written,
    readyMade,
    local,
    segmentTable = 'SEGMENT_TABLE',
    bucket = 'BUCKET',
    reducer = 'reducer.mjs',
  } = next;
  const run = (...words: string[]): string =>
    `\n       ${commandName()} ${words.map((word) => (word.startsWith('--') ? word : shellWord(word))).join(' ')}`;
  const file = written ?? readyMade ?? 'mapping.json';
  const place = local === undefined ? [] : ['--local', local];
  const stores = local === undefined ? ['--segment-table', segmentTable, '--bucket', bucket] : place;
  const mapped = ['--mapping', file, '--entry-table', table, ...stores];
  const isNamed = local !== undefined || (next.segmentTable !== undefined && next.bucket !== undefined);
  const names = isNamed ? '' : ', with SegmentTableName and BucketName of the outputs of the stack';
  const due = `The first snapshot of a log is due after ${countEntries(MAPPED_DIVISION.snapshotEvery.entries ?? 0)}`;
  const register = `Register the logs${names}. ${due}; a log with fewer gets none yet.\n     For another number, add --snapshot-every-entries N to this command and those after it. Segments keep\n     the number with which they were registered:${run('adopt', ...mapped)}`;
  const build = `Build the snapshots that are due:${run('sweep', ...mapped, '--reducer', reducer)}`;
  const steps = [
    written !== undefined || readyMade !== undefined
      ? 'Check the mapping.'
      : `Save the mapping, then check it:${run('inspect', table, '--output', file, ...place)}`,
  ];
  if (next.reducer === undefined) {
    steps.push(
      `Write a reducer, which makes a state of the entries. This one only counts them:\n       echo '${STARTER}' > ${reducer}`,
    );
  }
  if (local !== undefined) steps.push(register, build);
  if (hasStream && local !== undefined) {
    steps.push(`Build snapshots of new entries as they come:${run('work', ...mapped, '--reducer', reducer)}`);
  }
  if (local !== undefined) return steps;
  if (!hasStream) steps.push('Enable a stream on the table, of any view type, or deploy with StreamTrigger=false.');
  return [
    ...steps,
    'Deploy with the template parameters above, and with the ReducerLayerArn of a layer that has your reducer.',
    register,
  ];
}

/** A reducer for any entries, to begin with. */
const STARTER =
  'export default { name: "entry-counts", version: 1, async fold(draft, { type }) { ' +
  'const counts = draft.map("counts", "string"); ' +
  'counts.put(type, Number((await counts.get(type)) ?? 0) + 1); } };';

function describeKinds(kinds: readonly KindReport[]): string {
  const rows: TableRow[] = [];
  const hasLog = kinds.some(({ isLog }) => isLog);
  for (const { items, partitions, partitionKey, sortKey, example, isLog } of kinds) {
    rows.push([items, partitions, partitionKey, sortKey, example, isLog ? 'logs' : hasLog ? 'left alone' : '-']);
  }
  const head = ['items', 'partitions', 'partition key', 'sort key', 'example', 'what it is'];
  return fittedTable(head, rows, { long: { 'partition key': 0, 'sort key': 0, example: 0 } }).text;
}

function describeMisfit({ reason, count: items, items: shown, othersGoOn }: Misfit): string {
  const more = items > shown.length ? `, and ${items - shown.length} more` : '';
  const effect = othersGoOn ? 'DOES NOT FIT' : 'NO MAPPING';
  return `${effect}: ${reason}: ${shown.map((key) => `'${key}'`).join(', ')}${more}`;
}
