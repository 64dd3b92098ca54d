import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Command, Option } from '@commander-js/extra-typings';
import { SingleBar } from 'cli-progress';
import { parse } from '../../src/cli/command.ts';
import { runHistory } from '../support/simulation/history.ts';

/** The histories that the parent sends to a process together. */
const GROUP = 20;

/** The message of a process after each history. */
interface Finished {
  readonly seed: number;
  readonly failure: string | undefined;
}

const program = new Command('npm run simulate --')
  .description('Runs simulated histories, each determined by a seed, and prints the seeds of failed histories.')
  .option('--histories <n>', 'number of histories', parse.count, 1000)
  .option('--from <seed>', 'the first seed', parse.count, 1)
  .option('--seed <seed>', 'run only this history, in this process', parse.count)
  .option('--processes <n>', 'number of processes', parse.count, availableParallelism())
  .option('--stop', 'stop at the first failure', false)
  .addOption(new Option('--child').hideHelp().default(false))
  .showHelpAfterError('(add --help for the options)')
  .action(async (options) => {
    if (options.child) return listen();
    if (options.seed !== undefined) {
      const lines = await runHistory(options.seed);
      process.stdout.write(`${lines.join('\n')}\n`);
      return;
    }
    await runAll(options);
  });

interface Runs {
  readonly histories: number;
  readonly from: number;
  readonly processes: number;
  readonly stop: boolean;
}

async function runAll({ histories, from, processes, stop }: Runs): Promise<void> {
  const bar = new SingleBar({
    format: 'Histories [{bar}] {value}/{total}, {eta_formatted} left',
    stream: process.stderr,
    noTTYOutput: true,
    notTTYSchedule: 10_000,
  });
  bar.start(histories, 0);
  const started = performance.now();
  const failures: Finished[] = [];
  const end = from + histories;
  let next = from;
  let done = 0;
  const run = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const child = fork(fileURLToPath(import.meta.url), ['--child']);
      const give = (): void => {
        if (next >= end || (stop && failures.length > 0)) {
          child.disconnect();
          return;
        }
        const to = Math.min(next + GROUP, end);
        child.send({ from: next, to });
        next = to;
      };
      child.on('message', (message: Finished | 'idle') => {
        if (message === 'idle') return give();
        bar.update(++done);
        if (message.failure !== undefined) failures.push(message);
      });
      child.on('error', reject);
      child.on('exit', (code) =>
        code === 0 ? resolve() : reject(new Error(`a process ended with exit code ${code}`)),
      );
    });
  await Promise.all(Array.from({ length: processes }, run));
  bar.stop();
  failures.sort((a, b) => a.seed - b.seed);
  for (const { failure } of failures) process.stdout.write(`${failure}\n\n`);
  const seconds = Math.round((performance.now() - started) / 1000);
  const seeds = failures.length === 0 ? '' : `: seeds ${failures.map(({ seed }) => seed).join(', ')}`;
  process.stdout.write(`${done} histories in ${seconds} s, ${failures.length} failed${seeds}\n`);
  if (failures.length > 0) process.exitCode = 1;
}

/** Runs the histories that the parent sends, until the parent disconnects. */
function listen(): void {
  const send = (message: Finished | 'idle'): void => {
    process.send?.(message);
  };
  process.on('message', async ({ from, to }: { readonly from: number; readonly to: number }) => {
    for (let seed = from; seed < to; seed++) {
      const failure = await runHistory(seed).then(
        () => undefined,
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      );
      send({ seed, failure });
    }
    send('idle');
  });
  send('idle');
}

await program.parseAsync();
