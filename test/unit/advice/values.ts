import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { withScratch } from '../../../src/adapters/filesystem/scratch.ts';
import { foldWatchOf } from '../../../src/adapters/platform/fold-watch.ts';
import { loadReducer } from '../../../src/adapters/platform/reducer-module.ts';
import { parse } from '../../../src/cli/command.ts';
import { parseEditLine } from '../../../src/cli/edit-line.ts';
import { openEdits } from '../../../src/cli/edits-file.ts';
import { parseDuration } from '../../../src/cli/format.ts';
import { valueFromJson } from '../../../src/cli/json-value.ts';
import { loadPastState } from '../../../src/client/document-state.ts';
import { encodeValue } from '../../../src/codec/canonical.ts';
import { checkValue, toValue } from '../../../src/codec/value.ts';
import { replayFunction } from '../../../src/functions/replay-function.ts';
import { revisionsFunction } from '../../../src/functions/revisions-function.ts';
import { sweepFunction } from '../../../src/functions/sweep-function.ts';
import { textLogId } from '../../../src/ids/log-id.ts';
import { MAX_NUMBER, type Position, parsePosition } from '../../../src/ids/position.ts';
import { FileCheckpointStore } from '../../../src/local/checkpoint-store.ts';
import { checkRoom } from '../../../src/log/append.ts';
import { MAX_UPDATED_ATTRIBUTES } from '../../../src/log/application-attributes.ts';
import { valueFromAttribute } from '../../../src/log/attribute.ts';
import { decodeEntryBody, EXTERNAL_BODY_BYTES, encodeBody } from '../../../src/log/body.ts';
import { divisionOf } from '../../../src/log/division-policy.ts';
import { epochSeconds, RESERVED_TYPES, ReservedTypes } from '../../../src/log/entry.ts';
import { decodeEntry, encodeEntry } from '../../../src/log/item-codec.ts';
import { checkBatchItems, checkWriteSize, MAX_TRANSACTION_ITEMS } from '../../../src/log/item-size.ts';
import { MAX_BATCH_ITEMS } from '../../../src/log/log-store.ts';
import { MAX_METADATA_BYTES, storableMetadata } from '../../../src/log/metadata.ts';
import { checkMutations } from '../../../src/log/mutation.ts';
import { assertPosition } from '../../../src/log/newest.ts';
import { mappedDivisionOf } from '../../../src/mapping/item-division.ts';
import { checkPolicy, DEFAULT_POLICY, type RetentionPolicy } from '../../../src/retention/retention-policy.ts';
import { loadState } from '../../../src/snapshot/load.ts';
import { FrozenState } from '../../../src/state/frozen-state.ts';
import { parseSheetEdit, sheetOf } from '../../../src/state/spreadsheet/reducer.ts';
import { checkBlobKey, rootKey } from '../../../src/store/keys.ts';
import { checkKey } from '../../../src/tree/key.ts';
import { RangeDeletes } from '../../../src/tree/range-delete.ts';
import type { CompareResult } from '../../../src/workers/revisions/compare-table.ts';
import { nodeStore } from '../../support/chunks.ts';
import { lambdaContext } from '../../support/deployed/lambda-events.ts';
import { allEntries, EDITED_SHEET, entryAt, LOG, malformedItem, NOON, testLogClient } from '../../support/logs.ts';
import { SheetLog, set } from '../../support/sheet-log.ts';
import { SheetLogs } from '../../support/sheet-logs.ts';
import { RevisedTable } from '../../support/stores/revised-table.ts';
import { type Cases, type Follow, numbersOf, quoted } from './case.ts';

const mutationOf = (client: string, mutation: number) => ({ once: { client, mutation } });
const AT = { segment: 0, entry: 1 };
const SURROGATE = 'half \ud800';
const EDIT = '{"op":"insertRows","at":0,"count":1}';
const REDUCER = "export default { name: 'own', version: 1, fold() {} };";

/** Gives a policy that is refused, then the change that the advice asks for. */
function policy(wrong: Partial<RetentionPolicy>, right: (numbers: number[]) => Partial<RetentionPolicy>[]): Follow {
  return async (refused) => {
    const given = { ...DEFAULT_POLICY, ...wrong };
    const advice = await refused(() => checkPolicy(given));
    for (const changes of right(numbersOf(advice))) checkPolicy({ ...given, ...changes });
  };
}

/** Runs a case in a directory that is removed after the case. */
function inDirectory(follow: (dir: string, ...rest: Parameters<Follow>) => Promise<void>): Follow {
  return async (refused) => {
    const dir = await mkdtemp(join(tmpdir(), 'logfold-advice-'));
    try {
      await follow(dir, refused);
    } finally {
      await rm(dir, { recursive: true });
    }
  };
}

async function editsIn(file: string): Promise<number> {
  const edits = await openEdits(file, EDITED_SHEET);
  try {
    return (await Array.fromAsync(edits.lines())).length;
  } finally {
    edits.close();
  }
}

