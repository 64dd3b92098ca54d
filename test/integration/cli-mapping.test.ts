import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { DynamoDBClient, ListTablesCommand, PutItemCommand, UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEngine } from '../../src/local/data-directory.ts';
import { ensureSegmentTable } from '../../src/local/tables.ts';
import type { Item } from '../../src/log/attribute.ts';
import { CLAIM_KEY, MAPPING_KEY } from '../../src/store/keys.ts';
import { end, runCli, runJson, startCli } from '../support/cli.ts';
import { CliPlace, expectNoTrace, refusalOf } from '../support/cli-place.ts';
import { EXPIRING_ORDERS } from '../support/orders.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

const TABLE = 'orders';

let place: CliPlace;
let directory: string;
let db: DynamoDBClient;

beforeAll(async () => {
  place = await CliPlace.open();
  directory = await mkdtemp(join(tmpdir(), 'logfold-mapping-'));
  db = new DynamoDBClient(clientConfig(place.endpoint));
  await createTable(TABLE);
  await db.send(
    new UpdateTimeToLiveCommand({
      TableName: TABLE,
      TimeToLiveSpecification: { Enabled: true, AttributeName: 'expiresAt' },
    }),
  );
  for (const id of ['1', '2']) for (let n = 0; n < 25; n++) await put(event(id, n));
  await put({ pk: { S: 'customer#7' }, sk: { N: '0' }, name: { S: 'Ada' } });
});
afterAll(async () => {
  db.destroy();
  await place.close();
  await rm(directory, { recursive: true });
});

/** Lets the directory belong to another table. */
async function releaseBucket(): Promise<void> {
  await place.blobs.delete([CLAIM_KEY, MAPPING_KEY]);
}

function createTable(name: string): Promise<string> {
  return createItemTable(db, name, { stream: 'NEW_IMAGE' });
}

async function put(item: Item): Promise<void> {
  await db.send(new PutItemCommand({ TableName: TABLE, Item: item }));
}

function event(id: string, number: number, overrides: Item = {}): Item {
  return {
    pk: { S: `order#${id}` },
    sk: { N: String(number) },
    type: { S: number === 0 ? 'OrderPlaced' : 'OrderPaid' },
    ts: { S: new Date(1_767_225_600_000 + number * 1000).toISOString() },
    payload: { M: { amount: { N: String(number) } } },
    ...overrides,
  };
}

const UUID = '0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f';

