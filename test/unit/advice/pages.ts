import { expect } from 'vitest';
import { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import type { LogRequest } from '../../../src/adapters/web/answer-log-request.ts';
import { answerLogRequest } from '../../../src/adapters/web/answer-log-request.ts';
import type { LogAnswer } from '../../../src/adapters/web/log-message.ts';
import { openLogs, type PageLogsOptions } from '../../../src/adapters/web/open-logs.ts';
import { RemoteLogStore } from '../../../src/adapters/web/remote-log-store.ts';
import { UrlBlobStore } from '../../../src/adapters/web/url-blob-store.ts';
import { textLogId } from '../../../src/ids/log-id.ts';
import { LogClient } from '../../../src/log/client.ts';
import type { Entry } from '../../../src/log/entry.ts';
import { VIRTUAL_TYPES } from '../../../src/log/schedule.ts';
import { entryAt, LOG, NOON, unarchived } from '../../support/logs.ts';
import type { Cases } from './case.ts';

const BYTES = Uint8Array.of(1, 2, 3);
const RETRIES = { attempts: 1, baseMs: 0, capMs: 0 };

/** A store whose objects are at `https://here.example`. Another path is refused. */
function storeAt(origin: string): UrlBlobStore {
  const fetch = async (url: string) => {
    if (!url.startsWith('https://here.example')) throw new TypeError('Failed to fetch');
    return url.endsWith('?signed') ? new Response(BYTES) : new Response('', { status: 403 });
  };
  return new UrlBlobStore({ urlOf: (key) => `${origin}/${key}`, fetch, retries: RETRIES });
}

const SEGMENT = { log: LOG, segment: 0, created: NOON };
const AT = { segment: 0, entry: 1 };

function reserved(type: string, position = AT): Entry {
  return { log: LOG, position, created: NOON, type, version: 1 };
}

interface PageOfLog {
  readonly tables: MemoryLogStore;
  readonly answer: (request: unknown, allowed?: boolean) => Promise<LogAnswer>;
  readonly store: RemoteLogStore;
}

/** A page and its server, with a log. */
async function pageOfLog(): Promise<PageOfLog> {
  const tables = new MemoryLogStore();
  await tables.createLog(SEGMENT, reserved('Snapshot', { segment: 0, entry: 0 }));
  const answer = (request: unknown, allowed = true) =>
    answerLogRequest({ store: unarchived(tables), tables }, request, { allows: () => allowed });
  return { tables, answer, store: new RemoteLogStore(answer) };
}

/** A case in which the server refuses an entry of a page, and another one is appended instead. */
function append(wrong: Entry, right: (page: PageOfLog) => Promise<void>): Cases[string] {
  return async (refused) => {
    const page = await pageOfLog();
    await refused(() => page.store.putEntries([wrong]));
    await right(page);
    expect(await page.tables.getEntry(LOG, AT)).toBeDefined();
  };
}

/** Advice about logs that a page reads through the application's own server. */
export const PAGES: Cases = {
  "Check the network, the URL, and that the server allows the page's origin (CORS)": async (refused) => {
    await refused(() => storeAt('https://elsewhere.example').get('one?signed'));
    expect(await storeAt('https://here.example').get('one?signed')).toEqual(BYTES);
  },
  'Let `urlOf` return a URL that this user may read. If the object may be missing, give the signer of the URL s3:ListBucket, so that S3 says so':
    async (refused) => {
      await refused(() => storeAt('https://here.example').get('one'));
      expect(await storeAt('https://here.example').get('one?signed')).toEqual(BYTES);
    },
  'Let `send` return the JSON that `logs.answer` gave on the server': async (refused) => {
    const { answer } = await pageOfLog();
    const store = (send: (request: LogRequest) => Promise<unknown>) => new RemoteLogStore(send);
    const read = (from: RemoteLogStore) => from.newestSegments(LOG, 2, { consistent: true });
    await refused(() => read(store(async (request) => new Response(JSON.stringify(await answer(request))))));
    const right = store(async (request) => new Response(JSON.stringify(await answer(request))).json());
    expect(await read(right)).toEqual([SEGMENT]);
  },
  'Give `openLogs` of the page the options `types: VIRTUAL_TYPES` and `parseLog: textLogId`': async (refused) => {
    const { tables, answer } = await pageOfLog();
    await tables.putEntries([reserved(VIRTUAL_TYPES.snapshot)]);
    const open = (options: Partial<PageLogsOptions>) =>
      openLogs({ send: answer, urlOf: String, platform: nativePlatform, ...options });
    const read = async (options: Partial<PageLogsOptions>) => {
      const { client } = await open(options);
      return Array.fromAsync(client.read(LOG, { from: { segment: 0, entry: 1 } }));
    };
    await refused(() => read({}));
    expect(await read({ types: VIRTUAL_TYPES, parseLog: textLogId })).toEqual([]);
  },
  'Give `logs.answer` the request of `send`, parsed from JSON': async (refused) => {
    const { answer } = await pageOfLog();
    const read = (parse: (text: string) => unknown) => {
      const store = new RemoteLogStore((request) => answer(parse(JSON.stringify(request))));
      return store.newestSegments(LOG, 2, { consistent: true });
    };
    await refused(() => read((text) => text));
    expect(await read((text) => JSON.parse(text))).toEqual([SEGMENT]);
  },
  'Sign in as a user who may do this': async (refused) => {
    const { answer } = await pageOfLog();
    const as = (allowed: boolean) => new RemoteLogStore((request) => answer(request, allowed));
    await refused(() => as(false).newestSegments(LOG, 2, { consistent: true }));
    expect(await as(true).newestSegments(LOG, 2, { consistent: true })).toEqual([SEGMENT]);
  },
  'Do this on the server': async (refused) => {
    const { tables, store } = await pageOfLog();
    await refused(() => store.segments());
    expect(await Array.fromAsync(tables.segments(LOG))).toEqual([SEGMENT]);
  },
  'Append entries with files or larger bodies on the server': append(
    { ...reserved('Set'), external: 'large' },
    ({ tables }) => tables.putEntries([{ ...reserved('Set'), external: 'large' }]),
  ),
  'Append the entry with a document or a LogClient, which encode its body': append(
    entryAt(LOG, AT, { body: { format: 'bytes', bytes: Uint8Array.of(0xc1, 0xc1) } }),
    async ({ store }) => {
      const client = new LogClient({
        store,
        tables: store,
        blobs: storeAt('https://here.example'),
        now: () => NOON * 1000,
        random: Math.random,
        sleep: async () => undefined,
        newLogId: () => LOG,
      });
      await client.addEntry(LOG, { type: 'Set', version: 1, body: [[0, 0, 'Denver']] });
    },
  ),
  'Append the entry without an expiry': append(entryAt(LOG, AT, { expires: NOON }), ({ store }) =>
    store.putEntries([entryAt(LOG, AT)]),
  ),
  'Start a new segment on the server': append(reserved('End Segment'), ({ tables }) =>
    tables.startSegment({
      end: reserved('End Segment'),
      segment: { ...SEGMENT, segment: 1 },
      first: reserved('Snapshot', { segment: 1, entry: 0 }),
    }),
  ),
  'Append the Snapshot entry without a body': append(entryAt(LOG, AT, { type: 'Snapshot' }), ({ store }) =>
    store.putEntries([reserved('Snapshot')]),
  ),
};
