import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { Command } from '@commander-js/extra-typings';
import { z } from 'zod';
import { type Bundle, buildBundles } from '../test/support/deployed/bundles.ts';
import { type DeployedFunction, deployedFunctions } from '../test/support/deployed/deployed-functions.ts';
import { readTemplate } from '../test/support/deployed/template.ts';
import { wholeNumber } from './options.ts';
import { median } from './statistics.ts';
import { describeMachine, markdownTable, plainTable, type Table } from './tables.ts';

/** The most milliseconds that the initialisation of a function may take. */
const LIMIT_MS = 150;
/** With these parameters, the stack has the functions that it lacks by default. */
const OPTIONS = {
  Feed: 'on',
  RevisionsStreamArn: 'arn:aws:dynamodb:us-east-1:123456789012:table/Orders/stream/2026-01-01T00:00:00.000',
};
/**
 * The program of a fresh process. It loads a module as Lambda's runtime does, and prints the time.
 */
const PROGRAM = `
const cpu = process.cpuUsage();
const start = performance.now();
await import(process.argv[1]);
const ms = performance.now() - start;
const { user, system } = process.cpuUsage(cpu);
console.log(JSON.stringify({ ms, cpuMs: (user + system) / 1000 }));`;
/** The owner of a file in a bundle, by the first pattern that matches its path. */
const OWNERS: readonly (readonly [owner: string, pattern: RegExp])[] = [
  ['AWS SDK', /node_modules\/(@aws-sdk|@smithy|@aws\/|@aws-crypto)/],
  ['Powertools', /node_modules\/@aws-lambda-powertools/],
  ['zod', /node_modules\/zod/],
  ['other modules', /node_modules/],
  ['logfold', /./],
];

interface Start {
  /** Time to load the module, in milliseconds. */
  readonly ms: number;
  /** Processor time of all cores, in milliseconds. */
  readonly cpuMs: number;
}

interface Measured {
  /** The module of the function, or a remark. */
  readonly name: string;
  readonly bundle: Bundle | undefined;
  readonly file: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly starts: Start[];
}

const coldStart = new Command('npm run bench:cold-start --')
  .description(
    'Measures how long each function of the template takes to initialise. Fresh processes load its bundle ' +
      'with the environment of the function and nothing else. An empty module is measured for comparison.',
  )
  .option('--repeat <n>', 'processes per function; the result is their median', wholeNumber, 15)
  .option('--markdown', 'print the tables in Markdown', false)
  .showHelpAfterError('(add --help for the options)')
  .action(async ({ repeat, markdown }) => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-cold-start-'));
    try {
      const measured = await measure(directory, repeat);
      const tables = [startTable(measured), partsTable(measured)];
      const title = `${describeMachine()}; medians of ${repeat}`;
      console.log([title, ...tables.map(markdown ? markdownTable : plainTable)].join('\n\n'));
    } finally {
      await rm(directory, { recursive: true });
    }
  });

async function measure(directory: string, repeat: number): Promise<Measured[]> {
  const template = readTemplate();
  const stacks = [template.expand(), template.expand({ parameters: OPTIONS })];
  const empty = join(directory, 'empty.mjs');
  await writeFile(empty, '');
  const all: Measured[] = [{ name: 'an empty module', bundle: undefined, file: empty, environment: {}, starts: [] }];
  for (const stack of stacks) {
    const bundles = await buildBundles(stack, directory);
    for (const each of deployedFunctions(stack).values()) {
      const bundle = bundles.get(each.id);
      if (bundle === undefined) throw new Error(`no bundle of ${each.id}`);
      const { file } = bundle;
      // Most functions are the same in both stacks.
      if (all.some((known) => known.file === file)) continue;
      all.push({ name: basename(file, '.mjs'), bundle, file, environment: environmentOf(each), starts: [] });
    }
  }
  // The functions alternate, so that a busy machine slows down all of them.
  for (let round = 0; round < repeat; round++) {
    for (const { file, environment, starts } of all) starts.push(await start(file, environment));
  }
  return all;
}

/** The deployed environment. A start sends no requests, so the credentials need not be valid. */
function environmentOf({ environment }: DeployedFunction): Record<string, string> {
  return { ...environment, AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'none', AWS_SECRET_ACCESS_KEY: 'none' };
}

async function start(file: string, environment: Readonly<Record<string, string>>): Promise<Start> {
  const options = { env: { ...environment } };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', PROGRAM, file],
    options,
  );
  return z.object({ ms: z.number(), cpuMs: z.number() }).parse(JSON.parse(stdout));
}

function startTable(measured: readonly Measured[]): Table {
  return {
    title: 'Initialisation',
    head: ['function', 'bundle, bytes', 'median, ms', 'shortest, ms', 'processor, ms', `below ${LIMIT_MS} ms`],
    rows: measured.map(({ name, bundle, starts }) => {
      const ms = starts.map((each) => each.ms);
      return [
        name,
        formatCount(bundle?.bytes ?? 0),
        median(ms).toFixed(1),
        Math.min(...ms).toFixed(1),
        median(starts.map((each) => each.cpuMs)).toFixed(1),
        median(ms) < LIMIT_MS ? 'met' : 'NOT met',
      ];
    }),
  };
}

function partsTable(measured: readonly Measured[]): Table {
  const owners = OWNERS.map(([owner]) => owner);
  return {
    title: 'Contents of the bundles, in bytes',
    head: ['function', ...owners],
    rows: measured.flatMap(({ name, bundle }) => {
      if (bundle === undefined) return [];
      const parts = Object.groupBy(bundle.parts, ([file]) => OWNERS.find(([, of]) => of.test(file))?.[0] ?? '');
      const sum = (owner: string): number => (parts[owner] ?? []).reduce((total, [, bytes]) => total + bytes, 0);
      return [[name, ...owners.map((owner) => formatCount(sum(owner)))]];
    }),
  };
}

function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

await coldStart.parseAsync();
