import pLimit from 'p-limit';
import { isOfOneLog, printable, shellWord, UsageError, unprintable } from '../../errors.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { queryNewest } from '../../log/newest.ts';
import { type AgedLog, logsWithAge } from '../../workers/audit/status.ts';
import { formatDate } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import type { Environment } from '../environment.ts';
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
        output.result({ logs: page, failures, ...paged }, describe(page, failures));
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
  if (logs.length + failures.length === 0) return 'There are no logs yet.';
  const width = logs.reduce((most, { log }) => Math.max(most, printable(log).length), 0);
  const lines = logs.map(({ log, names, created, newest }) => {
    const date = created === null ? '-'.padEnd(20) : formatDate(created);
    const position = newest === null ? '' : formatPosition(newest).padEnd(9);
    return [printable(log).padEnd(width), date, position, names.join(' ')].filter((part) => part !== '').join('  ');
  });
  const failed = failures.map(
    ({ log, code, message }) => `${log === null ? 'A segment' : printable(log)} cannot be read: ${code}: ${message}`,
  );
  return [...lines.map((line) => line.trimEnd()), ...failed.map(pastable)].join('\n');
}
