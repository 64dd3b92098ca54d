import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import type { Logs } from '../../src/client/logs.ts';
import { isLogfoldError } from '../../src/errors.ts';
import { openLogs } from '../../src/exports/local.ts';
import { openLogs as openMemoryLogs } from '../../src/exports/testing.ts';
import { rootOf } from '../../src/log/entry.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { CliPlace } from '../support/cli-place.ts';
import { propertyRuns } from '../support/property-runs.ts';

const CORNER = { rows: { from: 0, to: 4 }, columns: { from: 0, to: 4 } };
const BEGINNING = { segment: 0, entry: 0 };

let place: CliPlace;
let engine: Logs;
const memory = openMemoryLogs({ reducer: spreadsheet });
let histories = 0;

beforeAll(async () => {
  place = await CliPlace.open();
  engine = await openLogs({ directory: place.directory });
});
afterAll(async () => {
  await memory.close();
  await engine.close();
  await place.close();
});

/** A call of an application. The same call goes to both logs. */
type Call = (logs: Logs, document: Document) => Promise<unknown>;

interface Step {
  readonly name: string;
  /** Undefined if the pipeline runs instead. */
  readonly call: Call | undefined;
}

const small = fc.integer({ min: 0, max: 3 });
const count = fc.integer({ min: 0, max: 12 });
const text = fc.string({ maxLength: 5, unit: 'grapheme' });
const set = (row: number, column: number, value: string) => ({
  type: 'Set',
  version: 1,
  body: [[row, column, value]],
  created: 1_735_689_600,
  metadata: { by: value },
});

function step(name: string, call?: Call): Step {
  return { name, call };
}

const steps: fc.Arbitrary<Step> = fc.oneof(
  fc
    .tuple(small, small, text)
    .map(([row, column, value]) =>
      step(`append ${row} ${column} ${JSON.stringify(value)}`, async (_, document) =>
        placesOf(await document.append(set(row, column, value))),
      ),
    ),
  fc.tuple(count, text).map(([number, value]) =>
    step(`append two after entry ${number}`, async (logs, { log }) => {
      const entries = [set(0, 0, value), set(1, 1, value)];
      return placesOf(await logs.client.addEntries(log, entries, { after: { number } }));
    }),
  ),
  fc
    .tuple(small, small)
    .map(([position, rows]) =>
      step(`insert ${rows} rows at ${position}`, async (_, document) =>
        placesOf(await document.append({ type: 'Insert Rows', version: 1, body: [position, rows] })),
      ),
    ),
  fc.constant(step('snapshot', async (logs, { log }) => placesOf(await logs.client.addSnapshot(log)))),
  fc.constant(step('segment', async (logs, { log }) => placesOf(await logs.client.startSegment(log)))),
  fc.constant(step('run the pipeline')),
  count.map((number) => step(`at ${number}`, async (_, document) => (await document.at({ number })).view(CORNER))),
  fc.tuple(count, text).map(([number, value]) =>
    step(`mark entry ${number}`, async (logs, { log }) => {
      const change = { set: { mark: value }, if: { mark: undefined } };
      return logs.client.updateAttributes(log, { number }, change);
    }),
  ),
  text.map((value) =>
    step(`attribute ${JSON.stringify(value)}`, async (logs, { log }) => {
      await logs.client.updateLogAttributes(log, { set: { owner: value } });
      return logs.client.logAttributes(log);
    }),
  ),
  fc
    .integer({ min: 1, max: 5 })
    .map((limit) => step(`the newest ${limit}`, (logs, { log }) => entriesOf(logs, log, { reverse: true, limit }))),
  fc.constant(step('create it again', async (logs, { log }) => logs.create(log))),
);

/** The answer of an append without ids, which are random, and times, which are those of clocks. */
function placesOf(answer: object | undefined): unknown {
  if (answer === undefined) return undefined;
  const { position, first, number, firstNumber }: Readonly<Record<string, unknown>> = { ...answer };
  return { position, first, number, firstNumber };
}

async function entriesOf(logs: Logs, log: Document['log'], range: object): Promise<unknown> {
  const { start, entries, end, lastSnapshot } = await logs.client.query(log, { from: BEGINNING, ...range });
  const pages = await Array.fromAsync(entries);
  const shown = pages.flat().map((entry) => {
    const { position, number, type, version, body, metadata, attributes } = entry;
    // A root has times in it.
    const hasRoot = rootOf(entry) !== undefined;
    return { position, number, type, version, body: hasRoot ? undefined : body, metadata, attributes, hasRoot };
  });
  return { start, end, entries: shown, lastSnapshot: lastSnapshot?.position };
}

/** An answer, or the code and the place of an error. */
async function answerOf(call: Promise<unknown>): Promise<unknown> {
  try {
    return await call;
  } catch (error) {
    if (!isLogfoldError(error)) throw error;
    const { code, log, segment, entry, type } = error;
    return { refused: { code, log, segment, entry, type } };
  }
}

/** Everything that a new client sees of a log. */
async function seen(logs: Logs, log: Document['log']): Promise<unknown> {
  const document = await logs.open(log, { reducer: spreadsheet });
  const { position, number, snapshot } = document;
  const cells = await document.view(CORNER);
  document.close();
  const listed = await Array.fromAsync(logs.list({ prefix: log }), (each) => each.log);
  return { position, number, snapshot, cells, listed, entries: await entriesOf(logs, log, {}) };
}

test('logs in memory answer as those of the embedded engine, over random histories', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 25 }), async (history) => {
      const name = `history ${++histories}`;
      const [log, same] = [await engine.create(name), await memory.create(name)];
      expect(same).toBe(log);
      const document = await engine.open(log, { reducer: spreadsheet });
      const other = await memory.open(log, { reducer: spreadsheet });
      for (const { name: step, call } of history) {
        if (call === undefined) {
          await place.json('sweep', '--log', log);
          await memory.pipeline.run();
          continue;
        }
        const expected = await answerOf(call(engine, document));
        expect({ step, answer: await answerOf(call(memory, other)) }).toEqual({ step, answer: expected });
      }
      document.close();
      other.close();
      expect(await seen(memory, log)).toEqual(await seen(engine, log));
    }),
    { numRuns: propertyRuns(60, 6) },
  );
});
