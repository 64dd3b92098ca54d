import { Command } from '@commander-js/extra-typings';
import { MemoryBlobStore } from '../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../src/adapters/platform/native.ts';
import { openLogs as openPageLogs } from '../src/adapters/web/open-logs.ts';
import { ServerLogs } from '../src/adapters/web/server-logs.ts';
import type { LogId } from '../src/ids/log-id.ts';
import type { NewEntry } from '../src/log/client.ts';
import type { Reducer } from '../src/state/reducer.ts';
import { spreadsheet } from '../src/state/spreadsheet/reducer.ts';
import { newLogId, recordRequests, unarchived } from '../test/support/logs.ts';
import { wholeNumber } from './options.ts';
import { median } from './statistics.ts';
import { Stopwatch } from './stopwatch.ts';
import { describeMachine, markdownTable, plainTable, type Table } from './tables.ts';

/** Cells of a document that is kept warm. */
const CELLS = 200;

/** The kinds of servers, with the reducer that they fold with. */
const SERVERS: readonly (readonly [name: string, reducer: Reducer | undefined])[] = [
  ['does not fold', undefined],
  ['folds', spreadsheet],
];

interface Appends {
  /** Requests of the page, and of the server to the tables, for each append. */
  readonly requests: number;
  readonly tableRequests: number;
  /** Processor time of the server, in microseconds, for each append. */
  readonly cpuUs: number;
}

const server = new Command('npm run bench:server --')
  .description(
    'Measures the server of a page: requests and processor time of an append, and the memory of documents that it ' +
      'keeps warm. The tables are in memory, so their time is not measured.',
  )
  .option('--appends <n>', 'appends of a page to one document', wholeNumber, 2_000)
  .option('--documents <n>', 'documents that are kept warm', wholeNumber, 1_000)
  .option('--repeat <n>', 'runs; the result is their median', wholeNumber, 5)
  .option('--markdown', 'print the tables in Markdown', false)
  .showHelpAfterError('(add --help for the options)')
  .action(async ({ appends, documents, repeat, markdown }) => {
    const tables = [await appendTable(appends, repeat), await memoryTable(documents)];
    console.log([describeMachine(), ...tables.map(markdown ? markdownTable : plainTable)].join('\n\n'));
  });

/** A server with its stores, and the requests that it sent to the tables. */
class BenchedServer {
  readonly requests: string[] = [];
  readonly #tables = new MemoryLogStore();
  readonly #blobs = new MemoryBlobStore();

  open(): ServerLogs {
    const store = recordRequests(this.#tables, this.requests);
    return new ServerLogs({
      store: unarchived(store),
      tables: store,
      blobs: this.#blobs,
      platform: nativePlatform,
      now: Date.now,
      random: Math.random,
      sleep: async () => undefined,
      newLogId,
      // No document makes room for another one.
      warmBytes: Number.MAX_SAFE_INTEGER,
    });
  }
}

const allows = (): boolean => true;

function cell(row: number): NewEntry {
  return { type: 'Set', version: 1, body: [[row, row % 10, `cell ${row}`]] };
}

/** A page appends to one document. Only the work of the server is timed. */
async function measureAppends(reducer: Reducer | undefined, appends: number): Promise<Appends> {
  const benched = new BenchedServer();
  const logs = benched.open();
  const log = await logs.create();
  const stopwatch = new Stopwatch();
  let sent = 0;
  const pages = await openPageLogs({
    platform: nativePlatform,
    urlOf: String,
    send: (request) => {
      sent++;
      return stopwatch.time(() => logs.answer(request, { allows, reducer }));
    },
  });
  const page = await pages.open(log, { reducer: spreadsheet });
  await page.append(cell(0));
  const [sentBefore, tablesBefore, cpuBefore] = [sent, benched.requests.length, stopwatch.cpuSeconds];
  for (let row = 1; row <= appends; row++) await page.append(cell(row));
  await pages.close();
  return {
    requests: (sent - sentBefore) / appends,
    tableRequests: (benched.requests.length - tablesBefore) / appends,
    cpuUs: ((stopwatch.cpuSeconds - cpuBefore) * 1e6) / appends,
  };
}

async function appendTable(appends: number, repeat: number): Promise<Table> {
  const all = SERVERS.map(([name, reducer]) => ({ name, reducer, runs: [] as Appends[] }));
  // They alternate, so that a busy machine slows down all of them.
  for (let round = 0; round < repeat; round++) {
    for (const { reducer, runs } of all) runs.push(await measureAppends(reducer, appends));
  }
  return {
    title: `${appends.toLocaleString('en')} appends of a page to one document`,
    head: ['server', 'requests of the page', 'requests of the tables', 'processor of the server, µs'],
    rows: all.map(({ name, runs }) => {
      const of = (part: keyof Appends): number => median(runs.map((each) => each[part]));
      return [name, of('requests').toFixed(2), of('tableRequests').toFixed(2), of('cpuUs').toFixed(0)];
    }),
  };
}

/** Memory in use after a collection of garbage, in bytes. */
function memory(): number {
  if (globalThis.gc === undefined) throw new Error('start the program with --expose-gc');
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** The memory that a server takes for documents, beside the tables, which are in memory too. */
async function memoryTable(documents: number): Promise<Table> {
  const benched = new BenchedServer();
  const first = benched.open();
  const logs: LogId[] = [];
  for (let i = 0; i < documents; i++) {
    const log = await first.create();
    const entries = Array.from({ length: CELLS }, (_, row) => cell(row));
    for (let from = 0; from < CELLS; from += 100) await first.client.addEntries(log, entries.slice(from, from + 100));
    logs.push(log);
  }
  await first.close();
  const before = memory();
  const server = benched.open();
  const pages = await openPageLogs({
    platform: nativePlatform,
    urlOf: String,
    send: (request) => server.answer(request, { allows, reducer: spreadsheet }),
  });
  for (const log of logs) await pages.client.addEntry(log, cell(CELLS));
  await pages.close();
  const measured = memory() - before;
  const { logs: warm, bytes } = server.warm;
  if (warm !== documents) throw new Error(`${warm} documents are warm, not ${documents}`);
  const megabytes = (of: number): string => (of / 1e6).toFixed(1);
  return {
    title: `${documents.toLocaleString('en')} warm documents of ${CELLS} cells, each a separate entry`,
    head: ['measured, MB', 'as the server counts it, MB', 'a document, kB'],
    rows: [[megabytes(measured), megabytes(bytes), (measured / documents / 1000).toFixed(1)]],
  };
}

await server.parseAsync();
