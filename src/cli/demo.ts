import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, CommanderError } from '@commander-js/extra-typings';
import { UsageError } from '../errors.ts';
import { parse } from './command.ts';
import { describeResult } from './demo/report.ts';
import { tellStory } from './demo/story.ts';
import { DATA } from './demo/zip-codes.ts';
import { Output } from './output.ts';
import { interrupted } from './signals.ts';

const demo = new Command('npm run demo --')
  .description(
    `Keeps a table of ${DATA.title} as a log of edits, lets the pipeline make snapshots of it, and proves the last one. ` +
      'Runs on this machine alone, with a DynamoDB API of its own and a directory for a bucket.',
  )
  .option('--rows <n>', 'use only the first N rows of the data', parse.count)
  .option('--keep <dir>', 'put everything into this new directory and leave it there')
  .option('--json', 'print one JSON document on standard output and nothing else', false)
  .showHelpAfterError('(add --help for the options)')
  .exitOverride()
  .action(async ({ rows, keep, json }) => {
    const output = new Output(json);
    const directory = await makeDirectory(keep);
    try {
      const result = await tellStory({
        directory,
        rows: rows ?? Number.POSITIVE_INFINITY,
        output,
        signal: interrupted(),
      });
      output.result(result, describeResult(result, keep));
      if (!result.proved) process.exitCode = 1;
    } finally {
      if (keep === undefined) await rm(directory, { recursive: true });
    }
  });

async function makeDirectory(keep: string | undefined): Promise<string> {
  if (keep === undefined) return mkdtemp(join(tmpdir(), 'logfold-demo-'));
  await mkdir(keep, { recursive: true });
  if ((await readdir(keep)).length === 0) return keep;
  throw new UsageError(`the directory '${keep}' is not empty`, { advice: 'Name a new one' });
}

try {
  await demo.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    new Output(process.argv.includes('--json')).error(error);
    process.exitCode = 1;
  }
}
