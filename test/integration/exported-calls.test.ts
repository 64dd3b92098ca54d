import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { AWS, ENGINE, LOCAL } from './exported/deployments.ts';
import { DRAFT, DRAFT_MAP, DRAFT_META, SHEET } from './exported/drafts.ts';
import { LOGFOLD } from './exported/functions.ts';
import { STORED_FILE } from './exported/log-client.ts';
import { REACT } from './exported/react.ts';
import { type Call, isClass, isPlainObject } from './exported/recorder.ts';
import { COLLECTIONS, DEFINED_REDUCER, ITEMS, SPREADSHEET } from './exported/reducers.ts';
import { GIVEN_ENTRIES, MEMORY_PIPELINE, REDUCER_TEST, TESTING } from './exported/testing.ts';
import { ENTRIES, SEGMENTS, World } from './exported/world.ts';

type Calls = { readonly [name: string]: Call | { readonly [member: string]: Call } };

/** The calls of the exports of each entry. The compiler demands one for each function. */
const CALLS: { readonly [entry in keyof typeof ENTRIES]: Calls } = {
  '.': LOGFOLD,
  './aws': AWS,
  './local': LOCAL,
  './collections': COLLECTIONS,
  './items': ITEMS,
  './spreadsheet': SPREADSHEET,
  './testing': TESTING,
  './react': REACT,
};

/** Classes and interfaces of objects that functions return. */
const RETURNED: Calls = {
  DefinedReducer: DEFINED_REDUCER,
  Draft: DRAFT,
  DraftMap: DRAFT_MAP,
  DraftMeta: DRAFT_META,
  Engine: ENGINE,
  GivenEntries: GIVEN_ENTRIES,
  MemoryPipeline: MEMORY_PIPELINE,
  ReducerTest: REDUCER_TEST,
  Sheet: SHEET,
  StoredFile: STORED_FILE,
};

function rowsOf(entry: string, calls: Calls): (readonly [name: string, call: Call])[] {
  return Object.entries(calls).flatMap(([name, call]) =>
    typeof call === 'function'
      ? [[`${entry}.${name}`, call] as const]
      : Object.entries(call).map(([member, run]) => [`${name}.${member}`, run] as const),
  );
}

const ROWS = [
  ...Object.entries(CALLS).flatMap(([entry, calls]) => rowsOf(entry.replace('.', 'logfold'), calls)),
  ...rowsOf('', RETURNED),
];

/** The names that the guides give to objects, and the classes whose members they may have. */
const GUIDES = ['README.md', 'docs/library.md'];
const NAMED: Readonly<Record<string, readonly string[]>> = {
  document: ['Document'],
  state: ['DocumentState'],
  logs: ['ServerLogs', 'MemoryLogs'],
  'logs.client': ['LogClient'],
  'logs.clock': ['FakeClock'],
  'logs.feed': ['Feed'],
  'logs.pipeline': ['MemoryPipeline'],
  feed: ['Feed'],
};

const EXPORTS_IN_SOURCE = /^export (?:type )?\{([^}]*)\} from '([^']+)';$/gm;
const NAMES_IN_TEXT = /\b(document|state|logs(?:\.(?:client|clock|feed|pipeline))?|feed)\.([a-z]\w+)/g;

/** Calls that read, which the items of an application have too. */
const READS: Readonly<Record<string, readonly string[]>> = {
  Document: [
    ...['log', 'state', 'getSnapshot', 'position', 'newest', 'number', 'snapshot', 'badEntry', 'pending'],
    ...['pendingList', 'downloads', 'view', 'at', 'diff', 'history', 'map', 'close'],
  ],
  DocumentState: Object.keys(LOGFOLD.DocumentState),
  Feed: ['consumeBatches', 'end', 'release', 'groups'],
  FrozenMap: Object.keys(LOGFOLD.FrozenMap),
  FrozenState: Object.keys(LOGFOLD.FrozenState),
  LogClient: ['query', 'read', 'saveFile'],
  PastState: ['position', 'number', 'badEntry', 'view', 'diff'],
  RemoteLogStore: ['newestSegments', 'getEntry', 'entries', 'items'],
  ServerLogs: ['client', 'feed', 'open', 'at', 'answer', 'object', 'close'],
  'logfold/react': Object.keys(REACT),
  logfold: ['openLogs', 'loadWasmPlatform', 'withHistory'],
  spreadsheet: ['fold'],
};
const WRITES = {
  Document: ['append', 'mutate'],
  LogClient: ['createLog', 'addEntry', 'addDrafted', 'updateLogAttributes'],
  ServerLogs: ['create'],
};