describe('inspect', () => {
  test('proposes the mapping of the events, writes it into a file, and writes nothing to the table', async () => {
    const before = await place.items(TABLE);
    const file = join(directory, 'proposed.json');
    const found = await place.json('inspect', TABLE, '--output', file);
    expect(found).toMatchObject({
      table: TABLE,
      keys: { partition: { name: 'pk', type: 'S' }, sort: { name: 'sk', type: 'N' } },
      ttl: 'expiresAt',
      stream: 'NEW_IMAGE',
      recognized: null,
      kinds: [
        { partitionKey: 'order#{id}', sortKey: 'a number', items: 50, partitions: 2, isLog: true },
        { partitionKey: 'customer#{id}', items: 1, example: 'customer#7, 0', isLog: false },
      ],
      mapping: EXPIRING_ORDERS,
      misfits: [],
      parameters: {
        Mapping: JSON.stringify(EXPIRING_ORDERS),
        StreamFilter: '{"eventName":["INSERT"],"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"order#"}]}}}}',
      },
    });
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(EXPIRING_ORDERS);
    expect(await place.items(TABLE)).toEqual(before);
    const written = join(directory, 'mapping.json');
    const { stdout } = await runCli(['inspect', TABLE, '--output', 'mapping.json', ...place.words], { cwd: directory });
    expect(await readFile(written, 'utf8')).toContain('order#{id}');
    expect(stdout).toMatch(/^ {2}1\. Check the mapping\.$/m);
    expect(stdout).not.toContain('--output');
  });

  test('reads no more items than it may, and prints the next steps', async () => {
    const words = ['inspect', TABLE, '--sample', '8', '--partitions', '1', ...place.words];
    const answer = await runCli(words);
    expectNoTrace(answer);
    expect(answer).toMatchObject({ code: 0 });
    expect(answer.stdout).toContain('Proposed mapping:');
    // The scan reads one item of each of 8 parts, and the query 8 items.
    const [, items = ''] = /│ (\d+) +│ \d+ +│ order#/.exec(answer.stdout) ?? [];
    expect(Number(items)).toBeLessThanOrEqual(16);
  });

  test.each([
    { kind: 'a file', isReadyMade: false, sampled: '', overrides: { by: { S: 'Ann' }, payload: { S: '{}' } } },
    { kind: 'a ready-made mapping', isReadyMade: true, sampled: '--sample 500', overrides: {} },
  ])('prints steps with $kind that can be pasted, and that lead to snapshots', async (given) => {
    const { isReadyMade, sampled, overrides } = given;
    // The bucket of the other tests belongs to another mapping.
    const own = await mkdtemp(join(tmpdir(), "logfold's steps "));
    const programs = join(own, 'programs');
    await mkdir(programs);
    await symlink(join(import.meta.dirname, '../../bin/logfold.mjs'), join(programs, 'logfold'));
    const PATH = `${programs}:${dirname(process.execPath)}:${process.env.PATH}`;
    const paste = async (script: string) =>
      promisify(execFile)('sh', ['-e', '-c', script], { cwd: own, env: { PATH } });
    try {
      const { engine, dynamodb } = await openEngine(join(own, 'data of orders'), { creates: true });
      await createItemTable(dynamodb, TABLE, { stream: 'NEW_IMAGE' });
      const items = Array.from({ length: 101 }, (_, n) => event('1', n, overrides));
      for (const Item of items) await dynamodb.send(new PutItemCommand({ TableName: TABLE, Item }));
      dynamodb.destroy();
      await engine.leave();
      const { stdout: printed } = await paste(`logfold inspect ${TABLE} ${sampled} --local 'data of orders'`);
      expect(printed.includes('The ready-made mapping --mapping pk-sk:order fits.')).toBe(isReadyMade);
      const [, steps = ''] = printed.split('Next steps:');
      expect(steps).toContain('first snapshot of a log is due after 100 entries; a log with fewer gets none yet.');
      const commands = steps.match(/^ {7}.*$/gm) ?? [];
      expect(commands.length).toBe(isReadyMade ? 4 : 5);
      // The last one runs until it is interrupted.
      const wait = 'WORK=$!; until grep -q Working said; do sleep 0.1; done; kill -TERM $WORK; wait $WORK';
      const last = `${commands.pop()} 2> said & ${wait}`;
      const { stdout } = await paste(commands.join('\n'));
      expect(stdout).toContain('1 log found in the table, 1 with newly recorded segments');
      expect(stdout).toContain(
        'builds the snapshots that are due, the first of a log after 100 entries. Segments of earl',
      );
      expect(stdout).toContain('snapshot 1 0/101: 101 entries');
      expect(await paste(last).catch((error: unknown) => error)).toMatchObject({ code: 143 });
    } finally {
      await rm(own, { recursive: true });
    }
  });

  test('a directory that belongs to a mapping gets no table of other logs', async () => {
    const own = await mkdtemp(join(tmpdir(), 'logfold-mapped-'));
    try {
      const { engine, dynamodb } = await openEngine(own, { creates: true });
      const tables = async () => (await dynamodb.send(new ListTablesCommand({}))).TableNames;
      await createItemTable(dynamodb, TABLE, { stream: 'NEW_IMAGE' });
      await dynamodb.send(new PutItemCommand({ TableName: TABLE, Item: event('1', 0) }));
      await runJson(['adopt', '--mapping', 'pk-sk:order', '--entry-table', TABLE, '--local', own]);
      expect(await tables()).toEqual(['Segment', TABLE]);
      for (const words of [
        ['create'],
        ['list'],
        ['status'],
        ['work', '--until-idle'],
        ['table', 'compare', '--table', TABLE],
        ['table', 'export'],
        ['table', 'revisions', '{"pk":"order#1","sk":0}', '--table', TABLE],
      ]) {
        const refusal = refusalOf(await runCli([...words, '--json', '--local', own]));
        expect({ words, code: refusal.code }).toEqual({ words, code: 'BUCKET_TAKEN' });
      }
      expect(await tables()).toEqual(['Segment', TABLE]);
      dynamodb.destroy();
      await engine.leave();
    } finally {
      await rm(own, { recursive: true });
    }
  });

  test('the steps for a stack leave open the names that the stack chooses', async () => {
    const [AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY] = ['us-east-1', 'key', 'secret'];
    const environment = { AWS_ENDPOINT_URL: place.endpoint, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY };
    const { stdout } = await runCli(['inspect', TABLE], { environment });
    expect(stdout).toContain('with SegmentTableName and BucketName of the outputs of the stack');
    expect(stdout).toContain('--segment-table SEGMENT_TABLE --bucket BUCKET');
  });

  test('adopted logs are not folded until somebody names a reducer', async () => {
    const named = [
      '--entry-table',
      TABLE,
      '--segment-table',
      'unnamed-segments',
      '--mapping',
      join(directory, 'm.json'),
    ];
    await writeFile(join(directory, 'm.json'), JSON.stringify(EXPIRING_ORDERS));
    await runCli(['adopt', '--snapshot-every-entries', '10', ...named, ...place.words]);
    const answer = await runCli(['sweep', '--log', '1', ...named, ...place.words]);
    expect(answer).toMatchObject({ code: 1 });
    expect(answer.stdout).toContain('REDUCER_FOREIGN');
    const status = await place.json('status', '1', ...named);
    expect(status).toMatchObject({ logs: [{ log: '1', stopped: null, lastSnapshot: null }] });
    await place.blobs.delete([CLAIM_KEY]);
  });

  test('points to revisions for a table without logs', async () => {
    const { engine, dynamodb } = await openEngine(place.directory, { creates: false });
    await createItemTable(dynamodb, 'prices', { stream: 'NEW_AND_OLD_IMAGES' });
    await dynamodb.send(new PutItemCommand({ TableName: 'prices', Item: { pk: { S: 'bolt' }, sk: { N: '0.5' } } }));
    dynamodb.destroy();
    await engine.leave();
    const { code, stdout } = await runCli(['inspect', 'prices', ...place.words]);
    expect(code).toBe(1);
    expect(stdout).toContain('For a plain table, see --revisions-of of the command work');
  });

  test("recognizes logfold's own tables", async () => {
    const answer = await runCli(['inspect', 'Entry', '--json', ...place.words]);
    expect(answer.code).toBe(1);
    expect(JSON.parse(answer.stdout)).toMatchObject({ recognized: "logfold's Entry table", mapping: null });
  });

  test('refuses a table that does not exist', async () => {
    const [refusal] = await place.refusals(['inspect', 'nowhere']);
    expect(refusal).toMatchObject({ code: 'RESOURCE_MISSING', message: expect.stringContaining("table 'nowhere'") });
  });
});

