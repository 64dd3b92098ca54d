import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from '@commander-js/extra-typings';
import { interrupted } from '../src/cli/signals.ts';
import { namesOf, wholeNumber } from './options.ts';
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
  .option('--json', 'print one JSON document on standard output and nothing else', false)
  .option('--markdown', 'print the tables in Markdown', false)
  .addHelpText('after', () => `\nPhases:\n${describePhases()}\n\nSystems: ${ALL_SYSTEMS.join(', ')}`)
  .showHelpAfterError('(add --help for the options)')
  .action(async ({ phases = PHASE_NAMES, systems = ALL_SYSTEMS, repeat, rows, json, markdown }) => {
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
      const tables = resultTables(results, { rows, bounds: rows === ROWS });
      const machine = describeMachine();
      if (json) console.log(JSON.stringify({ machine, repeat, rows, results }));
      else
        console.log(
          [`${machine}; medians of ${repeat}`, ...tables.map(markdown ? markdownTable : plainTable)].join('\n\n'),
        );
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

function describePhases(): string {
  return PHASES.map(({ name, about }) => `  ${name.padEnd(15)} ${about}`).join('\n');
}

await bench.parseAsync();
