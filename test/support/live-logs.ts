import { RemoteLogStore, type SendLogRequest } from '../../src/adapters/web/remote-log-store.ts';
import { ServerLogs } from '../../src/adapters/web/server-logs.ts';
import type { Document } from '../../src/client/document.ts';
import { Logs, type LogsDeps } from '../../src/client/logs.ts';
import type { DocumentOptions } from '../../src/client/options.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { Random } from './models/random.ts';
import { versionedSheet } from './models/versioned-sheet.ts';
import { SheetLog } from './sheet-log.ts';
import { type Interceptor, interceptBlobStore, interceptLogStore } from './stores/interceptor.ts';
import { testDeployment } from './test-deployment.ts';

/** Clients of one log on memory adapters, whose requests are counted and can fail. */
export class LiveLog {
  readonly sheet: SheetLog;
  /** Names of the requests of all clients, in order. Clear it with `length = 0`. */
  readonly requests: string[] = [];
  /** Runs around each request of a client. */
  interceptor: Interceptor = (_, effect) => effect();
  /** Waits of the clients, in milliseconds; each ends immediately and moves the clock. */
  readonly waits: number[] = [];
  #clients = 0;

  private constructor(sheet: SheetLog) {
    this.sheet = sheet;
  }

  static async create(): Promise<LiveLog> {
    return new LiveLog(await SheetLog.create());
  }

  /** Another client, which shares no cache with the others. */
  logs(options: Pick<LogsDeps, 'cacheBytes'> = {}): Logs {
    return new Logs({ ...this.#deps(), ...options });
  }

  /** A server of pages. */
  server(): ServerLogs {
    return new ServerLogs(this.#deps());
  }

  /** A page behind servers. */
  page(send: SendLogRequest): Logs {
    const store = new RemoteLogStore(send);
    return new Logs({ ...this.#deps(), store, tables: store });
  }

  #deps(): LogsDeps {
    // Other numbers than those of the sheet, so that no two entries have the same id.
    const random = new Random(1_000 + ++this.#clients);
    const intercept: Interceptor = async (name, effect) => {
      this.requests.push(name);
      const answer = await this.interceptor(name, effect);
      // The end of the pages came with the last page.
      if (isEnd(answer) && this.requests.at(-2) === name) this.requests.pop();
      return answer;
    };
    const tables = interceptLogStore(this.sheet.tables, intercept);
    const blobs = interceptBlobStore(this.sheet.blobs, intercept);
    return {
      ...testDeployment({ tables, blobs, now: () => this.sheet.nowMs }),
      random: () => random.next(),
      sleep: async (ms) => {
        this.waits.push(ms);
        this.sheet.nowMs += ms;
        // Lets other work run, as a real wait does.
        await new Promise((resolve) => setImmediate(resolve));
      },
      newLogId: () => this.sheet.log,
    };
  }

  /** Opens the log as another client. */
  open(options: Partial<DocumentOptions> = {}): Promise<Document> {
    return this.logs().open(this.sheet.log, { reducer: versionedSheet(1), ...options });
  }
}

/** The rows of a document's current state. */
export function rowsOf(document: Document): Promise<string[][]> {
  return Array.fromAsync(sheetRows(sheetOf(document.state.draft)));
}

function isEnd(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'done' in answer && answer.done === true;
}
