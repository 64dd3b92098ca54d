import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Command, CommanderError } from '@commander-js/extra-typings';
import { makeTemporaryDirectory, type TemporaryDirectory } from '../../src/adapters/filesystem/temporary-paths.ts';
import { parse } from '../../src/cli/command.ts';
import { Output } from '../../src/cli/output.ts';
import { exitCodeOf, interrupted } from '../../src/cli/signals.ts';
import { InterruptedError, UsageError } from '../../src/errors.ts';
import { openActors } from './actors.ts';
import { PipelineWatch } from './pipeline-watch.ts';
import { type DemoResult, describeResult } from './report.ts';
import { Scenario } from './scenario.ts';
import { DATA } from './zip-codes.ts';

/** With fewer rows, the demo's edits would delete more rows than the table has. */
const MIN_ROWS = 600;

const demo = new Command('npm run demo --')
  .description(
    `Stores a table of ${DATA.title} as a log of edits, builds snapshots with the pipeline, and verifies the last snapshot. ` +
      'Runs only on this machine, with an embedded DynamoDB and a directory instead of a bucket.',
  )
  .option('--rows <n>', `use only the first N rows of the data, ${MIN_ROWS} or more`, parseRows)
  .option('--keep <dir>', 'use this new directory for all data, and keep it')
  .option('--json', 'print one JSON document on standard output and nothing else', false)
  .showHelpAfterError('(add --help for the options)')
  .exitOverride()
  .action(async ({ rows, keep, json }) => {
    const output = new Output(json);
    const { path: directory, remove } = await makeDirectory(keep);
    try {
      const result = await runDemo(directory, rows ?? Number.POSITIVE_INFINITY, output);
      output.result(result, describeResult(result));
      if (keep !== undefined)
        output.note(`\nAll data is in ${keep}. To look at it, run npx logfold status --local ${keep}`);
      if (!result.proved) process.exitCode = 1;
    } finally {
      remove();
    }
  });

async function runDemo(directory: string, rows: number, output: Output): Promise<DemoResult> {
  const started = performance.now();
  const stop = interrupted();
  const actors = await openActors(directory);
  try {
    const log = await actors.team.logs.create();
    const watch = new PipelineWatch(actors.pipeline, await actors.pipeline.streamArn());
    const signal = AbortSignal.any([stop, actors.team.lost, watch.failed]);
    try {
      const scratch = join(directory, 'replay');
      const result = await new Scenario({ actors, watch, log, scratch, rows, output, signal }).run();
      await rm(scratch, { recursive: true, force: true });
      return { ...result, seconds: (performance.now() - started) / 1000 };
    } finally {
      await watch.stop();
    }
  } catch (error) {
    // A lost engine explains the error better than the refused connection does.
    if (actors.team.lost.aborted) throw actors.team.lost.reason;
    throw stop.aborted ? stop.reason : error;
  } finally {
    await actors.close();
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
