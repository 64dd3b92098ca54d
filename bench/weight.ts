import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Command } from '@commander-js/extra-typings';
import { z } from 'zod';
import manifest from '../package.json' with { type: 'json' };
import { wholeNumber } from './options.ts';
import { median } from './statistics.ts';
import { describeMachine, markdownTable, plainTable, type Table } from './tables.ts';

const ROOT = join(import.meta.dirname, '..');
/** The most that an installation without the optional packages may have, in millions of bytes. */
const LIMIT_MB = 25;
/** The most processor time that `import 'logfold'` may take, in milliseconds. */
const LIMIT_MS = 60;
const ENTRIES = ['logfold', 'logfold/collections', 'logfold/spreadsheet', 'logfold/aws', 'logfold/local'];
/** The program of a fresh process. It prints the processor time of an import and its files. */
const PROGRAM = `
const cpu = process.cpuUsage();
await import(process.argv[1]);
const { user, system } = process.cpuUsage(cpu);
console.log((user + system) / 1000);`;
const COUNTING = `
import { registerHooks } from 'node:module';
const files = new Set();
registerHooks({ load: (url, context, next) => (files.add(url), next(url, context)) });
await import(process.argv[1]);
console.log([...files].filter((url) => url.startsWith('file:')).length);`;

const run = promisify(execFile);

const weight = new Command('npm run bench:weight --')
  .description(
    'Packs the package, installs it into empty directories with and without the optional packages, ' +
      'and measures their size and the processor time of importing its entries in fresh processes.',
  )
  .option('--repeat <n>', 'processes per entry; the result is their median', wholeNumber, 15)
  .option('--markdown', 'print the tables in Markdown', false)
  .showHelpAfterError('(add --help for the options)')
  .action(async ({ repeat, markdown }) => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-weight-'));
    try {
      await run('npm', ['pack', '--pack-destination', directory], { cwd: ROOT });
      const tarball = join(directory, `logfold-${manifest.version}.tgz`);
      const whole = await install(tarball, join(directory, 'whole'));
      const light = await install(tarball, join(directory, 'light'), '--omit=optional');
      const tables = [await sizeTable({ whole, light }), await importTable(whole, repeat)];
      const title = `${describeMachine()}; medians of ${repeat}`;
      console.log([title, ...tables.map(markdown ? markdownTable : plainTable)].join('\n\n'));
    } finally {
      await rm(directory, { recursive: true });
    }
  });

/** Installs a packed package into a new project. @returns the directory of the project */
async function install(tarball: string, project: string, ...options: readonly string[]): Promise<string> {
  await mkdir(project);
  await writeFile(join(project, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  await run('npm', ['install', '--prefer-offline', '--no-audit', ...options, tarball], { cwd: project });
  return project;
}

async function sizeTable({ whole, light }: Readonly<Record<'whole' | 'light', string>>): Promise<Table> {
  const rows = await Promise.all(
    [
      ['npm install', whole, undefined],
      ['npm install --omit=optional', light, LIMIT_MB],
    ].map(async ([command = '', project = '', limit]) => {
      const { bytes, packages } = await sizeOf(join(`${project}`, 'node_modules'));
      const isMet = limit === undefined ? '' : bytes / 1e6 <= Number(limit) ? 'met' : 'NOT met';
      return [`\`${command}\``, `${packages}`, (bytes / 1e6).toFixed(1), isMet];
    }),
  );
  return { title: 'Size', head: ['command', 'packages', 'MB on the disk', `at most ${LIMIT_MB} MB`], rows };
}

/** The bytes of all files on the disk, and the number of packages. */
async function sizeOf(modules: string): Promise<{ readonly bytes: number; readonly packages: number }> {
  const entries = await readdir(modules, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const stats = await Promise.all(files.map(({ parentPath, name }) => stat(join(parentPath, name))));
  const packages = files.filter(({ parentPath, name }) => {
    return name === 'package.json' && /node_modules\/(?:@[^/]+\/)?[^/@]+$/.test(parentPath);
  });
  return { bytes: stats.reduce((sum, { blocks }) => sum + 512 * blocks, 0), packages: packages.length };
}

async function importTable(project: string, repeat: number): Promise<Table> {
  const times = new Map<string, number[]>(ENTRIES.map((entry) => [entry, []]));
  // The entries alternate, so that a busy machine slows down all of them.
  for (let round = 0; round < repeat; round++) {
    for (const [entry, each] of times) each.push(await numberOf(PROGRAM, entry, project));
  }
  const rows: string[][] = [];
  for (const [entry, each] of times) {
    const isMet = entry !== 'logfold' ? '' : median(each) <= LIMIT_MS ? 'met' : 'NOT met';
    const files = await numberOf(COUNTING, entry, project);
    rows.push([`\`${entry}\``, `${files}`, median(each).toFixed(1), Math.min(...each).toFixed(1), isMet]);
  }
  return {
    title: 'Import',
    head: ['entry', 'files', 'processor, ms', 'shortest, ms', `at most ${LIMIT_MS} ms`],
    rows,
  };
}

/** Runs a program in a fresh process. @returns the number that it prints */
async function numberOf(program: string, entry: string, cwd: string): Promise<number> {
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program, entry], { cwd });
  return z.coerce.number().parse(stdout);
}

await weight.parseAsync();
