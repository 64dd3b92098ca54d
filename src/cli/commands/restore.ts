import { Option } from '@commander-js/extra-typings';
import { UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { querySegments } from '../../log/newest.ts';
import { MAX_KEEP_DAYS } from '../../retention/retention-policy.ts';
import { countEntries } from '../../workers/jobs/report.ts';
import { type RestoreResult, restoreSegment } from '../../workers/retention/restore-segment.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import type { Environment } from '../environment.ts';
import { parseDuration } from '../format.ts';
import { capacityShareOption, rateLimiterOf } from '../retention.ts';

const HOLD = '7d';
const MAX_HOLD_SECONDS = MAX_KEEP_DAYS * 24 * 3600;

const HELP = `
With a mapping, the application's items come back as they were. Another table for them must exist and
have the same keys.`;

export function restoreCommand() {
  return command('restore', 'Put the entries of archived segments back into the table, or into another table.')
    .argument('<log>', 'the log', parse.log)
    .argument('[segment]', 'the segment; by default, every segment that has an archive', parse.number)
    .addOption(
      new Option('--hold <duration>', 'the time in which no policy expires the segment again')
        .argParser(parseHold)
        .default(parseDuration(HOLD), HOLD),
    )
    .option('--to-entry-table <name>', 'write into this Entry table instead; needs --to-segment-table')
    .option('--to-segment-table <name>', 'write into this Segment table instead')
    .addOption(capacityShareOption())
    .option('--dry-run', 'write nothing, and print what would be written', false)
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples(
        'restore LOG 3 --entry-table entries --segment-table segments --bucket b',
        'restore LOG --mapping mapping.json --to-entry-table copy --to-segment-table copy-segments',
      ),
    )
    .action((log, number, options) =>
      inEnvironment({ ...options, creates: true }, async (environment, output) => {
        const { toEntryTable, toSegmentTable, dryRun } = options;
        if ((toEntryTable === undefined) !== (toSegmentTable === undefined)) {
          throw new UsageError('--to-entry-table and --to-segment-table need each other');
        }
        const others =
          toEntryTable === undefined || toSegmentTable === undefined
            ? undefined
            : await environment.otherTables({ entryTable: toEntryTable, segmentTable: toSegmentTable }, { dryRun });
        const created = others?.created ?? [];
        // The store of a mapping finds entries only with its Segment table.
        const needed = environment.mapped === undefined ? toEntryTable : toSegmentTable;
        const isMissing = dryRun && needed !== undefined && created.includes(needed);
        const numbers = number === undefined ? await archivedSegments(environment, log) : [number];
        const rateLimiter = await rateLimiterOf(environment, options.capacityShare);
        const results: RestoreResult[] = [];
        await output.during('Entries', async (progress) => {
          let before = 0;
          for (const segment of numbers) {
            const onEntries = (entries: number): void => progress.update(before + entries);
            const deps = { ...environment.deps, rateLimiter, onEntries };
            const result = await restoreSegment(
              deps,
              { log, segment },
              { into: others?.store, holdSeconds: options.hold, dryRun: isMissing ? 'missing tables' : dryRun },
            );
            before += result.entries;
            results.push(result);
          }
        });
        const lines = results.map((result) => describe(result, dryRun));
        if (lines.length === 0) lines.push('no segment has an archive');
        if (created.length > 0) lines.push(`${created.join(' and ')} ${would(created.length, dryRun)} created`);
        const [one] = results;
        const document = number === undefined ? { segments: results } : one;
        output.result(
          { log, dryRun, ...document, ...(others && { created }) },
          lines.join(number === undefined ? '\n' : ', '),
        );
      }),
    );
}

async function archivedSegments({ deps }: Environment, log: LogId): Promise<number[]> {
  const segments = await querySegments(deps.tables, log, { consistent: true });
  return segments.filter(({ archive }) => archive !== undefined).map(({ segment }) => segment);
}

function would(number: number, dryRun: boolean): string {
  if (dryRun) return 'would be';
  return number === 1 ? 'is' : 'are';
}

function describe({ segment, entries, restored, unexpired }: RestoreResult, dryRun: boolean): string {
  const there = entries - restored - unexpired;
  return [
    `segment ${segment} of ${countEntries(entries)}: ${restored} ${would(restored, dryRun)} put back`,
    `${unexpired} no longer ${unexpired === 1 ? 'expires' : 'expire'}`,
    `${there} ${there === 1 ? 'was' : 'were'} in the table already`,
  ].join(', ');
}

/** @throws UsageError */
function parseHold(text: string): number {
  const seconds = parseDuration(text);
  if (seconds <= MAX_HOLD_SECONDS) return seconds;
  throw new UsageError(`'${text}' is too long`, { advice: `Give ${MAX_KEEP_DAYS}d at most` });
}
