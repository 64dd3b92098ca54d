import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Feed, FeedItem } from '../../client/feed.ts';
import { InterruptedError, ProgramFailedError, printable, UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import { readPolicies } from '../../retention/policies.ts';
import { DEFAULT_POLICY } from '../../retention/retention-policy.ts';
import { count, formatDate } from '../../workers/jobs/report.ts';
import { rebuildFeed } from '../../workers/sweep/rebuild-feed.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { describeEntry, entryLine } from '../entry-line.ts';
import type { Environment } from '../environment.ts';
import { formatDuration } from '../format.ts';
import { pastable } from '../next-step.ts';
import type { Output } from '../output.ts';
import { changesNothing, untilInterrupted } from '../signals.ts';
import { writePart } from '../write.ts';

const HELP = `
Each line has the checkpoint that continues after the entry, the log, and the entry as 'logfold entries' prints it.
With --json, each entry is one JSON object in a line.

A group remembers how far it got: run the same command again, and it continues. One member of a group works at a time;
with --follow, another one waits for it.

With --exec, a group loses no entry. The command runs for each batch, with one JSON object per entry in a line of its
standard input. Exit code 0 says that all of them are done. After any other end, this command ends with exit code 1, and
the same entries come again: each comes at least once.

Without --exec, an entry counts as done when its line is written. A pipe takes lines that its reader has not read. If the
reader dies, the group has lost them: each entry comes at most once.

--rebuild writes all entries of all logs to the feed once more, for example after a loss. Every reader gets them again,
at higher checkpoints.`;

export function feedCommand() {
  return command('feed', 'Print the entries of all logs in the order of the feed, one per line.')
    .option('--from <checkpoint>', 'the checkpoint to begin at; for a group, only if it is new', parse.index)
    .option('--follow', 'wait for new entries and print them, until interrupted', false)
    .option('--limit <n>', 'the most entries', parse.count)
    .option('--group <name>', 'continue where this consumer group stopped, and remember how far it gets')
    .option('--exec <command>', 'run this for each batch of the group: exit code 0 says that the batch is done')
    .option('--batch <n>', 'the most entries of a batch for --exec', parse.count, 100)
    .option('--skip-expired', 'leave out entries that expired without an archive', false)
    .option('--rebuild', 'begin the feed again, and feed all logs from their first entry on', false)
    .option('--groups', 'list the consumer groups, and how far each is behind', false)
    .option('--release', 'free the group for another member, if its member is gone', false)
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples(
        'feed --feed-table Feed',
        'feed --feed-table Feed --from 4711 --follow --json',
        'feed --feed-table Feed --group search --follow --exec ./index-entries',
        'feed --feed-table Feed --groups',
        'feed --feed-table Feed --group search --release',
        'feed --feed-table Feed --rebuild',
      ),
    )
    .action(({ from, follow, limit, group, skipExpired, groups, rebuild, release, exec, batch, ...options }) => {
      if (options.feedTable === undefined) {
        throw new UsageError('the table of the feed is not named', { advice: 'Give --feed-table NAME' });
      }
      const reads = from !== undefined || follow || limit !== undefined || skipExpired || exec !== undefined;
      const others = [groups, rebuild, release || group !== undefined, reads].filter((given) => given);
      if ((groups || rebuild) && others.length > 1) {
        throw new UsageError('--groups and --rebuild exclude every other option of this command');
      }
      if (exec !== undefined && group === undefined) {
        throw new UsageError('--exec needs --group, which remembers what the program has done');
      }
      if (release && (reads || group === undefined)) {
        throw new UsageError('--release needs --group, and excludes every other option of this command');
      }
      if (group === undefined && !rebuild) changesNothing();
      const place = { ...options, endsItself: true };
      return inEnvironment(place, async (environment, output, stop) => {
        const { logs, deps } = environment;
        const { feed } = logs;
        if (rebuild) return untilInterrupted(() => rebuildAll(environment, output));
        if (groups) return listGroups(feed, output);
        if (release && group !== undefined) return releaseGroup(feed, group, output);
        const how = { from, follow, limit, skipExpired, signal: stop };
        const printing = { types: deps.types, output, follow };
        let next: number | undefined;
        if (group === undefined) next = await print(oneByOne(feed.read(how)), printing);
        else if (exec === undefined) await print(feed.consumeBatches(group, { ...how, size: PRINTED_BATCH }), printing);
        else await execute(feed.consumeBatches(group, { ...how, size: batch }), { ...printing, command: exec, stop });
        if (stop.aborted) throw readInterrupted(stop.reason, group, next);
      });
    });
}

/** Lines that are written before the group counts them as done. */
const PRINTED_BATCH = 1_000;

interface Printing {
  readonly types: ReservedTypes;
  readonly output: Output;
  readonly follow: boolean;
}

/** @returns the checkpoint after the last printed entry; undefined if there was none */
async function print(
  batches: AsyncIterable<readonly FeedItem[]>,
  { types, output, follow }: Printing,
): Promise<number | undefined> {
  const width = process.stdout.isTTY ? process.stdout.columns : undefined;
  const progress = process.stdout.isTTY || follow ? undefined : output.progress('Entries');
  let read = 0;
  let next: number | undefined;
  try {
    for await (const batch of batches) {
      for (const { checkpoint, log, entry, body } of batch) {
        const line = await entryLine(entry, types, { load: body });
        const place = `${String(checkpoint).padEnd(10)} ${printable(log)} `;
        const text = `${place}${describeEntry(line, width && Math.max(0, width - place.length))}`;
        await writePart(output.json ? `${JSON.stringify({ checkpoint, log, ...line })}\n` : `${text}\n`);
        next = checkpoint;
        progress?.update(++read);
      }
    }
  } finally {
    progress?.stop();
  }
  return next;
}

