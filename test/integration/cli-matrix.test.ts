import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { makeProgram } from '../../src/cli/program.ts';
import { ensureFeedTable, ensureSegmentTable, ensureTables } from '../../src/local/tables.ts';
import { claimBucket } from '../../src/mapping/bucket-claim.ts';
import { type Answer, end, runCli, startCli } from '../support/cli.ts';
import { CliPlace, expectNoTrace } from '../support/cli-place.ts';
import { ORDERS_DOCUMENT } from '../support/orders.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { ORDERS as ORDERS_MAPPING } from '../support/stores/mapped-logs.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

/** A run of a command in the script below. */
interface Step {
  readonly words: readonly string[];
  readonly input?: string;
  /** Whether `--json` prints one document per line. */
  readonly streams?: boolean;
}

const set = (time: number, ...cells: readonly unknown[]) => JSON.stringify({ op: 'set', time, cells });
const TIME = 1_700_000_000;
const BODY = 'x'.repeat(20_000);
const ORDERS = ['--entry-table', 'orders', '--segment-table', 'order-segments', '--mapping', 'MAPPING'];
const REVISIONS = ['--entry-table', 'revisions', '--segment-table', 'revision-segments'];
const PLAIN = [...REVISIONS, '--table', 'orders'];
const FEED = ['--feed-table', 'Feed'];
const KEEP = ['--keep-segments', '1', '--keep-days', '0'];

/**
 * Runs every command at least once, in an order in which each has something to do. LOG, FILE, CSV
 * and MAPPING stand for the log and for files.
 */
const SCRIPT: readonly Step[] = [
  { words: ['create'] },
  {
    words: ['append', 'LOG', '-'],
    input: [set(TIME, [0, 0, 'a'], [0, 1, BODY]), set(TIME + 60, [0, 0, 'b'])].join('\n'),
  },
  { words: ['snapshot', 'LOG'] },
  { words: ['work', '--until-idle'] },
  { words: ['append', 'LOG', 'FILE'] },
  { words: ['segment', 'LOG'] },
  { words: ['append', 'LOG', '-'], input: set(TIME + 180, [1, 1, 'd']) },
  { words: ['work', '--until-idle'] },
  { words: ['import', 'LOG', 'CSV'] },
  { words: ['work', '--until-idle'] },
  { words: ['attributes', 'LOG', '--set', '{"owner":"ann"}', '--if-absent', 'owner'] },
  { words: ['attributes', 'LOG'] },
  { words: ['status'] },
  { words: ['status', 'LOG'] },
  { words: ['list'] },
  { words: ['entries', 'LOG', '--from', 'start'], streams: true },
  { words: ['snapshots', 'LOG'] },
  { words: ['export', 'LOG'] },
  { words: ['export', 'LOG', '--at', '0/2'] },
  { words: ['export', 'LOG', '--at', '2023-11-14T22:14:30Z'] },
  { words: ['view', 'LOG', '--rows', '0:3', '--columns', '0:3'] },
  { words: ['state', 'LOG'] },
  { words: ['state', 'LOG', '--map', 'cells', '--limit', '2'] },
  { words: ['history', 'LOG', '--cell', '0:0'] },
  { words: ['diff', 'LOG', '0/2', '1/2'] },
  { words: ['replay', 'LOG'] },
  { words: ['verify', 'LOG'] },
  { words: ['flush', 'LOG'] },
  { words: ['policy', 'LOG', '--keep-days', '3'] },
  { words: ['policy'] },
  { words: ['policy', 'LOG', '--clear'] },
  { words: ['archive', 'LOG', '0'] },
  { words: ['expire', 'LOG', '0', ...KEEP, '--expire', 'delete', '--grace', '0s', '--capacity-share', '1'] },
  { words: ['export', 'LOG', '--at', '0/2'] },
  { words: ['restore', 'LOG', '0', '--capacity-share', '1'] },
  { words: ['collect', 'LOG', '--grace', '0s'] },
  { words: ['sweep', ...KEEP] },
  { words: ['resume', 'LOG'] },
  { words: ['verify', 'LOG'] },
  { words: ['inspect', 'orders'] },
  { words: ['adopt', ...ORDERS] },
  { words: ['status', ...ORDERS] },
  { words: ['table', 'compare', ...PLAIN, '--wait', '0s', '--per', 'partition'] },
  { words: ['table', 'revisions', '{"pk":"order#0","sk":0}', ...PLAIN] },
  { words: ['table', 'export', ...PLAIN], streams: true },
  { words: ['sweep', ...KEEP, ...FEED] },
  { words: ['feed', ...FEED], streams: true },
  { words: ['feed', '--group', 'search', ...FEED], streams: true },
  { words: ['feed', '--groups', ...FEED] },
  { words: ['feed', '--rebuild', ...FEED] },
  { words: ['feed', '--from', '2', ...FEED], streams: true },
  { words: ['status', 'feed', ...FEED] },
  { words: ['completion', 'bash'] },
];

/** Commands that the script does not run. */
const OWN_TESTS = ['engine'];

const names = makeProgram().commands.map((command) => command.name());