/** @throws Error if there is no such row */
function rowsNamed(members: Readonly<Record<string, readonly string[]>>): typeof ROWS {
  return Object.entries(members).flatMap(([name, all]) =>
    all.map((member) => {
      const row = ROWS.find(([each]) => each === `${name}.${member}`);
      if (row === undefined) throw new Error(`there is no call of ${name}.${member}`);
      return row;
    }),
  );
}

let world: World;

beforeAll(async () => {
  world = await World.open();
});
afterAll(() => world.close());

test('the log has archived segments that left the table, and complete snapshots', async () => {
  const { logs } = await world.place.json('status', world.log);
  expect(logs).toMatchObject([{ archived: SEGMENTS, expired: SEGMENTS, stopped: null }]);
});

test('each entry of the package has its calls', () => {
  expect(Object.keys(CALLS)).toEqual(Object.keys(manifest.exports).filter((entry) => !entry.endsWith('.json')));
});

test('each function of an exported object has its call', () => {
  const functions = Object.values(ENTRIES).flatMap((exports) =>
    Object.entries(exports).flatMap(([name, value]: [string, unknown]) =>
      isPlainObject(value)
        ? Object.entries(value).flatMap(([member, part]) => (typeof part === 'function' ? `${name}.${member}` : []))
        : [],
    ),
  );
  expect(functions).toContain('spreadsheet.fold');
  expect(functions.filter((name) => !ROWS.some(([called]) => called === name))).toEqual([]);
});

test('each class that an entry exports as a type has its calls', async () => {
  const found: string[] = [];
  for (const entry of Object.keys(ENTRIES)) {
    const source = new URL(`../../src/exports/${entry === '.' ? 'logfold' : entry.slice(2)}.ts`, import.meta.url);
    for (const [, names = '', path = ''] of (await readFile(source, 'utf8')).matchAll(EXPORTS_IN_SOURCE)) {
      const module: Readonly<Record<string, unknown>> = await import(new URL(path, source).href);
      const exported = names.split(',').map((name) => name.replace('type ', '').trim());
      found.push(...exported.filter((name) => isClass(module[name]) && !(module[name].prototype instanceof Error)));
    }
  }
  expect(found).toEqual(expect.arrayContaining(['Logs', 'Sheet', 'GivenEntries']));
  const names = new Set(ROWS.map(([name]) => name.split('.')[0]));
  expect(found.filter((name) => !names.has(name))).toEqual([]);
});

test('each call that the guides name is called here', async () => {
  const calls = new Set(ROWS.map(([name]) => name));
  const unknown: string[] = [];
  for (const guide of GUIDES) {
    const text = await readFile(new URL(`../../${guide}`, import.meta.url), 'utf8');
    for (const [call, object = '', member = ''] of text.matchAll(NAMES_IN_TEXT)) {
      // `document.body` is the body of a page.
      if (/^(?:ts|md|png|svg|json|body)$/.test(member)) continue;
      if (!NAMED[object]?.some((name) => calls.has(`${name}.${member}`))) unknown.push(call);
    }
  }
  expect(unknown).toEqual([]);
});

async function requireCall(on: World, name: string, call: Call): Promise<void> {
  on.recorder.called.clear();
  expect.hasAssertions();
  await call(on);
  // A call of another name would prove nothing.
  expect([...on.recorder.called]).toContain(name);
}

describe('on a fed log with archived segments', () => {
  test.each(ROWS)('%s works', async (name, call) => requireCall(world, name, call));
});

describe('on a fed log of mapped items with archived segments', () => {
  let mapped: World;
  beforeAll(async () => {
    mapped = await World.open('mapped');
  });
  afterAll(() => mapped.close());

  test.each(rowsNamed(READS))('%s works', async (name, call) => requireCall(mapped, name, call));

  test.each(rowsNamed(WRITES))('%s is left to the application', async (name, call) => {
    await expect(requireCall(mapped, name, call)).rejects.toMatchObject({ code: 'LOG_READ_ONLY' });
    expect([...mapped.recorder.called]).toContain(name);
  });
});
