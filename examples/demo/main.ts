import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Command, CommanderError } from '@commander-js/extra-typings';
import { makeTemporaryDirectory, type TemporaryDirectory } from '../../src/adapters/filesystem/temporary-paths.ts';
import { parse } from '../../src/cli/command.ts';
import { Output } from '../../src/cli/output.ts';
import { exitCodeOf, interrupted } from '../../src/cli/signals.ts';
import { InterruptedError, UsageError } from '../../src/errors.ts';
import { openCast } from './actors.ts';
import { PipelineWatch } from './pipeline-watch.ts';
import { type DemoResult, describeResult } from './report.ts';
import { Story } from './scenario.ts';
import { DATA } from './zip-codes.ts';

/** With fewer, the demo's edits would delete more rows than there are. */
const MIN_ROWS = 600;

const demo = new Command('npm run demo --')
  .description(
    `Keeps a table of ${DATA.title} as a log of edits, lets the pipeline make snapshots of it, and proves the last one. ` +
      'Runs on this machine alone, with a DynamoDB API of its own and a directory for a bucket.',
  )
  .option('--rows <n>', `use only the first N rows of the data, ${MIN_ROWS} or more`, parseRows)
  .option('--keep <dir>', 'put everything into this new directory and leave it there')
  .option('--json', 'print one JSON document on standard output and nothing else', false)
  .showHelpAfterError('(add --help for the options)')
  .exitOverride()
  .action(async ({ rows, keep, json }) => {
    const output = new Output(json);
    const { path: directory, remove } = await makeDirectory(keep);
    try {
      const result = await runDemo(directory, rows ?? Number.POSITIVE_INFINITY, output);
      output.result(result, describeResult(result));
      if (keep !== undefined) output.note(`\nEverything is in ${keep}. Look: npx logfold status --local ${keep}`);
      if (!result.proved) process.exitCode = 1;
    } finally {
      remove();
    }
  });

async function runDemo(directory: string, rows: number, output: Output): Promise<DemoResult> {
  const started = performance.now();
  const stop = interrupted();
  const cast = await openCast(directory);
  try {
    const log = await cast.team.client.createLog();
    const watch = new PipelineWatch(cast.pipeline, await cast.pipeline.streamArn());
    const signal = AbortSignal.any([stop, cast.team.lost, watch.failed]);
    try {
      const scratch = join(directory, 'replay');
      const told = await new Story({ cast, watch, log, scratch, rows, output, signal }).tell();
      await rm(scratch, { recursive: true, force: true });
      return { ...told, seconds: (performance.now() - started) / 1000 };
    } finally {
      await watch.stop();
    }
  } catch (error) {
    // What fails because the engine went away is explained by that, not by the refused connection.
    if (cast.team.lost.aborted) throw cast.team.lost.reason;
    throw stop.aborted ? stop.reason : error;
  } finally {
    await cast.close();
  }
}

function parseRows(text: string): number {
  const rows = parse.count(text);
  if (rows >= MIN_ROWS) return rows;
  throw new UsageError(`${rows} rows are too few for the demo's edits`, { advice: `Give ${MIN_ROWS} or more` });
}

async function makeDirectory(keep: string | undefined): Promise<TemporaryDirectory> {
  if (keep === undefined) return makeTemporaryDirectory('logfold-demo-');
  await mkdir(keep, { recursive: true });
  if ((await readdir(keep)).length === 0) return { path: keep, remove: () => {} };
  throw new UsageError(`the directory '${keep}' is not empty`, { advice: 'Name a new or empty directory' });
}

try {
  await demo.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    new Output(process.argv.includes('--json')).error(error);
    process.exitCode = error instanceof InterruptedError ? exitCodeOf(error.signal) : 1;
  }
}
