import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from '@commander-js/extra-typings';
import { interrupted } from '../src/cli/signals.ts';
import type { Run } from './measured.ts';
import { namesOf, readRun, wholeNumber } from './options.ts';
import { PHASES } from './phases.ts';
import { READ_SYSTEM_NAMES } from './reads/system.ts';
import { runPhases } from './runner.ts';
import { SYSTEM_NAMES } from './systems/system.ts';
import { describeMachine, markdownTable, plainTable, resultTables } from './tables.ts';
import { ROWS } from './workload.ts';

const PHASE_NAMES = PHASES.map(({ name }) => name);
const ALL_SYSTEMS = [...new Set([...SYSTEM_NAMES, ...READ_SYSTEM_NAMES])];

const bench = new Command('npm run bench --')
  .description(
    'Compares snapshots of a sheet with other ways to store it. Every run is a new process. Results are medians.',
  )
  .option('--phases <names>', 'only these phases, separated by commas', namesOf(PHASE_NAMES))
  .option('--systems <names>', 'only these systems, separated by commas', namesOf(ALL_SYSTEMS))
  .option('--repeat <n>', 'runs per phase and system; the result is their median', wholeNumber, 5)
  .option('--rows <n>', 'rows of the sheet; the bounds apply to the default only', wholeNumber, ROWS)
  .option('--from <file>', 'print the results in a file that --json printed, and measure nothing', readRun)
  .option('--json', 'print one JSON document on standard output and nothing else', false)
  .option('--markdown', 'print the tables in Markdown', false)
  .addHelpText('after', () => `\nPhases:\n${describePhases()}\n\nSystems: ${ALL_SYSTEMS.join(', ')}`)
  .showHelpAfterError('(add --help for the options)')
  .action(async ({ from, json, markdown, ...plan }) => {
    const run = from ?? (await measure(plan));
    const tables = resultTables(run.results, { rows: run.rows, bounds: run.rows === ROWS });
    if (json) console.log(JSON.stringify(run));
    else {
      const title = `${run.machine}; medians of ${run.repeat}`;
      console.log([title, ...tables.map(markdown ? markdownTable : plainTable)].join('\n\n'));
    }
  });

interface Plan {
  readonly phases?: readonly string[] | undefined;
  readonly systems?: readonly string[] | undefined;
  readonly repeat: number;
  readonly rows: number;
}

async function measure({ phases = PHASE_NAMES, systems = ALL_SYSTEMS, repeat, rows }: Plan): Promise<Run> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-bench-'));
  try {
    const results = await runPhases({
      phases: PHASES.filter(({ name }) => phases.includes(name)),
      systems,
      repeat,
      rows,
      directory,
      signal: interrupted(),
      onProgress: (line) => process.stderr.write(`${line}\n`),
    });
    return { machine: describeMachine(), repeat, rows, results };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function describePhases(): string {
  return PHASES.map(({ name, about }) => `  ${name.padEnd(20)} ${about}`).join('\n');
}

await bench.parseAsync();
