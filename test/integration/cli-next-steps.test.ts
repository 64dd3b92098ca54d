import { globSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { type ParserOptions, parse } from '@babel/parser';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition } from '../../src/ids/position.ts';
import { CLAIM_KEY, MAPPING_KEY } from '../../src/store/keys.ts';
import { type Answer, end, runCli, startCli } from '../support/cli.ts';
import { CliPlace } from '../support/cli-place.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

const ROOT = join(import.meta.dirname, '../..');
/** Tells people what to run next. The advice of errors has its tests in `unit/advice.test.ts`. */
const STEP = /(?:'|run )logfold [a-z]+|[Rr]aise --|[Cc]ontinue with --|[Rr]un the command again|give --/;
/** Constants with a description for a help text, whose commands `cli-program.test.ts` parses. */
const DESCRIPTION = /HELP|NOTES/;
const PARSER: ParserOptions = { sourceType: 'module', plugins: ['typescript'] };

interface Node {
  readonly type: string;
  readonly [name: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** The next steps that commands print, except errors; `…` replaces the values of a template. */
function printedSteps(): string[] {
  const found = new Set<string>();
  const visit = (node: Node): void => {
    const name = nameOf(node);
    if (/advice/i.test(name) || DESCRIPTION.test(name) || node.type === 'NewExpression') return;
    if (calleeOf(node) === 'examples' || calleeOf(node) === 'requireSheets') return;
    const text = textOf(node);
    if (text !== undefined && STEP.test(text)) found.add(text);
    for (const child of Object.values(node).flat()) if (isNode(child)) visit(child);
  };
  for (const file of globSync('src/cli/**/*.ts', { cwd: ROOT })) {
    visit(parse(readFileSync(join(ROOT, file), 'utf8'), PARSER).program as unknown as Node);
  }
  return [...found].sort();
}

/** The name of a property or a constant; '' for other nodes. */
function nameOf({ type, key, id }: Node): string {
  const named = type === 'ObjectProperty' ? key : type === 'VariableDeclarator' ? id : undefined;
  return isNode(named) && typeof named.name === 'string' ? named.name : '';
}

function calleeOf({ callee }: Node): unknown {
  return isNode(callee) ? callee.name : undefined;
}

function textOf({ type, value, quasis }: Node): string | undefined {
  if (type === 'StringLiteral' && typeof value === 'string') return value;
  if (type !== 'TemplateLiteral' || !Array.isArray(quasis)) return undefined;
  return quasis.map((part: { readonly value: { readonly cooked: string } }) => part.value.cooked).join('…');
}

let place: CliPlace;
/** A directory without a settings file. */
let project: string;
/** Options that somebody types with each command, and that printed commands must repeat. */
let typed: readonly string[];
let db: DynamoDBClient;

beforeAll(async () => {
  place = await CliPlace.open();
  project = await mkdtemp(join(tmpdir(), 'logfold-steps-'));
  db = new DynamoDBClient(clientConfig(place.endpoint));
  typed = place.words;
});
afterAll(async () => {
  db.destroy();
  await rm(project, { recursive: true });
  await place.close();
});

function typeForMapping(mapping: string, ...more: readonly string[]): void {
  const tables = ['--entry-table', 'orders', '--segment-table', 'order-segments'];
  typed = [...place.words, '--mapping', mapping, ...tables, ...more];
}

/** As npx starts a command. */
const BY_NPX = { npm_command: 'exec' };

async function run(words: readonly string[]): Promise<Answer & { readonly text: string }> {
  const answer = await runCli(words, { cwd: project, environment: BY_NPX });
  expect(answer, `${words.join(' ')}: ${answer.stderr}`).toMatchObject({ code: 0 });
  return { ...answer, text: `${answer.stdout}${answer.stderr}` };
}

/** Runs a command with the typed options. */
const logfold = (...words: readonly string[]) => run([...words, ...typed]);

/** Runs each command in quotes of a text as it stands. */
async function runCommandsIn(text: string): Promise<string> {
  expect(text).not.toMatch(/'logfold /);
  const commands = Array.from(text.matchAll(/'npx logfold ([^']+)'/g), ([, words = '']) => words.split(' '));
  expect(commands).not.toEqual([]);
  let said = '';
  for (const words of commands) said += (await run(words)).text;
  return said;
}

/** Finds a printed step with its values. */
function shown(text: string, step: string): string {
  const printed = step.replaceAll(/'logfold ([a-z]+)/g, "'npx logfold $1…");
  const pattern = new RegExp(printed.trimStart().split('…').map(RegExp.escape).join('.*?'), 's');
  const [found = ''] = pattern.exec(text) ?? [];
  expect(found, `'${step}' is not in: ${text}`).not.toBe('');
  return found;
}

/** A table of an application with its settings. */
async function mapped(table: string, items: number): Promise<void> {
  await createItemTable(db, table, { stream: 'NEW_IMAGE' });
  for (let n = 0; n < items; n++) {
    const Item = { pk: { S: 'order#1' }, sk: { N: `${n}` }, type: { S: 'Paid' }, payload: { M: {} } };
    const ts = { S: new Date(1_767_225_600_000 + n).toISOString() };
    await db.send(new PutItemCommand({ TableName: table, Item: { ...Item, ts } }));
  }
}

const REDUCER = 'export default { name: "none", version: 1, fold() {} };';

async function threeRevisions(): Promise<LogId> {
  const log = await place.log();
  for (const text of ['a', 'b', 'c']) await place.edit(log, { type: 'Set', cells: [[0, 0, text]] });
  return log;
}

interface Continued {
  readonly words: readonly string[];
  readonly option: string;
  /** The value on the next page. */
  readonly next: string;
}

/** Follows the step of a page of a map to the next page. */
async function continued(step: string, { words, option, next }: Continued): Promise<void> {
  const cells: [number, number, string][] = [
    [0, 0, 'a'],
    [1, 0, 'b'],
  ];
  const page = ['state', await place.log({ type: 'Set', cells }), '--map', 'cells', ...words];
  const { text } = await logfold(...page, '--limit', '1');
  expect(text).not.toContain(next);
  const [, key = ''] = new RegExp(`${option} ([^ .]+)`).exec(shown(`${text}\n`, `${step}.\n`)) ?? [];
  expect((await logfold(...page, option, key)).stdout).toContain(next);
}

/** How to follow each printed step, by its text. */
const FOLLOWED: Readonly<Record<string, (step: string) => Promise<void>>> = {
  '\nTo try it on this machine, run logfold create --local data, then logfold work --local data alongside other commands.':
    async (step) => {
      const text = shown((await runCli(['--help'])).stdout.replaceAll(/\s+/g, ' '), step);
      const own = await mkdtemp(join(tmpdir(), 'logfold-try-'));
      const [create = [], work = []] = Array.from(text.matchAll(/logfold (\w+ --local data)/g), ([, words = '']) =>
        words.split(' '),
      );
      expect(await runCli(create, { cwd: own })).toMatchObject({ code: 0 });
      const child = startCli(work, {}, { cwd: own });
      await new Promise((resolve) => child.stderr?.once('data', resolve));
      await end(child, 'SIGTERM');
      expect(child.exitCode).toBe(143);
      await rm(own, { recursive: true });
    },
  "\nThe new records of the stream made no snapshot due. 'logfold sweep' looks at all logs, 'logfold status' shows them.":
    async (step) => {
      await logfold('work', '--until-idle');
      await runCommandsIn(shown((await logfold('work', '--until-idle')).text, step));
    },
  "… is skipped: …. 'logfold sweep --log … --reducer …' builds the snapshots that are due.": async (step) => {
    const log = await place.client.createLog();
    await place.client.addEntry(log, { type: 'Put', version: 1, body: { name: 'a', value: 1 } });
    await place.client.addSnapshot(log);
    await logfold('sweep', '--log', log, '--reducer', 'collections');
    const { position } = await place.client.addSnapshot(log);
    for (const words of [['work', '--until-idle'], ['sweep']]) {
      const text = shown((await logfold(...words)).text, step);
      const said = await runCommandsIn(text);
      if (words[0] === 'work') expect(said).toContain(`snapshot ${log} ${formatPosition(position)}: `);
      await place.client.addSnapshot(log);
    }
  },
  "After that, 'logfold resume …' lets its snapshots continue.": async (step) => {
    const log = await place.client.createLog();
    await place.client.addEntry(log, { type: 'Put', version: 1, body: { name: 'a', value: 1 } });
    await place.client.addSnapshot(log);
    expect(await runCli(['sweep', '--log', log, ...typed])).toMatchObject({ code: 1 });
    await runCommandsIn(shown((await logfold('status', log)).stdout, step));
    expect((await logfold('status', log)).stdout).not.toContain('is stopped');
  },
  'Left out: …. Raise --limit to show more.': async (step) => {
    const log = await threeRevisions();
    const { text } = await logfold('history', log, '--cell', '0:0', '--limit', '1');
    expect(shown(text, step)).toContain('2 older revisions');
    expect((await logfold('history', log, '--cell', '0:0', '--limit', '3')).text).not.toContain('Left out');
  },
  'Left out: further changes. Raise --limit to show more, or give --stat.\n': async (step) => {
    const log = await place.log({
      type: 'Set',
      cells: [
        [0, 0, 'a'],
        [1, 0, 'b'],
      ],
    });
    shown((await logfold('diff', log, '0/0', '--limit', '1')).text, step);
    expect((await logfold('diff', log, '0/0', '--limit', '2')).text).not.toContain('Left out');
    expect((await logfold('diff', log, '0/0', '--stat')).stdout).toBe('2 cells added\n');
  },
  'Left out: older snapshots. Raise --limit to show more.': async (step) => {
    const log = await place.log();
    for (let i = 0; i < 2; i++) await place.client.addSnapshot(log);
    shown((await logfold('snapshots', log, '--limit', '1')).text, step);
    expect((await logfold('snapshots', log, '--limit', '9')).text).not.toContain('older snapshots');
  },
  'continue with --from …': (step) => continued(step, { words: [], option: '--from', next: '"b"' }),
  'continue with --to …': (step) => continued(step, { words: ['--reverse'], option: '--to', next: '"a"' }),
  'raise --limit, or …': async (step) => {
    const log = await place.client.createLog();
    for (const id of ['a', 'b']) {
      await place.client.addEntry(log, { type: 'Put', version: 1, body: { name: id, value: 1 } });
    }
    const words = ['state', log, '--reducer', 'collections', '--map', 'scalars', '--prefix', ''];
    shown((await logfold(...words, '--limit', '1')).text, step);
    expect((await logfold(...words, '--limit', '2')).text).not.toContain('more items');
  },
  '…\nFor …, widen the terminal or give --json.': async (step) => {
    await place.log();
    const environment = {
      NODE_OPTIONS: `--import=${new URL('../programs/claim-terminal.ts', import.meta.url).href}`,
      CLAIMED_COLUMNS: '60',
    };
    shown((await runCli(['status', ...place.words], { environment })).stdout, step);
    expect(JSON.parse((await logfold('status', '--json')).stdout)).toHaveProperty(['logs', 0, 'segments']);
  },
};

/** The same for logs of an application, in this order: they begin with a bucket of nobody. */
const FOLLOWED_MAPPED: typeof FOLLOWED = {
  "No item of the table has a key as the mapping says. 'logfold inspect …' proposes a mapping.": async (step) => {
    await mapped('orders', 12);
    typeForMapping('pk-sk:invoice');
    const { text } = await logfold('adopt', '--snapshot-every-entries', '5');
    expect(await runCommandsIn(shown(text, step))).toContain('pk-sk:order');
  },
  "'logfold sweep --reducer FILE' builds the snapshots that are due….": async (step) => {
    await writeFile(join(project, 'reducer.mjs'), REDUCER);
    typeForMapping('pk-sk:order');
    const text = shown((await logfold('adopt')).text, step);
    expect(await runCommandsIn(text.replace('FILE', 'reducer.mjs'))).toContain('1 log checked, 0 jobs done');
  },
  "'logfold sweep' builds the snapshots that are due….": async (step) => {
    typeForMapping('pk-sk:order', '--reducer', 'reducer.mjs');
    const text = shown((await logfold('adopt', '--snapshot-every-entries', '100')).text, step);
    for (let n = 12; n < 101; n++) {
      const Item = { pk: { S: 'order#1' }, sk: { N: `${n}` }, type: { S: 'Paid' }, payload: { M: {} } };
      await db.send(
        new PutItemCommand({ TableName: 'orders', Item: { ...Item, ts: { S: new Date().toISOString() } } }),
      );
    }
    expect(await runCommandsIn(text)).toContain('snapshot 1 0/101: 101 entries');
  },
  "'logfold sweep' builds the snapshot that is due": async (step) => {
    const { text } = await logfold('resume', '1');
    await runCommandsIn(shown(text, step));
  },
  "The bucket belongs to no table yet; 'logfold adopt' lets it belong to ….": async (step) => {
    await place.blobs.delete([CLAIM_KEY, MAPPING_KEY]);
    expect(await runCommandsIn(shown((await logfold('adopt', '--move-claim')).text, step))).toContain('1 log found');
  },
};

/** Steps that other tests follow, by the file of the test. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "Run 'logfold work --revisions-of …… --until-idle', then this command again with --wait 0s.": 'cli-revisions.test.ts',
  'Run the command again after 25 hours, or now with --wait 5m if all changes are recorded.':
    '../unit/compare-table.test.ts',
  'The comparison is not complete: run the command again, and it continues.': '../unit/compare-table.test.ts',
  'The scan is not complete: run the command again, and it continues where it stopped.': 'cli-mapping.test.ts',
  '. Run the command again then, or let the sweep do it.': 'cli-life.test.ts',
  '. Run the command again.': 'cli-life.test.ts',
};

describe('a printed step can be followed as it stands:', () => {
  test.each(Object.entries({ ...FOLLOWED, ...FOLLOWED_MAPPED }))('%s', (step, follow) => follow(step));
});

test('a test follows each step that a command prints', () => {
  const known = [...Object.keys(FOLLOWED), ...Object.keys(FOLLOWED_MAPPED), ...Object.keys(ELSEWHERE)];
  expect(printedSteps()).toEqual(known.sort());
  for (const file of Object.values(ELSEWHERE))
    expect(readFileSync(join(import.meta.dirname, file), 'utf8')).toContain('test(');
});