const REDUCER = `export default { name: 'orders', version: 1, async fold(draft, { type }) {
  const counts = draft.map('counts', 'string');
  counts.put(type, Number((await counts.get(type)) ?? 0) + 1);
} };`;

/** Items of a log of 25 items make three full segments and a fourth. */
const SIZES = ['--snapshot-every-entries', '4', '--segment-every-entries', '8'];

describe('the commands on mapped logs', () => {
  /** Options that each command needs for the application's table. */
  let words: readonly string[];
  let original: readonly string[];

  beforeAll(async () => {
    const [mapping, reducer] = [join(directory, 'mapping.json'), join(directory, 'orders.mjs')];
    await writeFile(mapping, JSON.stringify(EXPIRING_ORDERS));
    await writeFile(reducer, REDUCER);
    words = ['--entry-table', TABLE, '--segment-table', 'order-segments', '--mapping', mapping, '--reducer', reducer];
    original = await itemsOf(TABLE);
  });

  /** Each item of a table as text, in order. */
  async function itemsOf(table: string): Promise<string[]> {
    const items = await place.items(table);
    return items.map((item) => JSON.stringify(Object.entries(item).sort())).sort();
  }

  const json = (...command: readonly string[]) => place.json(...command, ...words);

  /** Runs a command without `--json`. @returns what it prints */
  async function text(...command: readonly string[]): Promise<string> {
    const answer = await runCli([...command, ...words, ...place.words]);
    expectNoTrace(answer);
    expect(answer, answer.stderr).toMatchObject({ code: 0 });
    return answer.stdout;
  }

  test('adopt registers the logs of the table, once', async () => {
    const found = { logs: 2, unfit: 0, failed: 0, continued: false, complete: true, failures: [] };
    expect(await json('adopt', '--read-units', '1000', ...SIZES)).toEqual({ ...found, registered: 2 });
    expect(await json('adopt', ...SIZES)).toEqual({ ...found, registered: 0 });
    expect(await text('adopt', ...SIZES)).toContain('2 logs found in the table, 0 with newly recorded segments');
    expect(await json('adopt', '1', ...SIZES)).toEqual({ log: '1', recorded: 0 });
    expect(await text('adopt', '2', ...SIZES)).toBe('2 was registered before\n');
  });

  test('work builds the snapshots that are due, and status shows them', async () => {
    const worked = await json('work', '--until-idle', ...SIZES);
    expect(worked).toMatchObject({ stopped: [], failures: [] });
    await json('sweep', '--log', '1', ...SIZES);
    const status = { segments: 4, lastSnapshot: { segment: 3, entry: 0 }, stopped: null };
    expect(await json('status', '1')).toMatchObject({ logs: [{ log: '1', ...status }], failures: [] });
    expect(await text('status')).toMatch(/│ 2 +│ \d+ +│ [^│]+│ \d+ +│ - +│ 4 /);
  });

  test.each([
    ['export', ['export', '1'], { log: '1' }, '"key":"OrderPaid","value":24'],
    ['state', ['state', '1', '--map', 'counts'], { map: 'counts' }, 'OrderPaid'],
    ['replay', ['replay', '1'], { log: '1', equal: true }, 'equals the stored state at 3/0'],
    ['verify', ['verify', '1'], { log: '1', problems: [] }, 'nothing is missing'],
    ['collect', ['collect', '1', '--dry-run'], { log: '1', dryRun: true }, 'kept'],
    ['flush', ['flush', '1'], { log: '1' }, 'flush 1 3/0: '],
    ['policy', ['policy', '1', '--keep-segments', '2'], { policies: [{ log: '1', own: { keepSegments: 2 } }] }, '2'],
    ['resume', ['resume', '1'], { log: '1', position: null }, ' builds the snapshot that is due'],
    ['sweep', ['sweep', '--log', '1', '--dry-run'], { failures: [] }, '0 failed'],
    ['archive', ['archive', '1', '2', '--dry-run'], { segments: [{ segment: 2, outcome: 'would archive' }] }, '11'],
  ] as const)('%s works, for people and for programs', async (_, command, document, shown) => {
    expect(await json(...command)).toMatchObject(document);
    expect(await text(...command)).toContain(shown);
    // No command so far has written to the application's table.
    expect(await itemsOf(TABLE)).toEqual(original);
  });

  test('a segment is archived, expires by TTL, and comes back byte for byte', async () => {
    for (const segment of ['0', '1', '2']) await json('archive', '1', segment);
    expect(await text('archive', '1', '0')).toContain('segment 0: already archived');
    expect(await json('expire', '1', '0', '--expire', 'ttl', '--grace', '0s')).toMatchObject({ log: '1' });
    const stamped = (await place.items(TABLE)).filter((item) => item.expiresAt !== undefined);
    expect(stamped.map(({ pk, sk }) => [pk?.S, Number(sk?.N)]).sort()).toEqual(
      Array.from({ length: 8 }, (_, n) => ['order#1', n]),
    );
    expect(await json('restore', '1', '0')).toMatchObject({ segment: 0, restored: 0, unexpired: 8 });
    expect(await itemsOf(TABLE)).toEqual(original);
  });

  test('a segment is deleted, and comes back byte for byte', async () => {
    await json('expire', '1', '1', '--expire', 'delete', '--grace', '0s');
    expect(await itemsOf(TABLE)).toHaveLength(original.length - 8);
    expect(await json('replay', '1')).toMatchObject({ equal: true });
    expect(await text('restore', '1', '1')).toContain('10 are put back');
    expect(await itemsOf(TABLE)).toEqual(original);
  });

  test('all archived segments of a log are restored into another table, byte for byte', async () => {
    await createTable('copy');
    const into = ['--to-entry-table', 'copy', '--to-segment-table', 'copy-segments'];
    expect(await json('restore', '1', '--dry-run', ...into)).toMatchObject({ created: ['copy-segments'] });
    expect(await place.items('copy')).toEqual([]);
    expect(await json('restore', '1', ...into)).toMatchObject({
      segments: [{ segment: 0 }, { segment: 1 }, { segment: 2 }],
      created: ['copy-segments'],
    });
    const archived = original.filter((item) => item.includes('"order#1"') && !item.includes('"N":"24"}]'));
    expect(await itemsOf('copy')).toEqual(archived);
    expect(await itemsOf(TABLE)).toEqual(original);
  });
});

