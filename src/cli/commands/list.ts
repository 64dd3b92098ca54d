import pLimit from 'p-limit';
import stringWidth from 'string-width';
import { isOfOneLog, printable, shellWord, UsageError, unprintable } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { queryNewest } from '../../log/newest.ts';
import { type AgedLog, logsWithAge } from '../../workers/audit/status.ts';
import { formatDate } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import type { Environment } from '../environment.ts';
import { alignedLines, cutLine, screenColumns } from '../format.ts';
import { requireOwnSchema } from '../mapping.ts';
import { pastable } from '../next-step.ts';
import { namesOf, SETTINGS_FILE, type Settings } from '../settings.ts';

/** Logs that are read at the same time. */
const CONCURRENCY = 16;

interface Listed {
  readonly log: string;
  readonly names: readonly string[];
  /** Epoch seconds; null if no segment of the log can be read. */
  readonly created: number | null;
  /** Position of the newest entry; null if it was not asked for or cannot be read. */
  readonly newest: Position | null;
}

interface Failure {
  readonly log: string | null;
  readonly code: string;
  readonly message: string;
}

/** An error of one log, or of a segment whose log is unknown. */
interface Failed {
  readonly log?: string | undefined;
  readonly code: string;
  readonly message: string;
}

/** @param settings reads the settings file, if there is one */
export function listCommand(settings: () => Settings | undefined) {
  return readingCommand('list', `List all logs, the oldest first, with their names in ${SETTINGS_FILE}.`)
    .option('--newest', 'also read the position of the newest entry of each log', false)
    .option(
      '--prefix <text>',
      'only logs whose chosen ids begin with this text, in the order of their ids',
      unprintable,
    )
    .option('--after <id>', 'only ids after this one, with --prefix', parse.id)
    .option('--limit <count>', 'the most logs, with --prefix', parse.count)
    .addHelpText('after', examples('list', 'list --newest --json', 'list --prefix org-7/ --limit 100'))
    .action(({ newest, prefix, after, limit: most, ...options }) => {
      if (prefix === undefined && (after !== undefined || most !== undefined)) {
        throw new UsageError('--after and --limit need --prefix', {
          advice: "Give a prefix too; '' lists all chosen ids",
        });
      }
      if (prefix !== undefined) requireOwnSchema(options);
      return inEnvironment(options, async (environment, output) => {
        const failures: Failure[] = [];
        const fail = ({ log, code, message }: Failed): void => void failures.push({ log: log ?? null, code, message });
        const logs = await output.during('Logs', async (progress) => {
          const found =
            prefix === undefined
              ? await logsWithAge(environment.deps.tables, fail)
              : await Array.fromAsync(environment.logs.list({ prefix, after, limit: most && most + 1 }));
          const limit = pLimit(CONCURRENCY);
          let done = 0;
          return limit.map(found, async ({ log, created }: AgedLog): Promise<Listed> => {
            const position = newest ? await newestOf(environment, log, fail) : null;
            progress.update(++done);
            return { log, names: namesOf(settings(), log), created: created ?? null, newest: position };
          });
        });
        const page = logs.slice(0, most);
        const next = logs.length > page.length ? page.at(-1)?.log : undefined;
        const paged = prefix === undefined ? {} : { next: next ?? null };
        output.result({ logs: page, failures, ...paged }, describe(page, failures) || missing(prefix, after));
        if (next !== undefined) output.note(`There are more: add --after ${shellWord(next)} for the next page.`);
        if (failures.length > 0) process.exitCode = 1;
      });
    });
}

async function newestOf(
  { deps }: Environment,
  log: AgedLog['log'],
  fail: (error: Failed) => void,
): Promise<Position | null> {
  try {
    return (await queryNewest({ store: deps.tables, types: deps.types }, log, { consistent: false })).position;
  } catch (error) {
    // An error of one log must not hide the other logs.
    if (!isOfOneLog(error)) throw error;
    fail({ log, code: error.code, message: error.message });
    return null;
  }
}

function describe(logs: readonly Listed[], failures: readonly Failure[]): string {
  const lines = logs.map(({ log, names, created, newest }) => {
    const date = created === null ? '-' : formatDate(created);
    return { id: printable(log), names: names.join(' '), rest: [date, newest === null ? '' : formatPosition(newest)] };
  });
  const failed = failures.map(
    ({ log, code, message }) => `${log === null ? 'A segment' : printable(log)} cannot be read: ${code}: ${message}`,
  );
  return [...fittedLines(lines, screenColumns()), ...failed.map(pastable)].join('\n');
}

/** Says that no log is listed, and whether there may be others. */
function missing(prefix: string | undefined, after: LogId | undefined): string {
  if (prefix === undefined) return 'There are no logs yet.';
  const later = after === undefined ? '' : `, after '${printable(after)}'`;
  return `No log has a chosen id that begins with '${printable(prefix)}'${later}.`;
}

interface Line {
  readonly id: string;
  readonly names: string;
  /** The columns of every log. */
  readonly rest: readonly string[];
}

/** The most columns of the screen for an id on a terminal that is even too narrow for the rest. */
const FEWEST = 8;

/** Aligned lines. If they do not fit with ids and names, names replace ids: commands take both. */
function fittedLines(lines: readonly Line[], screen = Number.POSITIVE_INFINITY): string[] {
  const whole = alignedLines(lines.map(({ id, names, rest }) => [id, ...rest, names]));
  const widthOf = (texts: readonly string[]): number =>
    texts.reduce((most, text) => Math.max(most, stringWidth(text)), 0);
  if (widthOf(whole) <= screen) return whole;
  const others = widthOf(alignedLines(lines.map(({ rest }) => rest)).map((line) => `  ${line}`));
  const width = Math.max(FEWEST, screen - others);
  return alignedLines(lines.map(({ id, names, rest }) => [cutLine(names || id, width), ...rest]));
}