test('the script runs every command', () => {
  const run = new Set(SCRIPT.map(({ words }) => words[0]));
  expect(names.filter((name) => !run.has(name)).sort()).toEqual(OWN_TESTS);
  expect([...run].filter((name = '') => !names.includes(name))).toEqual([]);
});

let directory: string;
let aws: LocalAws;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'logfold-matrix-'));
  aws = await startLocalAws();
  await writeFile(file('FILE'), set(TIME + 120, [0, 0, 'c'], [2, 2, 'e']));
  await writeFile(file('CSV'), 'f,g\nh,"i, j"\n');
  await writeFile(file('MAPPING'), JSON.stringify(ORDERS_DOCUMENT));
});
afterAll(async () => {
  await aws.stop();
  await rm(directory, { recursive: true });
});

function file(name: string): string {
  return join(directory, name === 'CSV' ? 'data.csv' : `${name.toLowerCase()}.json`);
}

/** The words and the environment that lead a command to a place. */
interface Way {
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** An empty place in which the script runs. */
interface World extends Way {
  readonly place: CliPlace;
  /** To the other directory or bucket that mapped logs need. */
  readonly mapped: Way;
  readonly close: () => Promise<void>;
}

async function openLocal(): Promise<World> {
  const [place, other] = [await CliPlace.open(), await CliPlace.open()];
  for (const each of [place, other]) await putOrders(each);
  const environment = {};
  const close = async () => {
    await place.close();
    await other.close();
  };
  return { place, words: place.words, environment, mapped: { words: other.words, environment }, close };
}

/** DynamoDB, S3 and their streams at endpoints of AWS clients. */
async function openAws(bucket: string): Promise<World> {
  const place = await CliPlace.open();
  await putOrders(place);
  const other = `${bucket}-orders`;
  for (const each of [bucket, other]) await aws.s3.send(new CreateBucketCommand({ Bucket: each }));
  await withClient(place, async (client) => {
    await ensureTables(client, { entryTable: 'Entry', segmentTable: 'Segment' });
    await ensureSegmentTable(client, 'order-segments');
    await ensureFeedTable(client, 'Feed');
  });
  const environment = {
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_ENDPOINT_URL_S3: aws.server.address,
    DYNAMODB_ENDPOINT: place.endpoint,
    LOGFOLD_ENTRY_TABLE: 'Entry',
    LOGFOLD_SEGMENT_TABLE: 'Segment',
    LOGFOLD_BUCKET: bucket,
  };
  const mapped = { words: [], environment: { ...environment, LOGFOLD_BUCKET: other } };
  return { place, words: [], environment, mapped, close: () => place.close() };
}

async function putOrders(place: CliPlace): Promise<void> {
  await withClient(place, async (client) => {
    await createItemTable(client, 'orders', { stream: 'NEW_IMAGE' });
    await ensureTables(client, { entryTable: 'revisions', segmentTable: 'revision-segments' });
    for (let n = 0; n < 12; n++) {
      const Item = {
        pk: { S: `order#${n % 3}` },
        sk: { N: String(Math.floor(n / 3)) },
        type: { S: 'Set' },
        ts: { S: new Date((TIME + n) * 1000).toISOString() },
        payload: { L: [{ L: [{ N: '0' }, { N: '0' }, { S: `order ${n}` }] }] },
      };
      await client.send(new PutItemCommand({ TableName: 'orders', Item }));
    }
  });
}

async function withClient(place: CliPlace, use: (client: DynamoDBClient) => Promise<void>): Promise<void> {
  const client = new DynamoDBClient(clientConfig(place.endpoint));
  try {
    await use(client);
  } finally {
    client.destroy();
  }
}

/** An answer and what two worlds must have in common of it. */
interface Outcome {
  readonly words: string;
  readonly answer: Answer;
  readonly common: unknown;
}

/** Runs the script. Every process has pipes instead of a terminal, and no controlling terminal. */
async function runScript(world: World, format: 'json' | 'text'): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  let log = '';
  try {
    for (const step of SCRIPT) {
      const own = step.words.map((word) =>
        word === 'LOG' ? log : /^(?:FILE|CSV|MAPPING)$/.test(word) ? file(word) : word,
      );
      const { words, environment } = step.words.includes('--mapping') ? world.mapped : world;
      const all = [...own, ...words, ...(format === 'json' ? ['--json'] : [])];
      const answer = await runCli(all, {
        environment,
        detached: true,
        ...(step.input !== undefined && { input: step.input }),
      });
      log ||= /[0-9a-f-]{36}/.exec(answer.stdout)?.[0] ?? '';
      const hide = (text: string): string =>
        text
          .replaceAll(log, 'LOG')
          // Against AWS, no command needs the option.
          .replaceAll(/--local \S*logfold-cli-\w+ /g, '')
          .replaceAll(/\S*logfold-cli-\w+/g, 'DIRECTORY');
      const common =
        format === 'json' ? documentsOf(answer, step).map((each) => withoutChance(each, hide)) : textOf(answer, hide);
      outcomes.push({ words: step.words.join(' '), answer, common });
    }
  } finally {
    await world.close();
  }
  return outcomes;
}

