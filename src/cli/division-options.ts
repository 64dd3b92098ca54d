import { type DivisionPolicy, divisionOf } from '../log/division-policy.ts';
import { mappedDivisionOf } from '../mapping/mapped-division.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import { parse } from './command.ts';
import type { Output } from './output.ts';
import { policyCommand } from './policy-options.ts';

/** A command with the options of a retention policy and of a division policy. */
export function dividingCommand(name: string, description: string) {
  return policyCommand(name, description)
    .option('--snapshot-every-entries <n>', 'append a Snapshot entry after this many entries', parse.count)
    .option('--snapshot-every-bytes <n>', 'append a Snapshot entry after this many bytes of entries', parse.count)
    .option(
      '--snapshot-every-minutes <n>',
      'append a Snapshot entry this many minutes after a change; only a sweep looks at the time',
      parse.count,
    )
    .option('--segment-every-entries <n>', 'start a new segment after this many entries', parse.count)
    .option('--segment-every-bytes <n>', 'start a new segment after this many bytes of entries', parse.count);
}

export interface DivisionOptions {
  readonly mapping?: SchemaMapping | undefined;
  readonly snapshotEveryEntries?: number;
  readonly snapshotEveryBytes?: number;
  readonly snapshotEveryMinutes?: number;
  readonly segmentEveryEntries?: number;
  readonly segmentEveryBytes?: number;
}

/**
 * The division policy that the options name. Without them nothing is divided, except the logs of a
 * mapping.
 * @throws PolicyInvalidError if a number is out of range
 */
export function divisionFrom(options: DivisionOptions): DivisionPolicy {
  const { snapshotEveryEntries, snapshotEveryBytes, snapshotEveryMinutes } = options;
  const { segmentEveryEntries, segmentEveryBytes } = options;
  const settings = {
    snapshotEveryEntries,
    snapshotEveryBytes,
    snapshotEveryMinutes,
    segmentEveryEntries,
    segmentEveryBytes,
  };
  return options.mapping === undefined ? divisionOf(settings) : mappedDivisionOf(settings);
}

/** Says that recorded segments keep their sizes, if the options name sizes of mapped logs. */
export function noteRecordedSizes(options: DivisionOptions, output: Output): void {
  const { mapping, snapshotEveryEntries, segmentEveryEntries } = options;
  if (mapping === undefined || (snapshotEveryEntries ?? segmentEveryEntries) === undefined) return;
  output.note('The numbers of entries hold for new segments. A recorded segment keeps those that it began with.');
}
