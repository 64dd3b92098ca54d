import { Option } from '@commander-js/extra-typings';
import { UsageError } from '../../errors.ts';
import { MAX_KEEP_DAYS } from '../../retention/retention-policy.ts';
import { restoreSegment } from '../../workers/retention/restore-segment.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { countEntries, parseDuration } from '../format.ts';
import { capacityShareOption, rateLimiterOf } from '../retention.ts';

const HOLD = '7d';
const MAX_HOLD_SECONDS = MAX_KEEP_DAYS * 24 * 3600;

export function restoreCommand() {
  return command('restore', "Put an archived segment's entries back into the table, or into another table.")
    .argument('<log>', 'the log', parse.log)
    .argument('<segment>', 'the segment', parse.number)
    .addOption(
      new Option('--hold <duration>', 'the time in which no policy expires the segment again')
        .argParser(parseHold)
        .default(parseDuration(HOLD), HOLD),
    )
    .option('--to-entry-table <name>', 'write into this Entry table instead; needs --to-segment-table')
    .option('--to-segment-table <name>', 'write into this Segment table instead')
    .addOption(capacityShareOption())
    .option('--dry-run', 'write nothing, and print what would be written', false)
    .action((log, segment, options) =>
      inEnvironment({ ...options, creates: true }, async (environment, output) => {
        const { toEntryTable, toSegmentTable, dryRun } = options;
        if ((toEntryTable === undefined) !== (toSegmentTable === undefined)) {
          throw new UsageError('--to-entry-table and --to-segment-table need each other');
        }
        const others =
          toEntryTable === undefined || toSegmentTable === undefined
            ? undefined
            : await environment.otherTables({ entryTable: toEntryTable, segmentTable: toSegmentTable }, { dryRun });
        const progress = output.progress('Entries');
        try {
          const rateLimiter = await rateLimiterOf(environment, options.capacityShare);
          const onEntries = (entries: number): void => progress.update(entries);
          const result = await restoreSegment(
            { ...environment.deps, rateLimiter, onEntries },
            { log, segment },
            { into: others?.store, holdSeconds: options.hold, dryRun },
          );
          progress.stop();
          const { entries, restored, unexpired } = result;
          const would = (number: number): string => (dryRun ? 'would be' : number === 1 ? 'is' : 'are');
          const there = entries - restored - unexpired;
          const parts = [
            `segment ${segment} of ${countEntries(entries)}: ${restored} ${would(restored)} put back`,
            `${unexpired} no longer ${unexpired === 1 ? 'expires' : 'expire'}`,
            `${there} ${there === 1 ? 'was' : 'were'} in the table already`,
          ];
          const created = others?.created ?? [];
          if (created.length > 0) parts.push(`${created.join(' and ')} ${would(created.length)} created`);
          output.result({ log, dryRun, ...result, ...(others && { created }) }, parts.join(', '));
        } finally {
          progress.stop();
        }
      }),
    );
}

/** @throws UsageError */
function parseHold(text: string): number {
  const seconds = parseDuration(text);
  if (seconds <= MAX_HOLD_SECONDS) return seconds;
  throw new UsageError(`'${text}' is too long`, { advice: `Give ${MAX_KEEP_DAYS}d at most` });
}
