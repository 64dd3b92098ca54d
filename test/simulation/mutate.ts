import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from '@commander-js/extra-typings';
import { z } from 'zod';
import { parse } from '../../src/cli/command.ts';
import { MUTANTS, type Mutant } from './mutants.ts';
import { plant } from './plant.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** The parts of the repository that the simulation and the tests need. */
const PARTS = [
  'bin',
  'src',
  'handlers',
  'bench',
  'test',
  'docs',
  'README.md',
  'template.yaml',
  'feed.yaml',
  'revisions.yaml',
  'monitoring.yaml',
  'package.json',
  'vitest.config.ts',
];
/** The used part of vitest's JSON report. */
const reportSchema = z.object({
  testResults: z.array(z.object({ assertionResults: z.array(z.object({ fullName: z.string(), status: z.string() })) })),
});

/** The output and duration of a process. */
interface Output {
  readonly printed: string;
  readonly errors: string;
  readonly seconds: number;
}

/** The result for one mutant. */
interface Trial {
  readonly found: boolean;
  readonly seconds: number;
  /** The simulation's line about the first failed history, or the titles of the failed tests. */
  readonly detail: string;
}

const program = new Command('npm run simulate:mutants --')
  .description(
    'Plants each fault into a copy of the sources. Runs the simulation, or the test that the fault names, ' +
      'and fails if a fault is not found.',
  )
  .argument('[mutants...]', 'run only these')
  .option('--histories <n>', 'most histories per fault', parse.count, 2000)
  .option('--list', 'list the faults and exit', false)
  .showHelpAfterError('(add --help for the options)')
  .action(async (names, { histories, list }) => {
    for (const name of names) {
      if (!MUTANTS.some((mutant) => mutant.name === name)) program.error(`there is no mutant '${name}'`);
    }
    const chosen = MUTANTS.filter(({ name }) => names.length === 0 || names.includes(name));
    if (list) {
      for (const { name, fault, test } of chosen) {
        process.stdout.write(`${name}: ${fault} (found by ${test ?? 'the simulation'})\n`);
      }
      return;
    }
    let missed = 0;
    for (const [i, mutant] of chosen.entries()) {
      process.stderr.write(`${i + 1} of ${chosen.length}: ${mutant.name}\n`);
      const { found, seconds, detail } = await tryMutant(mutant, histories);
      if (!found) missed++;
      process.stdout.write(`${found ? 'found' : 'MISSED'}  ${mutant.name}  (${seconds} s)  ${detail}\n`);
    }
    process.stdout.write(`${chosen.length - missed} of ${chosen.length} planted faults were found\n`);
    if (missed > 0) process.exitCode = 1;
  });

async function tryMutant(mutant: Mutant, histories: number): Promise<Trial> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-mutant-'));
  try {
    for (const part of PARTS) await cp(join(ROOT, part), join(directory, part), { recursive: true });
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
    for (const edit of mutant.edits) {
      const path = join(directory, 'src', edit.file);
      await writeFile(path, plant(await readFile(path, 'utf8'), edit));
    }
    return mutant.test === undefined ? await simulate(directory, histories) : await runTest(directory, mutant);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function simulate(directory: string, histories: number): Promise<Trial> {
  const words = ['test/simulation/main.ts', '--histories', String(histories), '--stop'];
  const { printed, errors, seconds } = await run(directory, words);
  const [first] = /^seed \d+: .*/m.exec(printed) ?? [];
  const [last] = /^\d+ histories in .*/m.exec(printed) ?? [];
  // No result line means that the copy does not run.
  if (last === undefined) throw new Error(`the copy does not run: ${errors.slice(-2000)}`);
  return { found: first !== undefined, seconds, detail: first ?? last };
}

async function runTest(directory: string, { test = '', project }: Mutant): Promise<Trial> {
  const words = ['node_modules/vitest/vitest.mjs', 'run', '--reporter=json', test];
  // The project 'unit' runs tests of 'sources' again.
  words.push('--project', project ?? '!unit');
  const { printed, errors, seconds } = await run(directory, words);
  const [json] = /^\{"num.*$/m.exec(printed) ?? [];
  const tests =
    json === undefined ? [] : reportSchema.parse(JSON.parse(json)).testResults.flatMap((file) => file.assertionResults);
  // A report without tests means that the test file does not load.
  if (tests.length === 0) throw new Error(`the copy does not run: ${printed.slice(0, 2000)}${errors.slice(-2000)}`);
  const failed = tests.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName);
  const detail = failed.length > 0 ? failed.join('; ') : `${tests.length} tests passed`;
  return { found: failed.length > 0, seconds, detail };
}

async function run(directory: string, words: readonly string[]): Promise<Output> {
  const started = performance.now();
  const child = spawn(process.execPath, words, { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  return { printed, errors, seconds: Math.round((performance.now() - started) / 1000) };
}

await program.parseAsync();
