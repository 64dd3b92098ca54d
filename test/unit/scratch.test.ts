import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { buildFunctions, FUNCTIONS } from '../../handlers/bundle.ts';
import { scratchOf } from '../../src/adapters/filesystem/scratch.ts';
import { LOG } from '../support/logs.ts';

const HOLDER = fileURLToPath(new URL('../programs/scratch-holder.ts', import.meta.url));
const ROOT = join(import.meta.dirname, '../..');
/** Lambda sets this variable. No other process may set it. */
const LAMBDA = { AWS_LAMBDA_FUNCTION_NAME: 'logfold-replay' };

let directory: string;
let holder: ChildProcess;
let held: string[];

/** The temporary directory is `directory`, where another process has scratch chunks. */
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'logfold-temporary-'));
  holder = fork(HOLDER, { env: { TMPDIR: directory }, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  await once(holder, 'message');
  held = await readdir(directory);
  expect(held).toHaveLength(1);
  vi.stubEnv('TMPDIR', directory);
  expect(tmpdir()).toBe(directory);
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await killHolder();
  await rm(directory, { recursive: true });
});

async function killHolder(): Promise<void> {
  if (holder.exitCode !== null || holder.signalCode !== null) return;
  holder.kill('SIGKILL');
  await once(holder, 'exit');
}

/** The content of the temporary directory during and after work with scratch chunks. */
async function contentsWith(withScratch: ReturnType<typeof scratchOf>): Promise<{ during: string[]; after: string[] }> {
  const during = await withScratch(LOG, () => readdir(directory));
  return { during: during.sort(), after: (await readdir(directory)).sort() };
}

describe('scratch chunks', () => {
  test('chunks of a killed invocation are removed when the next invocation in that Lambda environment begins', async () => {
    await killHolder();
    expect(await readdir(directory)).toEqual(held);
    await mkdir(join(directory, 'of-an-extension'));
    const { during, after } = await contentsWith(scratchOf(LAMBDA));
    expect(during).toEqual([expect.stringMatching(/^logfold-scratch-/), 'of-an-extension']);
    expect(held).not.toContain(during[0]);
    expect(after).toEqual(['of-an-extension']);
  });

  test('chunks of another process stay on a machine that is not Lambda', async () => {
    const { during, after } = await contentsWith(scratchOf({}));
    expect(during).toHaveLength(2);
    expect(after).toEqual(held);
    expect(await readdir(join(directory, held[0] ?? ''))).not.toEqual([]);
  });

  test('chunks of running work in the same process stay', async () => {
    await killHolder();
    const withScratch = scratchOf(LAMBDA);
    const during = await withScratch(LOG, async () => (await contentsWith(withScratch)).after);
    expect(during).toHaveLength(1);
    expect(await readdir(directory)).toEqual([]);
  });
});

test('only the replay function has code that creates files', async () => {
  const { outputs } = await buildFunctions(join(directory, 'build'));
  const bundles = Object.entries(outputs).filter(([file]) => file.endsWith('.mjs'));
  expect(bundles.length).toBeGreaterThanOrEqual(FUNCTIONS.length);
  const makers = [];
  for (const [file, { entryPoint }] of bundles) {
    const code = await readFile(join(ROOT, file), 'utf8');
    if (/tmpdir|TMPDIR|mkdtemp|createWriteStream|writeFile/.test(code)) makers.push(entryPoint);
  }
  expect(makers).toEqual(['handlers/replay.ts']);
});
