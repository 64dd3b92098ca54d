import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseEditLine } from '../../src/cli/edit-line.ts';
import type { Value } from '../../src/codec/value.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { comparePositions } from '../../src/ids/position.ts';
import { findProcesses } from '../../src/local/processes.ts';
import { loadBody } from '../../src/log/body.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import { type Answer, runCli, runJson, startCli } from '../support/cli.ts';
import { CliPlace, expectNoTrace, refusalOf } from '../support/cli-place.ts';
import { EDITED_SHEET } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';

/** Forwards some number of requests to a server, and leaves later requests without an answer. */
class StallingProxy {
  readonly endpoint: string;
  /** Number of received requests. */
  requests = 0;
  readonly #server: Server;
  readonly #target: string;
  #answered = Number.POSITIVE_INFINITY;
  #stalled = Promise.withResolvers<void>();
  readonly #held = new Map<ServerResponse, IncomingMessage>();

  private constructor(server: Server, target: string, endpoint: string) {
    this.#server = server;
    this.#target = target;
    this.endpoint = endpoint;
  }

  static async start(target: string): Promise<StallingProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
    const proxy = new StallingProxy(server, target, `http://127.0.0.1:${address.port}`);
    server.on('request', (incoming, outgoing) => {
      proxy.requests++;
      if (proxy.requests > proxy.#answered) {
        proxy.#held.set(outgoing, incoming);
        proxy.#stalled.resolve();
        return;
      }
      proxy.#handOn(incoming, outgoing);
    });
    return proxy;
  }

  #handOn(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method, headers, url } = incoming;
    const onward = httpRequest(new URL(url ?? '/', this.#target), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  }

  /**
   * Counts from 0 again, and answers so many requests.
   * @returns a promise that resolves when one more request has come
   */
  answer(requests: number): Promise<void> {
    for (const outgoing of this.#held.keys()) outgoing.destroy();
    this.#held.clear();
    this.requests = 0;
    this.#answered = requests;
    this.#stalled = Promise.withResolvers();
    return this.#stalled.promise;
  }

  /** Forwards the requests without an answer and all later ones. */
  release(): void {
    this.#answered = Number.POSITIVE_INFINITY;
    for (const [outgoing, incoming] of this.#held) this.#handOn(incoming, outgoing);
    this.#held.clear();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

const OLD_NODE = `--import=${new URL('../programs/old-node.ts', import.meta.url).href}`;
const NPX = `--import=${new URL('../programs/npx.ts', import.meta.url).href}`;
const CLAIM_TERMINAL = `--import=${new URL('../programs/claim-terminal.ts', import.meta.url).href}`;
const HANDED_OVER = { NODE_OPTIONS: OLD_NODE };
/**
 * Sequences that set a mode of the terminal: cursor, line wrap, screen. The mode outlives the
 * program.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals use this character
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
  ['status', () => ['status']],
  ['list', () => ['list', '--newest']],
  ['view', () => ['view', log]],
  ['diff', () => ['diff', log, '0/1']],
  ['history', () => ['history', log, '--cell', '0:0']],
  ['export', () => ['export', log, '--csv', join(place.directory, 'never.csv')]],
  ['replay', () => ['replay', log]],
  ['verify', () => ['verify', log]],
  ['archive', () => ['archive', log, '1', '--dry-run']],
  ['restore', () => ['restore', log, '0']],
  ['collect', () => ['collect', log]],
  ['sweep', () => ['sweep', '--rebuild']],
  ['work --until-idle', () => ['work', '--until-idle']],
];

/** Commands that can change something. */
const WRITERS = ['restore', 'collect', 'sweep', 'work --until-idle'];

interface Interruption {
  /** The number of requests to the tables that are answered before the signal. */
  readonly answered: number;
  readonly signal: NodeJS.Signals;
  readonly environment?: Readonly<Record<string, string>>;
}

interface Running {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  /** Resolves when no process holds its output any more. */
  readonly ended: Promise<Answer>;
}

/** Starts a command, and resolves when it waits for an answer of the tables, or has ended. */
async function stall(words: readonly string[], options: Omit<Interruption, 'signal'>): Promise<Running> {
  const stalled = proxy.answer(options.answered);
  const child = startCli([...words, ...place.words], {
    ...options.environment,
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
  const ended = once(child, 'close').then(() => ({ code: child.exitCode, signal: child.signalCode, ...output }));
  await Promise.race([stalled, ended]);
  return { child, output, ended };
}

/** Interrupts a command while it waits for an answer of the tables. */
async function interrupt(words: readonly string[], { signal, ...options }: Interruption): Promise<Answer> {
  const { child, ended } = await stall(words, options);
  child.kill(signal);
  return ended;
}

/** The number of requests that a command sends to the tables if nothing interrupts it. */
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
  'a signal ends %s, which reports the signal and leaves neither files nor a terminal mode behind',
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
    // The pipeline prints its results instead of an error.
    if (name !== 'work --until-idle') expect(document.error?.code, one.about).toBe('INTERRUPTED');
    await expectNothingLeft();

    const other = interruption();
    const shown = await interrupt(words(), { ...other, environment: { NODE_OPTIONS: CLAIM_TERMINAL } });
    expect(shown.code, `${other.about}: ${shown.stderr}`).toBe(other.code);
    expect(shown.stderr, other.about).not.toMatch(MODE);
    expect(shown.stderr, other.about).toMatch(/\n$/);
    if (!WRITERS.includes(name)) expect(shown.stderr, other.about).not.toMatch(/chang/i);
    await expectNothingLeft();
  },
);

test('a signal ends work --until-idle, whichever request waits for its answer', async () => {
  const words = ['work', '--until-idle'];
  const requests = await requestsOf(words);
  for (let answered = 0; answered < requests; answered++) {
    const said = await interrupt([...words, '--json'], { answered, signal: 'SIGTERM' });
    expect(said.code, `after ${answered} of ${requests} requests: ${said.stderr}`).toBe(143);
  }
});

describe('append', () => {
  const LINES = Array.from({ length: 300 }, (_, row) => JSON.stringify({ op: 'set', cells: [[row, 0, `row ${row}`]] }));
  let file: string;
  /** Requests of an append before it appends its first line. */
  let before: number;

  beforeAll(async () => {
    file = join(place.directory, 'lines.ndjson');
    await writeFile(file, LINES.join('\n'));
    const blank = join(place.directory, 'blank.ndjson');
    await writeFile(blank, '\n');
    before = await requestsOf(['append', await place.log(), blank]);
  });

  /**
   * Starts an append to a new log, and resolves when the request of a line waits for its answer.
   */
  async function stallLine(words: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    const own = await place.log();
    const answered = before + new Random(seed).integer(1, 40);
    const command = ['append', own, file, ...words];
    return { log: own, command, ...(await stall(command, { answered, environment })) };
  }

  /** The line that an interrupted append waits for. */
  async function lineInFlight({ child, output, ended }: Running): Promise<number> {
    for (;;) {
      const said = /Line (\d+) is being appended/.exec(output.stderr);
      if (said !== null) return Number(said[1]);
      if (child.stderr === null) throw new Error('the command has no standard error');
      const over = await Promise.race([once(child.stderr, 'data').then(() => undefined), ended]);
      if (over !== undefined) throw new Error(`the command ended and named no line: ${over.stderr}`);
    }
  }

  /** The bodies of these lines, in order. */
  const bodiesOf = (lines: readonly string[]) =>
    lines.map((text, i) => {
      const line = parseEditLine(text, i + 1, EDITED_SHEET);
      return line.kind === 'entry' ? line.entry.body : undefined;
    });

  async function bodiesIn(own: LogId): Promise<readonly Value[]> {
    const entries = (await place.items()).map(decodeEntry).filter((entry) => entry.log === own && entry.type === 'Set');
    const ordered = entries.toSorted((a, b) => comparePositions(a.position, b.position));
    return Promise.all(ordered.map((entry) => loadBody(place.blobs, entry)));
  }

  test.each([
    {
      starter: 'an older Node that handed over',
      signal: 'SIGKILL',
      told: 'SIGHUP',
      code: null,
      environment: HANDED_OVER,
    },
    {
      starter: 'an older Node that handed over',
      signal: 'SIGHUP',
      told: 'SIGHUP',
      code: 129,
      environment: HANDED_OVER,
    },
    {
      starter: 'an older Node that handed over',
      signal: 'SIGINT',
      told: 'SIGINT',
      code: 130,
      environment: HANDED_OVER,
    },
    {
      starter: 'an older Node that handed over',
      signal: 'SIGTERM',
      told: 'SIGTERM',
      code: 143,
      environment: HANDED_OVER,
    },
    { starter: 'npx', signal: 'SIGKILL', told: 'SIGHUP', code: null, environment: { NODE_OPTIONS: NPX } },
    {
      starter: 'npx before an older Node',
      signal: 'SIGKILL',
      told: 'SIGHUP',
      code: null,
      environment: { NODE_OPTIONS: NPX, PROGRAM_NODE_OPTIONS: OLD_NODE },
    },
  ] as const)('finishes its current line if $starter gets $signal', async ({ signal, told, code, environment }) => {
    const running = await stallLine([], environment);
    running.child.kill(signal);
    const line = await lineInFlight(running);
    proxy.release();

    const answer = await running.ended;
    expect(answer.code, `seed ${seed}: ${answer.stderr}`).toBe(code);
    expect(answer.stderr).toContain(`INTERRUPTED: ${told} ended the command after line ${line} `);
    expect(answer.stderr).toContain(`Continue with line ${line + 1}.\n`);
    expectNoTrace(answer);
    expect(await findProcesses([...running.command, ...place.words])).toEqual([]);
    expect(await bodiesIn(running.log)).toEqual(bodiesOf(LINES.slice(0, line)));

    await runJson(['append', running.log, '-', ...place.words], LINES.slice(line).join('\n'));
    expect(await bodiesIn(running.log)).toEqual(bodiesOf(LINES));
    await expectNothingLeft();
  });

  test('names the line to continue with in JSON', async () => {
    const running = await stallLine(['--json']);
    running.child.kill('SIGTERM');
    proxy.release();
    const answer = await running.ended;
    expect(answer.code, `seed ${seed}: ${answer.stderr}`).toBe(143);
    const { code, message, advice } = refusalOf(answer);
    expect(code).toBe('INTERRUPTED');
    const line = Number(/after line (\d+) /.exec(message)?.[1]);
    expect(advice).toBe(`Continue with line ${line + 1}`);
    expect(await bodiesIn(running.log)).toEqual(bodiesOf(LINES.slice(0, line)));
    await expectNothingLeft();
  });

  test('ends immediately at a signal before the first line', async () => {
    const own = await place.log();
    const { code, stderr } = await interrupt(['append', own, file], { answered: before - 1, signal: 'SIGINT' });
    expect(code, stderr).toBe(130);
    expect(stderr).toContain('nothing was appended');
    expect(await bodiesIn(own)).toEqual([]);
    await expectNothingLeft();
  });

  test('ends immediately at a second signal, a second later, and names the line in doubt', async () => {
    const running = await stallLine([]);
    running.child.kill('SIGINT');
    const line = await lineInFlight(running);
    await sleep(1_500);
    running.child.kill('SIGINT');
    const answer = await running.ended;
    expect(answer.code, `seed ${seed}: ${answer.stderr}`).toBe(130);
    expect(answer.stderr).toContain(`and may have line ${line}`);
    expectNoTrace(answer);
    expect(await bodiesIn(running.log)).toEqual(bodiesOf(LINES.slice(0, line - 1)));
    await expectNothingLeft();
  });

  test('names the line that failed', async () => {
    const own = await place.log();
    const input = [LINES[0], '', JSON.stringify({ op: 'segment' }), LINES[1]].join('\n');
    const { message } = refusalOf(await runCli(['append', own, '-', '--json', ...place.words], { input }));
    expect(message).toMatch(/^line 3: /);
    expect(await bodiesIn(own)).toEqual(bodiesOf(LINES.slice(0, 1)));
  });
});