describe('a directory that belongs to a mapping', () => {
  test('refuses commands without the mapping, and changes nothing', async () => {
    const commands = [['create'], ['list'], ['status'], ['sweep'], ['work', '--until-idle'], ['collect', UUID]];
    const found = await place.refusals(...commands);
    expect(found).toEqual(
      commands.map(() =>
        expect.objectContaining({
          code: 'BUCKET_TAKEN',
          message: expect.stringContaining("holds the logs of table 'orders' with keys 'pk: order#{id}'"),
          advice: expect.stringContaining("Give --mapping FILE and --entry-table 'orders'"),
        }),
      ),
    );
  });

  test('refuses a mapping that gives other entries', async () => {
    const other = join(directory, 'other-body.json');
    await writeFile(other, JSON.stringify({ ...EXPIRING_ORDERS, body: { item: true } }));
    const words = ['--entry-table', TABLE, '--segment-table', 'order-segments', '--mapping', other];
    const found = await place.refusals(...[['restore', '1'], ['status'], ['adopt']].map((each) => [...each, ...words]));
    expect(found).toEqual(
      found.map(() =>
        expect.objectContaining({
          code: 'MAPPING_DIFFERS',
          message: expect.stringMatching(/'body' is \{"name":"payload",.*\} there and \{"item":true\} here/),
          advice: expect.stringMatching(/run 'logfold adopt --local .* --replace-mapping'/),
        }),
      ),
    );
  });

  test('takes a restored table by the commands of docs/operations.md', async () => {
    const page = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8');
    const [, block = ''] = /```sh\n(logfold adopt --move-claim.*?)```/s.exec(page) ?? [];
    const commands = block
      .trim()
      .replaceAll(/ \\\n */g, ' ')
      .split('\n');
    expect(commands).toHaveLength(3);
    const [mapping, reducer] = [join(directory, 'mapping.json'), join(directory, 'orders.mjs')];
    const tables = (entry: string, segment: string) => ['--entry-table', entry, '--segment-table', segment];
    const common = ['--mapping', mapping, '--reducer', reducer];
    const restored = [...tables('orders-2', 'segments-2'), ...common];
    await createTable('orders-2');
    await ensureSegmentTable(db, 'segments-2');
    for (const [from, to] of [
      [TABLE, 'orders-2'],
      ['order-segments', 'segments-2'],
    ] as const) {
      for (const Item of await place.items(from)) await db.send(new PutItemCommand({ TableName: to, Item }));
    }
    expect((await place.refusals(['status', ...restored]))[0]).toMatchObject({
      code: 'BUCKET_TAKEN',
      advice: expect.stringMatching(/run 'logfold adopt --local .* --move-claim'/),
    });
    for (const line of commands) {
      const here = line.replace(' --bucket BUCKET', '').replace('verify LOG', 'verify 1');
      const files = here.replace('mapping.json', mapping).replace('reducer.mjs', reducer);
      expect(files).toContain('--entry-table orders-2 --segment-table segments-2');
      const [program, ...command] = files.split(' ');
      expect(program).toBe('logfold');
      await place.json(...command);
    }
    // The pipeline registers new segments again.
    for (let n = 25; n < 34; n++) {
      await db.send(new PutItemCommand({ TableName: 'orders-2', Item: event('1', n) }));
    }
    await place.json('adopt', ...restored);
    await place.json('sweep', '--log', '1', ...restored);
    expect(await place.json('replay', '1', ...restored)).toMatchObject({ equal: true });
    const former = [...tables(TABLE, 'order-segments'), ...common];
    expect((await place.refusals(['status', ...former]))[0]).toMatchObject({ code: 'BUCKET_TAKEN' });
    await place.json('adopt', '--move-claim', ...former);
  });
});

