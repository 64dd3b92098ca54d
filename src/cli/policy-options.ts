import { Option } from '@commander-js/extra-typings';
import type { z } from 'zod';
import { UsageError } from '../errors.ts';
import { DIVISION, type DivisionPolicy, divisionOf } from '../log/division-policy.ts';
import { checkSettings, choicesIn, numberIn, settingTexts } from '../log/settings.ts';
import { mappedDivisionOf } from '../mapping/item-division.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import type { PolicyChanges } from '../retention/policies.ts';
import { DEFAULT_POLICY, RETENTION, type RetentionPolicy } from '../retention/retention-policy.ts';
import { count } from '../workers/jobs/report.ts';
import { command, parse } from './command.ts';
import { formatDuration, parseDuration } from './format.ts';
import type { Output } from './output.ts';

/** The options of a policy by the names of its settings. A switch has two options. */
function optionsOf(schema: z.ZodObject): readonly (readonly [name: string, option: Option])[] {
  return Object.entries(schema.shape).flatMap(([name, field]) => {
    const texts = settingTexts.get(field);
    if (texts === undefined) return [];
    const words = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const { help, off, option: flags = off === undefined ? `--${words} <n>` : `--${words}` } = texts;
    const option = new Option(flags, help);
    if (off !== undefined)
      return [
        [name, option],
        [name, new Option(`--no-${words}`, off)],
      ] as const;
    const number = numberIn(field);
    if (number === undefined) option.choices(choicesIn(field) ?? []);
    else option.argParser(flags.endsWith('<duration>') ? parseDuration : number.isInt ? parse.count : parseDays);
    return [[name, option]] as const;
  });
}

/** The settings of a policy that the options of a command give. */
function settingsIn(schema: z.ZodObject, options: GivenOptions): Readonly<Record<string, unknown>> {
  const given = optionsOf(schema).map(([name, option]) => [name, options[option.attributeName()]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

type GivenOptions = Readonly<Record<string, unknown>> & { readonly mapping?: SchemaMapping | undefined };

/**
 * A command with the options of a retention policy. Missing options come from the log's own policy
 * or the deployment.
 */
export function policyCommand(name: string, description: string) {
  const made = command(name, description);
  for (const [, option] of optionsOf(RETENTION)) made.addOption(option);
  return made;
}

/** A command with the options of a retention policy and of a division policy. */
export function dividingCommand(name: string, description: string) {
  const made = policyCommand(name, description);
  for (const [, option] of optionsOf(DIVISION)) made.addOption(option);
  return made;
}

/**
 * The settings of a retention policy that the options change.
 * @throws PolicyInvalidError if a number is out of range
 */
export function policyChanges(options: GivenOptions): PolicyChanges {
  return checkSettings('retention', RETENTION.partial(), settingsIn(RETENTION, options));
}

/**
 * The division policy that the options name. Without them nothing is divided, except the logs of a
 * mapping.
 * @throws PolicyInvalidError if a number is out of range
 */
export function divisionFrom(options: GivenOptions): DivisionPolicy {
  const settings = checkSettings('division', DIVISION, settingsIn(DIVISION, options));
  return options.mapping === undefined ? divisionOf(settings) : mappedDivisionOf(settings);
}

/** Says that recorded segments keep their sizes, if the options name sizes of mapped logs. */
export function noteRecordedSizes(options: GivenOptions, output: Output): void {
  const { snapshotEveryEntries, segmentEveryEntries } = settingsIn(DIVISION, options);
  if (options.mapping === undefined || (snapshotEveryEntries ?? segmentEveryEntries) === undefined) return;
  output.note('The numbers of entries hold for new segments. A recorded segment keeps those that it began with.');
}

/** A policy as one line of text. */
function describePolicy(policy: RetentionPolicy): string {
  const { keepSegments, keepDays, archive, expire, graceSeconds, keepSnapshots } = policy;
  const expiry = { never: 'never expire', ttl: 'expire by TTL', delete: 'expire by deletion' }[expire];
  return (
    `keep ${count(keepSegments, 'segment')} and ${count(keepDays, 'day')}, ${archive ? 'then archive' : 'do not archive'}; ` +
    `${expiry}; grace period ${formatDuration(graceSeconds)}; keep ${keepSnapshots === 'all' ? 'all snapshots' : 'the last snapshot'} of a segment`
  );
}

/** Help text with the default policy. */
export const POLICY_HELP = `\nBy default: ${describePolicy(DEFAULT_POLICY)}.`;

/** @throws UsageError */
function parseDays(text: string): number {
  const days = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text)) throw new UsageError(`'${text}' is not a number of days, such as 30 or 0.5`);
  return days;
}