async function* oneByOne(items: AsyncIterable<FeedItem>): AsyncGenerator<readonly FeedItem[]> {
  for await (const item of items) yield [item];
}

interface Execution extends Printing {
  readonly command: string;
  readonly stop: AbortSignal;
}

/** Runs a program for each batch. A batch is done if the program succeeds. */
async function execute(
  batches: AsyncIterable<readonly FeedItem[]>,
  { types, output, follow, command, stop }: Execution,
): Promise<void> {
  const progress = follow ? undefined : output.progress('Entries');
  let done = 0;
  try {
    for await (const batch of batches) {
      let lines = '';
      for (const { checkpoint, log, entry, body } of batch) {
        const line = await entryLine(entry, types, { load: body });
        lines += `${JSON.stringify({ checkpoint, log, ...line })}\n`;
      }
      await runProgram(command, lines).catch((error: unknown) => {
        // Ctrl+C ends the program too.
        throw stop.aborted ? stop.reason : error;
      });
      done += batch.length;
      progress?.update(done);
    }
  } finally {
    progress?.stop();
  }
}

function readInterrupted(reason: unknown, group: string | undefined, next: number | undefined): unknown {
  if (!(reason instanceof InterruptedError)) return reason;
  const how = group === undefined && next !== undefined ? ` with --from ${next}` : '';
  return new InterruptedError(reason.signal, reason.reason, {
    advice: `To continue, run the command again${how}`,
  });
}

async function rebuildAll({ deps, feed }: Environment, output: Output): Promise<void> {
  if (feed === undefined) return;
  const failures: { readonly log: LogId | null; readonly code: string; readonly message: string }[] = [];
  const policies = await readPolicies(deps.blobs, DEFAULT_POLICY, deps.parseLog);
  const rebuilt = await output.during('Logs', (progress) =>
    rebuildFeed({
      ...deps,
      feed,
      policyOf: (log) => policies.of(log),
      onFailure: (log, { code, message }) => void failures.push({ log: log ?? null, code, message }),
      onProgress: progress.update,
    }),
  );
  const { from, to, logs, spans } = rebuilt;
  const failed = failures.map(({ log, code, message }) => {
    return `FAILED ${log === null ? 'a segment' : printable(log)}: ${code}: ${pastable(message)}`;
  });
  const done = `${count(logs, 'log')} checked, ${count(spans, 'span')} fed from checkpoint ${from} to ${to}, ${failures.length} failed`;
  output.result({ from, to, logs, spans, failures }, [...failed, done].join('\n'));
  if (failures.length > 0) process.exitCode = 1;
}

async function releaseGroup(feed: Feed, group: string, output: Output): Promise<void> {
  const { checkpoint, lease } = await feed.release(group);
  const released = lease !== undefined;
  const done = released ? 'was released' : 'is free: no member had its lease';
  output.result({ group, checkpoint, released }, `Group ${printable(group)} ${done}. It continues at ${checkpoint}.`);
}

async function listGroups(feed: Feed, output: Output): Promise<void> {
  const { end, groups } = await output.during('Groups', async () => {
    return { end: await feed.end(), groups: await feed.groups() };
  });
  const width = Math.max(0, ...groups.map(({ name }) => printable(name).length));
  const lines = groups.map(({ name, checkpoint, saved, lagSeconds, lease }) => {
    const lag = lagSeconds === 0 ? 'has everything' : `is ${formatDuration(lagSeconds)} behind`;
    const member = lease === undefined ? '' : `, a member has the lease until ${formatDate(lease.until / 1000)}`;
    return `${printable(name).padEnd(width)}  ${checkpoint}, saved ${formatDate(saved)}, ${lag}${member}`;
  });
  const document = groups.map(({ name, checkpoint, saved, lagSeconds, lease }) => {
    return { name, checkpoint, saved, lagSeconds, leaseUntil: lease?.until ?? null };
  });
  const none = groups.length === 0 ? ['There are no consumer groups yet.'] : lines;
  output.result({ end, groups: document }, [...none, `The feed ends at ${end}.`].join('\n'));
}

/**
 * Runs a command of the shell with a text on its standard input. It shares standard output and
 * standard error with this process. It need not read the whole text.
 * @throws ProgramFailedError unless it ends with exit code 0
 */
export async function runProgram(command: string, input: string): Promise<void> {
  const child = spawn(command, { shell: true, stdio: ['pipe', 'inherit', 'inherit'] });
  // The exit code says whether the program needed what it did not read.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  await once(child, 'close').catch((cause: unknown) => {
    throw programFailed('could not be started', cause);
  });
  const { exitCode, signalCode } = child;
  if (exitCode === 0) return;
  throw programFailed(signalCode === null ? `ended with exit code ${exitCode}` : `was ended by ${signalCode}`);
}

function programFailed(how: string, cause?: unknown): ProgramFailedError {
  return new ProgramFailedError(`the program of --exec ${how}, so its entries are not done`, {
    advice: 'Find the cause in the output of the program, then run the command again: the same entries come again',
    cause,
  });
}
