import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LogId } from '../../src/log/log-id.ts';
import { type Answer, runCli, startCli } from '../support/cli.ts';
import { CliPlace, expectNoTrace } from '../support/cli-place.ts';
import { Random } from '../support/random.ts';
import { StallingProxy } from '../support/stalling-proxy.ts';

const CLAIM_TERMINAL = `--import=${new URL('../support/claim-terminal.ts', import.meta.url).href}`;
/** What sets a mode of a terminal that outlives the program: cursor, line wrap, another screen. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what terminals are told with
const MODE = /\x1b\[\?\d+[hl]/;

let place: CliPlace;
let proxy: StallingProxy;
let log: LogId;
let temporary: string;
let edits: string;
let seed: number;

beforeAll(async () => {
  seed = Math.floor(Math.random() * 2 ** 31);
  place = await CliPlace.open();
  proxy = await StallingProxy.start(place.endpoint);
  temporary = await mkdtemp(join(tmpdir(), 'logfold-interrupt-'));
  log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
  for (let i = 0; i < 2; i++) {
    await place.client.addSnapshot(log);
    await place.json('work', '--until-idle');
    await place.client.startSegment(log);
    await place.edit(log, { type: 'Set', cells: [[0, 0, 'x'.repeat(20_000)]] });
  }
  await place.client.addSnapshot(log);
  await place.json('work', '--until-idle');
  await place.json('archive', log, '0');
  edits = join(place.directory, 'edits.ndjson');
  const lines = Array.from({ length: 5 }, (_, row) => ({ op: 'set', cells: [[row, 0, 'y'.repeat(20_000)]] }));
  await writeFile(edits, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
});
afterAll(async () => {
  await proxy.stop();
  await rm(temporary, { recursive: true });
  await place.close();
});

const COMMANDS: readonly [name: string, words: () => readonly string[]][] = [
  ['append', () => ['append', log, edits]],
  ['status', () => ['status']],
  ['export', () => ['export', log, '--csv', join(place.directory, 'never.csv')]],
  ['replay', () => ['replay', log]],
  ['verify', () => ['verify', log]],
  ['archive', () => ['archive', log, '1', '--dry-run']],
  ['restore', () => ['restore', log, '0']],
  ['collect', () => ['collect', log]],
  ['sweep', () => ['sweep', '--rebuild']],
  ['work --until-idle', () => ['work', '--until-idle']],
];

interface Interruption {
  /** How many requests to the tables are answered before. */
  readonly answered: number;
  readonly signal: NodeJS.Signals;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Runs a command until it waits for an answer of the tables, and interrupts it there. */
async function interrupt(words: readonly string[], interruption: Interruption): Promise<Answer> {
  const { answered, signal, environment } = interruption;
  const stalled = proxy.answer(answered);
  const child = startCli([...words, ...place.words], {
    ...environment,
    DYNAMODB_ENDPOINT: proxy.endpoint,
    TMPDIR: temporary,
  });
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (data: Buffer) => {
    output.stdout += data.toString();
  });
  child.stderr?.on('data', (data: Buffer) => {
    output.stderr += data.toString();
  });
  const closed = once(child, 'close');
  await Promise.race([stalled, closed]);
  child.kill(signal);
  await closed;
  return { code: child.exitCode, signal: child.signalCode, ...output };
}

/** How many requests a command sends to the tables where nothing interrupts it. */
async function requestsOf(words: readonly string[]): Promise<number> {
  void proxy.answer(Number.POSITIVE_INFINITY);
  const environment = { DYNAMODB_ENDPOINT: proxy.endpoint, TMPDIR: temporary };
  const answer = await runCli([...words, ...place.words], { environment });
  expect(answer, answer.stderr).toMatchObject({ code: 0 });
  return proxy.requests;
}

async function expectNothingLeft(): Promise<void> {
  expect(await readdir(temporary)).toEqual([]);
  const names = await readdir(place.directory, { recursive: true });
  const unfinished = join('blobs', 'temporary', '/');
  expect(names.filter((name) => name.startsWith(unfinished) || name.includes('never'))).toEqual([]);
}

test.each(COMMANDS)(
  'a signal ends %s, which says so and leaves nothing, in the terminal neither',
  async (name, words) => {
    const random = new Random(seed);
    const requests = await requestsOf(words());
    await rm(join(place.directory, 'never.csv'), { force: true });
    const interruption = () => {
      const [signal, code] = random.chance(0.5) ? (['SIGINT', 130] as const) : (['SIGTERM', 143] as const);
      const answered = random.integer(0, requests - 1);
      const about = `seed ${seed}: ${name}, ${signal} after ${answered} of ${requests} requests`;
      return { signal, code, answered, about };
    };

    const one = interruption();
    const said = await interrupt([...words(), '--json'], one);
    expect(said.code, `${one.about}: ${said.stderr}`).toBe(one.code);
    expectNoTrace(said);
    const document: { readonly error?: { readonly code: string } } = JSON.parse(said.stdout);
    // A pipeline that was not idle yet says what it has done.
    if (name !== 'work --until-idle') expect(document.error?.code, one.about).toBe('INTERRUPTED');
    await expectNothingLeft();

    const other = interruption();
    const shown = await interrupt(words(), { ...other, environment: { NODE_OPTIONS: CLAIM_TERMINAL } });
    expect(shown.code, `${other.about}: ${shown.stderr}`).toBe(other.code);
    expect(shown.stderr, other.about).not.toMatch(MODE);
    expect(shown.stderr, other.about).toMatch(/\n$/);
    await expectNothingLeft();
  },
);

test('a second signal, a second later, ends what does not end by itself, and leaves nothing', async () => {
  void proxy.answer(Number.POSITIVE_INFINITY);
  const stalled = proxy.answer(6);
  const words = ['append', log, edits, '--json', ...place.words];
  const child = startCli(words, { DYNAMODB_ENDPOINT: proxy.endpoint, TMPDIR: temporary });
  const closed = once(child, 'close');
  await stalled;
  child.kill('SIGINT');
  // It may have ended meanwhile, which is as good.
  await Promise.race([closed, sleep(1_500)]);
  child.kill('SIGINT');
  await closed;
  expect(child.exitCode).toBe(130);
  await expectNothingLeft();
});