/** Lets a case give what the types refuse. */
function untyped<T>(given: unknown): T {
  return JSON.parse(JSON.stringify(given));
}

/** Creates a log; one transaction takes at most 100 entries. */
async function clientOfLog() {
  const { client, store } = testLogClient();
  const log = await client.createLog();
  const add = (numbers: readonly number[]) =>
    client.addEntries(
      log,
      numbers.map((number) => ({ type: 'Set', version: 1, body: [[number, 0, 'x']] })),
    );
  return { client, store, log, add };
}

function item(position = AT, bytes = 10) {
  return encodeEntry(entryAt(LOG, position, { body: { format: 'bytes', bytes: new Uint8Array(bytes) } }));
}

/** Advice about values, words and files that a user gives. */
export const VALUES: Cases = {
  "Write SEGMENT/ENTRY with numbers from 0 to 4294967295, such as '0/17'": async (refused) => {
    const [example = ''] = quoted(await refused(() => parse.position('0-17')));
    expect(parse.position(example)).toEqual({ segment: 0, entry: 17 });
    expect(parse.position('4294967295/4294967295')).toBeDefined();
  },
  "Write SEGMENT/ENTRY, such as '0/17', the number of an entry, such as '12', or a time, such as '2024-01-31' or '2024-01-31T08:00:00Z'":
    async (refused) => {
      const [position = '', number = '', date = '', time = ''] = quoted(await refused(() => parse.moment('yesterday')));
      expect(parse.moment(position)).toEqual({ segment: 0, entry: 17 });
      expect(parse.moment(number)).toEqual({ number: 12 });
      expect(() => parse.moment('4294967296')).toThrow('neither a position');
      expect(parse.moment(date)).toEqual(new Date('2024-01-31T00:00:00Z'));
      expect(parse.moment(time)).toEqual(new Date('2024-01-31T08:00:00Z'));
    },
  "Give { segment, entry }, { number }, or a date such as new Date('2024-01-31T08:00:00Z')": async (refused) => {
    const sheet = await SheetLog.create();
    await refused(() => loadPastState(sheet.deps, LOG, untyped('2024-01-31')));
    const [time = ''] = quoted(await refused(() => loadPastState(sheet.deps, LOG, new Date('yesterday'))));
    await loadPastState(sheet.deps, LOG, new Date(time));
  },
  'Give a later time; archive segments before they expire to keep their entries': async (refused) => {
    const sheet = await SheetLog.create();
    await sheet.completed();
    sheet.nowMs += 1000;
    await sheet.covered();
    await sheet.tables.deleteEntries(LOG, 0, [0, 1, 2]);
    await refused(() => loadPastState(sheet.deps, LOG, new Date(sheet.nowMs - 1)));
    await loadPastState(sheet.deps, LOG, new Date(sheet.nowMs));
  },
  "Write ROW:COLUMN, such as '3:1'": async (refused) => {
    for (const text of ['3', '3:', 'a:b', `${2 ** 32}:0`]) {
      const [example = ''] = quoted(await refused(() => parse.cell(text))).slice(-1);
      expect(parse.cell(example)).toEqual({ row: 3, column: 1 });
    }
  },
  "Write FROM:TO, such as '0:50' for the first fifty": async (refused) => {
    const [example = ''] = quoted(await refused(() => parse.span('50')));
    expect(parse.span(example)).toEqual({ from: 0, to: 50 });
  },
  "Write a number and s, m, h or d, such as '24h'": async (refused) => {
    const [example = ''] = quoted(await refused(() => parseDuration('24 hours')));
    expect([example, '5s', '5m', '1d'].map(parseDuration)).toEqual([86400, 5, 300, 86400]);
  },
  'Give well-formed text of 1 to … bytes in UTF-8': async (refused) => {
    const [most = 0] = numbersOf(await refused(() => textLogId('x'.repeat(2001)))).slice(-1);
    expect(textLogId('x'.repeat(most))).toHaveLength(most);
    await refused(() => textLogId(SURROGATE));
    expect(textLogId(SURROGATE.toWellFormed())).toBeDefined();
  },
  "Give the types that the log's entries have; the defaults are '…' and '…'": async (refused) => {
    const advice = await refused(() => new ReservedTypes({ snapshot: '', endSegment: 'End' }));
    const [snapshot = '', endSegment = ''] = quoted(advice).slice(-2);
    expect(new ReservedTypes({ snapshot, endSegment })).toEqual(RESERVED_TYPES);
  },
  'Write one JSON object in each line': async (refused) => {
    await refused(() => parseEditLine(`${EDIT},`, 1, EDITED_SHEET));
    parseEditLine(EDIT, 1, EDITED_SHEET);
  },
  'Write a line whose op is set, insertRows, deleteRows, insertColumns, deleteColumns, check, snapshot or segment':
    async (refused) => {
      const advice = await refused(() => parseEditLine('{"op":"put"}', 1, EDITED_SHEET));
      const names = /op is (.+)$/.exec(advice)?.[1]?.split(/, | or /) ?? [];
      const rest = { cells: [], at: 0, count: 1, rows: 0, sha256: '0'.repeat(64) };
      const kinds = names.map((op) => {
        const of = { set: ['cells'], check: ['rows', 'sha256'], snapshot: [], segment: [] }[op] ?? ['at', 'count'];
        const fields = Object.entries(rest).filter(([name]) => of.includes(name));
        return parseEditLine(JSON.stringify({ op, ...Object.fromEntries(fields) }), 1, EDITED_SHEET).kind;
      });
      expect(kinds).toEqual(['entry', 'entry', 'entry', 'entry', 'entry', 'check', 'snapshot', 'segment']);
    },
  'Write an object with an op, or with a type and, as needed, version, body, time, metadata and once of the entry':
    async (refused) => {
      const advice = await refused(() => parseEditLine('{"kind":"Vote"}', 1, EDITED_SHEET));
      const values = { type: 'Vote', version: 2, body: ['Denver'], time: 9, metadata: { correlation: 'r' } };
      const line = { ...values, once: { client: 'c', mutation: 1 } };
      for (const name of Object.keys(line)) expect(advice).toContain(name);
      const { time: created, ...entry } = line;
      expect(parseEditLine(JSON.stringify(line), 1, EDITED_SHEET)).toEqual({
        kind: 'entry',
        entry: { ...entry, created },
      });
    },
  'Write the type and the body of the entry instead of an op': async (refused) => {
    const votes = { ...EDITED_SHEET, reducer: 'votes' };
    await refused(() => parseEditLine(EDIT, 1, votes));
    expect(parseEditLine('{"type":"Set","body":[]}', 1, votes).kind).toBe('entry');
  },
  'Write {"op":"snapshot"} or {"op":"segment"}, or give the entry another type': async (refused) => {
    const advice = await refused(() => parseEditLine('{"type":"Snapshot"}', 1, EDITED_SHEET));
    const lines = advice.match(/\{.*?\}/g) ?? [];
    expect(lines.map((line) => parseEditLine(line, 1, EDITED_SHEET).kind)).toEqual(['snapshot', 'segment']);
    expect(parseEditLine('{"type":"Snap"}', 1, EDITED_SHEET).kind).toBe('entry');
  },
  'Write an object whose only name starts with $ as {"$object":{…}}; … have a meaning': async (refused) => {
    const advice = await refused(() => valueFromJson({ $ref: 'x' }));
    expect(advice).toContain('$bytes, $date, $integer, $number');
    expect(valueFromJson({ $object: { $ref: 'x' } })).toEqual({ $ref: 'x' });
  },
  'Stay within rows 0 to … and columns 0 to …': async (refused) => {
    const advice = await refused(() => parseSheetEdit('Set', [[0, 1e9, 'x']]));
    const [, row = -1, , column = -1] = numbersOf(advice);
    parseSheetEdit('Set', [[row, column, 'x']]);
    await refused(() => parseSheetEdit('Set', [[row + 1, 0, 'x']]));
    await refused(() => parseSheetEdit('Insert Columns', [column, 2]));
    parseSheetEdit('Insert Columns', [column, 1]);
  },
  'Save the file as UTF-8': inDirectory(async (dir, refused) => {
    const file = join(dir, 'edits');
    const line = '{"op":"set","cells":[[0,0,"é"]]}\n';
    await writeFile(file, line, 'latin1');
    await refused(() => openEdits(file, EDITED_SHEET));
    await writeFile(file, line, 'utf8');
    expect(await editsIn(file)).toBe(1);
  }),
  'Split the edit into several lines': inDirectory(async (dir, refused) => {
    const file = join(dir, 'edits');
    const half = Buffer.alloc(40 * 1024 * 1024, ' ');
    half.write(EDIT);
    await writeFile(file, Buffer.concat([half, half]));
    await refused(() => openEdits(file, EDITED_SHEET));
    await writeFile(file, Buffer.concat([half, Buffer.from('\n'), half]));
    expect(await editsIn(file)).toBe(2);
  }),
  'Copy the file first. The end of the log shows which lines were appended': inDirectory(async (dir, refused) => {
    const [file, copy] = [join(dir, 'edits'), join(dir, 'copy')];
    await writeFile(file, `${EDIT}\n`);
    const edits = await openEdits(file, EDITED_SHEET);
    await writeFile(file, `${EDIT}\n${EDIT}\n`);
    await refused(() => Array.fromAsync(edits.lines()));
    edits.close();
    await writeFile(copy, await readFile(file));
    const copied = await openEdits(copy, EDITED_SHEET);
    await writeFile(file, '');
    expect((await Array.fromAsync(copied.lines())).length).toBe(2);
    copied.close();
  }),
  'Name an ES module whose default export is a reducer, or a built-in reducer such as collections': inDirectory(
    async (dir, refused) => {
      const file = join(dir, 'reducer.mjs');
      await refused(() => loadReducer(file));
      await writeFile(file, REDUCER);
      expect((await loadReducer(file)).name).toBe('own');
    },
  ),
  'Correct it, or unset it to use 30 seconds': async (refused) => {
    await refused(() => foldWatchOf({ LOGFOLD_FOLD_SECONDS: '30s' }));
    for (const LOGFOLD_FOLD_SECONDS of ['30', undefined]) foldWatchOf({ LOGFOLD_FOLD_SECONDS });
  },
  'Delete the file: logfold then reads the stream from its beginning, and repeats no finished work': inDirectory(
    async (dir, refused) => {
      const file = join(dir, 'stream-checkpoint.json');
      await writeFile(file, '{');
      const store = () => new FileCheckpointStore(dir, 'arn:1');
      await refused(() => store().load());
      await rm(file);
      expect(await store().load()).toEqual({});
    },
  ),
  'Set segmentEveryEntries instead': async (refused) => {
    await refused(() => mappedDivisionOf({ segmentEveryBytes: 1_000_000 }));
    mappedDivisionOf({ segmentEveryEntries: 1_000 });
  },
  'Set segmentEveryEntries to a multiple of …, such as …': async (refused) => {
    const settings = { snapshotEveryEntries: 7, segmentEveryEntries: 50 };
    const advice = await refused(() => mappedDivisionOf(settings));
    mappedDivisionOf({ ...settings, segmentEveryEntries: numbersOf(advice)[1] });
  },
  'Give …': async (refused) => {
    const division = await refused(() => divisionOf({ snapshotEveryEntries: 0.5 }));
    for (const snapshotEveryEntries of numbersOf(division)) divisionOf({ snapshotEveryEntries });
    for (const name of ['keepSegments', 'keepDays', 'graceSeconds'] as const) {
      const advice = await refused(() => checkPolicy({ ...DEFAULT_POLICY, [name]: -1 }));
      for (const number of numbersOf(advice)) checkPolicy({ ...DEFAULT_POLICY, [name]: number });
    }
  },
  'Archive them, or set keepDays to the number of days for which their entries stay': policy(
    { expire: 'ttl', archive: false, keepDays: 0 },
    () => [{ archive: true }, { keepDays: 1 }],
  ),
  'Give {"log": "<id>"}, with "at": "SEGMENT/ENTRY" for another position than the newest snapshot, or the "next" of an answer':
    async (refused) => {
      const sheet = await SheetLog.create();
      await sheet.edit(set(0, 0, 'a'));
      await sheet.completed();
      const replay = replayFunction({ ...sheet.deps, rangeEntries: 1, withScratch, report: () => undefined });
      const context = lambdaContext(900_000, 'request');
      const advice = await refused(() => replay({ logId: LOG }, context));
      const event = JSON.parse((/\{.*?\}/.exec(advice)?.[0] ?? '').replace('<id>', LOG));
      expect(await replay(event, context)).toMatchObject({ equal: true });
      const [, at = ''] = /"(at)": "SEGMENT\/ENTRY"/.exec(advice) ?? [];
      expect(await replay({ ...event, [at]: '0/2' }, context)).toMatchObject({ position: { segment: 0, entry: 2 } });
    },
  'Give {"compare": true}, perhaps with settleSeconds': async (refused) => {
    const table = new RevisedTable();
    const compared: CompareResult = {
      ...{ items: 0, gaps: 0, failed: 0, waiting: 0 },
      ...{ continued: false, complete: true, incompleteSeconds: 0 },
    };
    const deps = { logs: async () => table.revisions, compare: async () => compared, report: () => undefined };
    const run = revisionsFunction({ ...deps, checkStream: async () => undefined, now: Date.now });
    const advice = await refused(() => run({ compare: 1 }, lambdaContext(900_000, 'request')));
    const event: unknown = JSON.parse(/\{.*\}/.exec(advice)?.[0] ?? '');
    expect(await run(event, lambdaContext(900_000, 'request'))).toBe(compared);
  },
  'Deploy with the parameter Mapping, or leave out adopt': async (refused) => {
    const run = sweepFunction(sweepDeps());
    await refused(() => run({ adopt: true }, lambdaContext(900_000, 'request')));
    expect(await run({}, lambdaContext(900_000, 'request'))).toMatchObject({ failed: 0 });
  },
  'Give {"adopt": true} alone': async (refused) => {
    const items = { async *logs() {} };
    const run = sweepFunction({ ...sweepDeps(), adopt: { items, register: async () => 0, source: 'orders' } });
    const advice = await refused(() => run({ adopt: true, rebuild: true }, lambdaContext(900_000, 'request')));
    const event: unknown = JSON.parse(/\{.*\}/.exec(advice)?.[0] ?? '');
    expect(await run(event, lambdaContext(900_000, 'request'))).toMatchObject({ complete: true });
  },
  'Give {}, {"adopt": true}, or some of log, since, rebuild, collect and from': async (refused) => {
    const sheets = new SheetLogs();
    const run = sweepFunction(sweepDeps(sheets));
    const context = lambdaContext(900_000, 'request');
    const advice = await refused(() => run({ logs: 'all' }, context));
    const values = {
      log: await sheets.atRest(),
      since: '2024-01-31',
      rebuild: true,
      collect: true,
      from: ['beginning'],
    };
    await run({}, context);
    const names = /some of (.+)$/.exec(advice)?.[1]?.split(/, | and /) ?? [];
    expect(names.toSorted()).toEqual(Object.keys(values).toSorted());
    for (const [name, value] of Object.entries(values)) await run({ [name]: value }, context);
  },
  'Give a position up to …, directly after the last entry': async (refused) => {
    const sheet = await SheetLog.create();
    const source = { store: sheet.tables, types: RESERVED_TYPES };
    const advice = await refused(() => assertPosition(source, LOG, { segment: 0, entry: 9 }));
    const [segment = -1, entry = -1] = numbersOf(advice);
    await assertPosition(source, LOG, { segment, entry });
    await refused(() => assertPosition(source, LOG, { segment, entry: entry + 1 }));
  },
  "Use printable ASCII in parts separated by single slashes, without '.' and '..' as parts": async (refused) => {
    for (const wrong of ['logs//x', 'logs/é', 'logs/../x']) await refused(() => checkBlobKey(wrong));
    checkBlobKey('logs/x ~/y');
  },
  "Leave it out or give null, as toValue of 'logfold' does": async (refused) => {
    const given = { a: undefined, b: [undefined] };
    await refused(() => checkValue(given));
    checkValue({ b: [null] });
    checkValue(toValue(given));
  },
  'Give it as text, such as that of toISOString(), or as a number': async (refused) => {
    const when = new Date(0);
    await refused(() => storableMetadata(LOG, { when }));
    expect(storableMetadata(LOG, { when: when.toISOString(), ms: when.getTime() })).toBeDefined();
  },
  'Use null, booleans, numbers, bigints, strings, bytes, dates, arrays and plain objects': async (refused) => {
    await refused(() => checkValue(() => 1));
    const every = [null, true, 1.5, 2n ** 63n, 'text', Uint8Array.of(1), new Date(0), [], {}];
    checkValue(every);
    encodeValue(every);
  },
  'Replace the surrogate, for example with String.prototype.toWellFormed': async (refused) => {
    await refused(() => checkValue(SURROGATE));
    checkValue(SURROGATE.toWellFormed());
  },
  'Replace the surrogate before you append, for instance with toWellFormed()': async (refused) => {
    await refused(() => encodeValue(SURROGATE));
    encodeValue(SURROGATE.toWellFormed());
  },
  'Store it as a string': async (refused) => {
    await refused(() => encodeValue(2n ** 64n));
    encodeValue(String(2n ** 64n));
  },
  "Store them with format 'bytes'": async (refused) => {
    const native = entryAt(LOG, AT, { body: { format: 'native', value: 'text' } });
    const [format] = quoted(await refused(() => encodeEntry(native)));
    expect(format).toBe('bytes');
    encodeEntry(entryAt(LOG, AT, { body: { format: 'bytes', bytes: encodeBody('text') } }));
  },
  'Write a decimal number of at most 38 digits, below 1E126': async (refused) => {
    await refused(() => valueFromAttribute({ N: '1E999' }));
    expect(valueFromAttribute({ N: `${'9'.repeat(38)}E88` })).toBe(`${'9'.repeat(38)}${'0'.repeat(88)}`);
  },
  'Load it with `logs.client.loadBody(entry)`': async (refused) => {
    const { client } = testLogClient();
    const log = await client.createLog();
    const body = 'x'.repeat(EXTERNAL_BODY_BYTES);
    const { position } = await client.addEntry(log, { type: 'Set', version: 1, body });
    const { entries } = await client.query(log, { from: position });
    const [entry] = (await Array.fromAsync(entries)).flat();
    if (entry === undefined) throw new Error('the entry is missing');
    await refused(() => decodeEntryBody(entry));
    expect(await client.loadBody(entry)).toBe(body);
  },
  'Append an entry that makes the change': async (refused) => {
    const sheet = await SheetLog.create();
    const frozen = async () => new FrozenState(nodeStore(), await (await loadState(sheet.deps, LOG)).draft.state());
    const { draft } = await frozen();
    await refused(() => sheetOf(draft).set(0, 0, 'a'));
    await sheet.edit(set(0, 0, 'a'));
    expect(await Array.fromAsync(sheetOf((await frozen()).draft).cells())).toEqual([{ row: 0, column: 0, value: 'a' }]);
  },
  'Use whole numbers from 0 to 2^53 - 1': async (refused) => {
    await refused(() => checkKey(-1, 'number'));
    for (const key of [0, 2 ** 53 - 1]) checkKey(key, 'number');
  },
  'Use well-formed strings of at most … UTF-16 code units': async (refused) => {
    const advice = await refused(() => checkKey(SURROGATE, 'string'));
    const longest = 'x'.repeat(Math.max(...numbersOf(advice).filter((number) => number !== 16)));
    checkKey(longest, 'string');
    await refused(() => checkKey(`${longest}x`, 'string'));
  },
  'Use a map with number keys, a period of 1 or more, and remainders from 0 up to the period': async (refused) => {
    const every = (period: number, from: number, to: number) => ({ from: 0, to: 9, every: { period, from, to } });
    await refused(() => new RangeDeletes('number').add(every(0, 0, 1), 0));
    await refused(() => new RangeDeletes('string').add({ ...every(1, 0, 1), from: 'a', to: 'b' }, 0));
    new RangeDeletes('number').add(every(1, 0, 1), 0);
  },
  'Use bounds that are …s': async (refused) => {
    const advice = await refused(() => new RangeDeletes('string').add({ from: 1, to: 2 }, 0));
    expect(advice).toContain(' strings');
    new RangeDeletes('string').add({ from: 'a', to: 'b' }, 0);
  },
  'Set the clock of this machine to the current time': async (refused) => {
    await refused(() => epochSeconds(-1));
    expect(epochSeconds(NOON * 1000)).toBe(NOON);
  },
  'Correct the item, or find out what else writes to this table': async (refused) => {
    await refused(() => decodeEntry(malformedItem(LOG, AT, 'no version')));
    decodeEntry(item());
  },
  'Add them in several batches': async (refused) => {
    const { add } = await clientOfLog();
    const numbers = Array.from({ length: MAX_TRANSACTION_ITEMS + 1 }, (_, i) => i);
    await refused(() => add(numbers));
    await add(numbers.slice(0, 50));
    await add(numbers.slice(50));
  },
  'Add the entries in several batches': async (refused) => {
    const items = Array.from({ length: 12 }, (_, entry) => item({ segment: 0, entry }, 380 * 1024));
    await refused(() => checkWriteSize(items));
    checkWriteSize(items.slice(0, 6));
    checkWriteSize(items.slice(6));
  },
  'Put its largest part into an external body': async (refused) => {
    await refused(() => checkWriteSize([item(AT, 500 * 1024)]));
    checkWriteSize([encodeEntry(entryAt(LOG, AT, { body: undefined, external: 'logs/bulk' }))]);
  },
  'Give well-formed text of 1 to … UTF-16 code units, such as a UUID': async (refused) => {
    const [least = 0, most = 0] = numbersOf(await refused(() => checkMutations(LOG, [mutationOf('', 1)])));
    for (const length of [least, most]) checkMutations(LOG, [mutationOf('x'.repeat(length), 1)]);
    await refused(() => checkMutations(LOG, [mutationOf('x'.repeat(most + 1), 1)]));
  },
  'Number the mutations of each client in ascending order, with whole numbers of at least 1': async (refused) => {
    const numbered = (...numbers: number[]) =>
      checkMutations(
        LOG,
        numbers.map((number) => mutationOf('laptop', number)),
      );
    await refused(() => numbered(0));
    await refused(() => numbered(2, 1));
    numbered(1, 2, 5);
  },
  'Give a whole number of at least 1, the number of the first entry of the application': async (refused) => {
    const { client, log, add } = await clientOfLog();
    await add([7]);
    const [first = 0] = numbersOf(await refused(() => client.query(log, { from: { number: 0 } })));
    const read = await allEntries((await client.query(log, { from: { number: first } })).entries);
    expect(read.map(({ number }) => number)).toEqual([1]);
  },
  'Give a number up to …, the next one': async (refused) => {
    const { client, log, add } = await clientOfLog();
    await add([7, 8]);
    const [next = 0] = numbersOf(await refused(() => client.query(log, { from: { number: 9 } })));
    expect((await client.query(log, { from: { number: next } })).start).toEqual({ segment: 0, entry: 3 });
  },
  'Give the entry a type of well-formed text': async (refused) => {
    const { client, log } = await clientOfLog();
    await refused(() => client.addEntry(log, { type: '\ud83d', version: 1 }));
    await client.addEntry(log, { type: '\ud83d\ude00', version: 1 });
  },
  'Give `created` in epoch seconds, and with it whole milliseconds from 0 to 999': async (refused) => {
    const { client, log } = await clientOfLog();
    const entry = { type: 'Set', version: 1 };
    await refused(() => client.addEntry(log, { ...entry, milliseconds: 7 }));
    const advice = await refused(() => client.addEntry(log, { ...entry, created: NOON, milliseconds: 1000 }));
    for (const milliseconds of numbersOf(advice)) await client.addEntry(log, { ...entry, created: NOON, milliseconds });
  },
  'Give the number of the newest entry of the application, or 0 if the log has none yet': async (refused) => {
    const { client, log } = await clientOfLog();
    const entry = { type: 'Set', version: 1 };
    await refused(() => client.addEntry(log, entry, { after: { number: -1 } }));
    await client.addEntry(log, entry, { after: { number: 0 } });
    await client.addEntry(log, entry, { after: { number: 1 } });
  },
  'Give `after` as a position. Some entries of the log have no numbers, so new ones have none either': async (
    refused,
  ) => {
    const { store, client, log } = await clientOfLog();
    const entry = { type: 'Set', version: 1 };
    await store.putEntries([entryAt(log, AT)]);
    await refused(() => client.addEntry(log, entry, { after: { number: 1 } }));
    expect(await client.addEntry(log, entry, { after: AT })).not.toHaveProperty('number');
  },
  'Read by position. Only entries that this release or a newer one wrote have numbers': async (refused) => {
    const { store, client, log, add } = await clientOfLog();
    await store.putEntries([entryAt(log, AT)]);
    await add([7]);
    await refused(() => client.query(log, { from: { number: 1 } }));
    expect(await allEntries((await client.query(log, { from: AT })).entries)).toHaveLength(2);
  },
  "Read from 'snapshot'; archive segments before they expire to keep their entries": async (refused) => {
    const { store, client, log, add } = await clientOfLog();
    await add([7, 8]);
    await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 0 } });
    const { position } = await client.startSegment(log);
    await store.completeSnapshot(log, position, { key: rootKey(log, position, '0'.repeat(64)) });
    await store.advanceLastSnapshot(log, { position });
    await store.deleteEntries(log, 0, [0, 1, 2, 3]);
    await refused(() => client.query(log, { from: { number: 1 } }));
    expect(await allEntries((await client.query(log, { from: 'snapshot' })).entries)).toHaveLength(1);
  },
  'Give an object of names and values': async (refused) => {
    await refused(() => storableMetadata(LOG, Object.create({ correlation: 'order-7' })));
    expect(storableMetadata(LOG, { correlation: 'order-7' })).toEqual({ correlation: 'order-7' });
  },
  'Write these two ids as strings, or give the values other names': async (refused) => {
    await refused(() => storableMetadata(LOG, JSON.parse('{"correlation":7}')));
    expect(storableMetadata(LOG, { correlation: '7', order: 7 })).toEqual({ correlation: '7', order: 7 });
  },
  'Put its largest values into the body': async (refused) => {
    const large = 'x'.repeat(MAX_METADATA_BYTES);
    const { client, log } = await clientOfLog();
    await refused(() => client.addEntry(log, { type: 'Set', version: 1, metadata: { large, step: 1 } }));
    await client.addEntry(log, { type: 'Set', version: 1, body: { large }, metadata: { step: 1 } });
  },
  'Start a new segment': async (refused) => {
    await refused(() => checkRoom(LOG, { segment: 0, entry: MAX_NUMBER + 1 }));
    checkRoom(LOG, { segment: 1, entry: 0 });
  },
  'Write or delete them in several batches': async (refused) => {
    await refused(() => checkBatchItems(MAX_BATCH_ITEMS + 1));
    checkBatchItems(MAX_BATCH_ITEMS);
  },
  'Call addSnapshot or startSegment, or give the entry another type': async (refused) => {
    const { client, log } = await clientOfLog();
    await refused(() => client.addEntry(log, { type: 'Snapshot', version: 1 }));
    await client.addSnapshot(log);
    await client.addEntry(log, { type: 'Set', version: 1, body: [] });
  },
  'Read the newer entries, then append after the newest': async (refused) => {
    const { client, log, add } = await clientOfLog();
    const { first } = await add([1]);
    await add([2]);
    const again = (after: typeof first) => client.addEntry(log, { type: 'Set', version: 1, body: [] }, { after });
    await refused(() => again(first));
    const read = await allEntries((await client.query(log, { from: first })).entries);
    await again(read.at(-1)?.position ?? first);
  },
  "Choose another name, such as 'status'": async (refused) => {
    const { client, log, add } = await clientOfLog();
    const { first } = await add([1]);
    const advice = await refused(() => client.updateAttributes(log, first, { set: { S: 'sent' } }));
    const [name = ''] = quoted(advice);
    expect(await client.updateAttributes(log, first, { set: { [name]: 'sent' } })).toEqual({ updated: true });
  },
  'Change them in several updates': async (refused) => {
    const { client, log, add } = await clientOfLog();
    const { first } = await add([1]);
    const names = Array.from({ length: MAX_UPDATED_ATTRIBUTES + 1 }, (_, i) => `name ${i}`);
    await refused(() => client.updateAttributes(log, first, { remove: names }));
    await client.updateAttributes(log, first, { remove: names.slice(1) });
    await client.updateAttributes(log, first, { remove: names.slice(0, 1) });
  },
  'Append an entry that records the change': async (refused) => {
    const sheet = await SheetLog.create();
    const edited = await sheet.edit(set(0, 0, 'a'));
    await sheet.completed();
    await sheet.segment();
    const { client } = testLogClient({ store: sheet.tables });
    await refused(() => client.updateAttributes(LOG, edited, { set: { status: 'sent' } }));
    await client.addEntry(LOG, { type: 'Status', version: 1, body: { of: '0/1', status: 'sent' } });
  },
  'Append after …, the newest entry': async (refused) => {
    const { client, log } = await clientOfLog();
    const add = (after: { segment: number; entry: number }) =>
      client.addEntry(log, { type: 'Set', version: 1, body: [] }, { after });
    const [segment = -1, entry = -1] = numbersOf(await refused(() => add({ segment: 0, entry: 7 })));
    await add({ segment, entry });
  },
  'Give an object with a type and a version': async (refused) => {
    const { client, log } = await clientOfLog();
    await refused(() => client.addEntries(log, untyped([null])));
    await client.addEntries(log, [{ type: 'Set', version: 1 }]);
  },
  'Give a Uint8Array of 1 to … bytes, or no id': async (refused) => {
    const { client, log } = await clientOfLog();
    const add = (length: number) => client.addEntry(log, { type: 'Set', version: 1, id: new Uint8Array(length) });
    const [, least = 0, most = 0] = numbersOf(await refused(() => add(0)));
    await refused(() => add(most + 1));
    for (const length of [least, most]) await add(length);
    await client.addEntry(log, { type: 'Set', version: 1 });
  },
  'Give the entry a type of at most … characters': async (refused) => {
    const { client, log } = await clientOfLog();
    const add = (length: number) => client.addEntry(log, { type: 'x'.repeat(length), version: 1 });
    const [most = 0] = numbersOf(await refused(() => add(5_000)));
    await refused(() => add(most + 1));
    await add(most);
  },
  'Give epoch seconds, such as Math.floor(Date.now() / 1000)': async (refused) => {
    const { client, log } = await clientOfLog();
    const add = (created: number) => client.addEntry(log, { type: 'Set', version: 1, created });
    await refused(() => add(Date.now()));
    await add(Math.floor(Date.now() / 1000));
  },
  'Give an object with a client and a mutation, or omit it': async (refused) => {
    await refused(() => checkMutations(LOG, [untyped({ once: 'mine' })]));
    checkMutations(LOG, [mutationOf('laptop', 1), {}]);
  },
  'Give only …': async (refused) => {
    const { client, log } = await clientOfLog();
    const entry = { type: 'Set', version: 1 };
    const end = { segment: 0, entry: 0 };
    const advice = await refused(() => client.addEntry(log, entry, { ...untyped({ afer: end }) }));
    const [name = ''] = advice.replace('Give only ', '').split(', ');
    await client.addEntry(log, entry, { [name]: end });
  },
  'Give an end from … on': async (refused) => {
    const { client, log, add } = await clientOfLog();
    await add([1]);
    const from = { segment: 0, entry: 1 };
    const queried = async (to: Position) => Array.fromAsync((await client.query(log, { from, to })).entries);
    const advice = await refused(() => queried({ segment: 0, entry: 0 }));
    const [end = ''] = /\d+\/\d+/.exec(advice) ?? [];
    expect(await queried(parsePosition(end))).toEqual([]);
  },
  "Give { segment, entry } with whole numbers from 0 to …; parsePosition reads text such as '0/17'": async (
    refused,
  ) => {
    const { client, log, add } = await clientOfLog();
    await add([1]);
    const entry = { type: 'Set', version: 1 };
    const advice = await refused(() => client.addEntry(log, entry, { snapshot: untyped('0/1') }));
    const [text = ''] = quoted(advice);
    expect(parsePosition(text)).toEqual({ segment: 0, entry: 17 });
    await client.addEntry(log, entry, { snapshot: parsePosition('0/1') });
  },
  "Give { number: … } for an entry by its number, or …; parsePosition reads text such as '0/17'": async (refused) => {
    const { client, log, add } = await clientOfLog();
    await add([1]);
    const entry = { type: 'Set', version: 1 };
    const advice = await refused(() => client.addEntry(log, entry, { after: untyped(1) }));
    await client.addEntry(log, entry, { after: { number: numbersOf(advice)[0] ?? 0 } });
    const [text = ''] = quoted(await refused(() => client.addEntry(log, entry, { after: untyped('0/2') })));
    expect(parsePosition(text)).toEqual({ segment: 0, entry: 17 });
    await client.addEntry(log, entry, { after: parsePosition('0/2') });
    const [start = ''] = quoted(await refused(() => client.query(log, { from: untyped('end') })));
    expect(await allEntries((await client.query(log, { from: untyped(start) })).entries)).toHaveLength(4);
  },
  'Read from a position that the log has: this one may be beyond its end. If the log had the entry, restore the entry from a backup of the Entry table':
    async (refused) => {
      const { client, log, add } = await clientOfLog();
      const { last } = await add([1]);
      const read = async (entry: number) =>
        allEntries((await client.query(log, { from: { segment: 0, entry } })).entries);
      await refused(() => read(last.entry + 2));
      expect(await read(last.entry)).toHaveLength(1);
      expect(await read(last.entry + 1)).toEqual([]);
    },
};

function sweepDeps(sheets = new SheetLogs()) {
  const queue = { send: async () => undefined, depth: async () => 0 };
  const queues = { snapshot: queue, maintenance: queue };
  return { ...sheets.deps, queues, policy: DEFAULT_POLICY, report: () => undefined };
}