function documentsOf({ stdout }: Answer, { streams = false }: Step): readonly unknown[] {
  const lines = stdout.trimEnd().split('\n');
  return (streams ? lines : [stdout]).map((line) => {
    try {
      const document: unknown = JSON.parse(line);
      return document;
    } catch {
      return `no document: ${line}`;
    }
  });
}

/**
 * Names of sizes, and of a count: without a directory for checkpoints, the pipeline reads old
 * records again.
 */
const SIZES = /bytes|stored|present/i;

/** Replaces times, sizes and hashes, which differ between two logs with the same content. */
function withoutChance(value: unknown, hide: (text: string) => string, name = ''): unknown {
  if (typeof value === 'number') return isTime(value) ? 'a time' : SIZES.test(name) ? 'a size' : value;
  if (typeof value === 'string') return hideChance(hide(value));
  if (Array.isArray(value)) return value.map((item) => withoutChance(item, hide, name));
  if (typeof value !== 'object' || value === null) return value;
  // An entry has no milliseconds if its second has just begun.
  const fixed = Object.entries(value).filter(([key]) => key !== 'milliseconds');
  return Object.fromEntries(fixed.map(([key, item]) => [key, withoutChance(item, hide, key)]));
}

function isTime(number: number): boolean {
  // Times that the script gives are not random.
  return number > TIME + 10_000 && number < 2 * TIME;
}

function hideChance(text: string): string {
  return text
    .replaceAll(/\b[0-9a-f]{12,}\b/g, 'HEX')
    .replaceAll(/\b20(?:2[4-9]|[3-9]\d)-\d\d-\d\d[T ][\d:.]+Z?/g, 'a time')
    .replaceAll(/\b[\d.]+ m?s\b/g, 'a while')
    .replaceAll(/[\d.,]+ (?:bytes?|[KMG]i?B|B)\b/g, 'a size');
}

/** The text for people, without widths of columns and the next commands, which name the place. */
function textOf({ stdout, stderr }: Answer, hide: (text: string) => string): string {
  return hideChance(hide(`${stdout}\n${stderr}`))
    .replaceAll(/[ ─]+/g, ' ')
    .replace(/Next steps:.*/s, '');
}

describe.each(['json', 'text'] as const)('every command, as %s', (format) => {
  let local: readonly Outcome[];
  let remote: readonly Outcome[];

  beforeAll(async () => {
    const worlds = [openLocal(), openAws(`sheets-${format}`)].map(async (world) => runScript(await world, format));
    [local = [], remote = []] = await Promise.all(worlds);
  });

  test.each(['local', 'AWS'])('succeeds without a terminal: %s', (name) => {
    for (const { words, answer } of name === 'local' ? local : remote) {
      expectNoTrace(answer);
      expect({ words, code: answer.code }, answer.stderr).toEqual({ words, code: 0 });
    }
  });

  test.each(['local', 'AWS'])('prints nothing but its answer: %s', (name) => {
    for (const [i, { words, answer }] of (name === 'local' ? local : remote).entries()) {
      if (format === 'json') {
        expect({ words, stderr: answer.stderr }).toEqual({ words, stderr: '' });
        for (const document of documentsOf(answer, SCRIPT[i] ?? { words: [] })) {
          expect({ words, document }).toEqual({ words, document: expect.objectContaining({}) });
        }
      } else {
        // No colors, no bars and no cursor movements.
        const [control] = /(?!\n)\p{Cc}/u.exec(answer.stdout + answer.stderr) ?? [];
        expect({ words, control }).toEqual({ words });
      }
    }
  });

  test('gives the same answer in both places', () => {
    const common = (outcomes: readonly Outcome[]) => outcomes.map(({ words, common }) => ({ words, common }));
    expect(common(remote)).toEqual(common(local));
  });
});

describe('engine', () => {
  test.each([[[]], [['--json']], [['--mapping', 'castore:orders', '--entry-table', 'orders', '--json']]])(
    'runs without a terminal in any directory until a signal ends it: %j',
    async (words) => {
      const data = await mkdtemp(join(directory, 'engine-'));
      const blobs = new FilesystemBlobStore(join(data, 'blobs'), { fsync: false });
      await claimBucket(blobs, { table: 'customers', mapping: ORDERS_MAPPING });
      const engine = startCli(['engine', '--local', data, ...words], {}, { detached: true });
      const output: string[] = [];
      await new Promise((resolve) => {
        engine.stdout?.on('data', (part) => resolve(output.push(String(part))));
        engine.on('exit', resolve);
      });
      await end(engine, 'SIGTERM');
      expect(output.join('')).toMatch(words.length === 0 ? /http:\/\/127/ : /^\{"endpoint":"http:.+\}\n$/);
    },
  );

  test('is for a local directory only', async () => {
    const answer = await runCli(['engine', '--json'], { detached: true });
    expect(answer).toMatchObject({ code: 2 });
    expect(JSON.parse(answer.stdout)).toMatchObject({ error: { code: 'USAGE' } });
  });
});