test('adopt ends at a signal, and continues where it stopped', async () => {
  await releaseBucket();
  await createTable('large');
  const payload = { B: new Uint8Array(300_000) };
  // 8 items of 300 kB take minutes at one read unit per second.
  for (let id = 0; id < 8; id++) {
    await db.send(new PutItemCommand({ TableName: 'large', Item: event(String(id), 0, { payload }) }));
  }
  const file = join(directory, 'large.json');
  await writeFile(file, JSON.stringify(EXPIRING_ORDERS));
  const tables = ['--entry-table', 'large', '--segment-table', 'large-segments', '--mapping', file];
  const words = ['adopt', ...tables, '--json', ...place.words];
  const child = startCli([...words, '--read-units', '1']);
  let stdout = '';
  child.stdout?.on('data', (data: Buffer) => {
    stdout += data.toString();
  });
  const registered = async (): Promise<number> =>
    (await place.tableNames()).includes('large-segments') ? (await place.items('large-segments')).length : 0;
  while ((await registered()) < 8) await setTimeout(50);
  await end(child, 'SIGINT');
  expect(child.exitCode).toBe(130);
  expect(JSON.parse(stdout)).toMatchObject({ logs: 8, registered: 8, continued: false, complete: false });
  const again = await runCli(words);
  expect(JSON.parse(again.stdout)).toMatchObject({ logs: 0, continued: true, complete: true });
});

