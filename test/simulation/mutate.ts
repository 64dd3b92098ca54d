import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from '@commander-js/extra-typings';
import { parse } from '../../src/cli/command.ts';
import { MUTANTS, type Mutant } from './mutants.ts';
import { plant } from './plant.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** What became of one mutant. */
interface Trial {
  readonly found: boolean;
  readonly seconds: number;
  /** What the simulation said of it, or all that was printed where it is none of that. */
  readonly told: string;
}

const program = new Command('npm run simulate:mutants --')
  .description(
    'Plants one fault after the other into a copy of the sources, and runs the simulation until it finds it.',
  )
  .argument('[mutants...]', 'only these, by name')
  .option('--histories <n>', 'how many histories each may take', parse.count, 2000)
  .option('--list', 'print them, and run nothing', false)
  .showHelpAfterError('(add --help for the options)')
  .action(async (names, { histories, list }) => {
    for (const name of names) {
      if (!MUTANTS.some((mutant) => mutant.name === name)) program.error(`there is no mutant '${name}'`);
    }
    const chosen = MUTANTS.filter(({ name }) => names.length === 0 || names.includes(name));
    if (list) {
      for (const { name, fault } of chosen) process.stdout.write(`${name}: ${fault}\n`);
      return;
    }
    let missed = 0;
    for (const [i, mutant] of chosen.entries()) {
      process.stderr.write(`${i + 1} of ${chosen.length}: ${mutant.name}\n`);
      const { found, seconds, told } = await tryMutant(mutant, histories);
      if (!found) missed++;
      process.stdout.write(`${found ? 'found' : 'MISSED'}  ${mutant.name}  (${seconds} s)  ${told}\n`);
    }
    process.stdout.write(`${chosen.length - missed} of ${chosen.length} planted faults were found\n`);
    if (missed > 0) process.exitCode = 1;
  });

async function tryMutant(mutant: Mutant, histories: number): Promise<Trial> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-mutant-'));
  try {
    for (const part of ['src', 'bench', 'test/support', 'test/simulation', 'package.json']) {
      await cp(join(ROOT, part), join(directory, part), { recursive: true });
    }
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
    for (const edit of mutant.edits) {
      const path = join(directory, 'src', edit.file);
      await writeFile(path, plant(await readFile(path, 'utf8'), edit));
    }
    return await simulate(directory, histories);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function simulate(directory: string, histories: number): Promise<Trial> {
  const started = performance.now();
  const words = ['test/simulation/main.ts', '--histories', String(histories), '--stop'];
  const child = spawn(process.execPath, words, { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  let troubles = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    troubles += text;
  });
  await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const seconds = Math.round((performance.now() - started) / 1000);
  // A copy that does not even run proves nothing.
  const [first] = /^seed \d+: .*/m.exec(printed) ?? [];
  const [last] = /^\d+ histories in .*/m.exec(printed) ?? [];
  if (last === undefined) throw new Error(`the copy does not run: ${troubles.slice(-2000)}`);
  return { found: first !== undefined, seconds, told: first ?? last };
}

await program.parseAsync();