describe('errors', () => {
  let file: string;

  beforeAll(async () => {
    file = join(directory, 'errors.json');
    await writeFile(file, JSON.stringify(EXPIRING_ORDERS));
    await releaseBucket();
  });

  /** Runs commands that must fail and change neither tables nor objects of logfold. */
  const refusals = (...commands: readonly (readonly string[])[]) =>
    place.refusals(...commands.map((words) => [...words, '--entry-table', TABLE, '--segment-table', 'order-segments']));

  test('a mapping that cannot be used names its file and the wrong part', async () => {
    const [text, wrong] = [join(directory, 'text.json'), join(directory, 'wrong.json')];
    await writeFile(text, 'pk, sk');
    await writeFile(wrong, JSON.stringify({ ...EXPIRING_ORDERS, sortKey: { name: 'sk', type: 'N', first: 2 } }));
    const files = [join(directory, 'no-such-file.json'), text, wrong, 'dynamo'];
    expect(await refusals(...files.map((name) => ['status', '--mapping', name]))).toMatchObject([
      { code: 'USAGE', message: expect.stringMatching(/^--mapping: '.*no-such-file.json' cannot be read: .*ENOENT/) },
      { code: 'MAPPING_INVALID', message: expect.stringMatching(/text.json'.* not JSON/) },
      { code: 'MAPPING_INVALID', message: expect.stringMatching(/wrong.json'.*'sortKey.first'/) },
      { code: 'USAGE', message: expect.stringContaining("'dynamo' cannot be read") },
    ]);
  });

  test('a table without the keys of the mapping is refused', async () => {
    const other = join(directory, 'other.json');
    await writeFile(other, JSON.stringify({ ...EXPIRING_ORDERS, sortKey: { name: 'number', type: 'N', first: 0 } }));
    expect(await refusals(['status', '--mapping', other])).toMatchObject([
      {
        code: 'USAGE',
        message: expect.stringContaining(
          "table 'orders' has the keys pk (String) and sk (Number), but the mapping names pk (String) and number (Number)",
        ),
      },
    ]);
  });

  test('commands that append refuse, and change nothing', async () => {
    const before = await place.items(TABLE);
    const commands = [['create'], ['append', '1', '-'], ['snapshot', '1'], ['segment', '1']];
    const advice: unknown = expect.stringContaining("Append with your application's own code");
    expect(await refusals(...commands.map((words) => [...words, '--mapping', file]))).toEqual(
      commands.map(() => expect.objectContaining({ code: 'LOG_READ_ONLY', advice })),
    );
    expect(await place.items(TABLE)).toEqual(before);
  });

  test('an id that no key can have, and a log that does not exist, are refused', async () => {
    const ids = ['x'.repeat(2001), '', 'nobody'];
    const found = await refusals(...ids.map((id) => ['status', id, '--mapping', file]));
    expect(found.map(({ code }) => code)).toEqual(['LOG_ID_INVALID', 'LOG_ID_INVALID', 'LOG_NOT_FOUND']);
  });

  test('items that do not fit are named, and other logs go on', async () => {
    await releaseBucket();
    await createTable('broken');
    const { type: _, ...untyped } = event('untyped', 1);
    const items = [
      ...[0, 1, 2, 3, 4].map((n) => event('good', n)),
      ...[event('untyped', 0), untyped],
      ...[0, 1, 3].map((n) => event('gap', n)),
      { ...event('half', 0), sk: { N: '0.5' } },
      event('x'.repeat(2001), 0),
    ];
    for (const Item of items) await db.send(new PutItemCommand({ TableName: 'broken', Item }));
    const reducer = join(directory, 'orders.mjs');
    await writeFile(reducer, REDUCER);
    const words = ['--entry-table', 'broken', '--segment-table', 'broken-segments', '--mapping', file];
    const run = async (...command: readonly string[]) => {
      const answer = await runCli([...command, ...words, '--reducer', reducer, '--json', ...place.words]);
      expect(answer.code).toBe(1);
      return JSON.parse(answer.stdout) as { readonly failures: readonly { readonly message: string }[] };
    };
    const sizes = ['--snapshot-every-entries', '4', '--segment-every-entries', '8'];
    const adopted = await run('adopt', ...sizes);
    expect(adopted).toMatchObject({ logs: 3, registered: 3, failed: 0, unfit: 2 });
    const adoptFailures = adopted.failures.map(({ message }) => message).join('\n');
    expect(adoptFailures).toMatch(/'sk' is '0\.5', not a whole number.*pk 'order#half', sk '0\.5'/);
    expect(adoptFailures).toMatch(/'pk' has no log id of 1 to 2000 bytes.*'order#xxx/);
    const swept = await run('sweep', ...sizes);
    const failures = swept.failures.map(({ message }) => message).join('\n');
    expect(failures).toMatch(/'type' is missing, in the item with pk 'order#untyped', sk '1'/);
    expect(failures).toContain(
      "an entry is missing: the item with pk 'order#gap', sk '2' [log gap, segment 0, entry 3]",
    );
    const good = await runCli(['replay', 'good', ...words, '--reducer', reducer, '--json', ...place.words]);
    expect(JSON.parse(good.stdout)).toMatchObject({ equal: true, position: { segment: 0, entry: 5 } });
  });
});
