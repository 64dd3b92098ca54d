import { expect, vi } from 'vitest';
import { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { openLogs } from '../../../src/exports/local.ts';
import { openLogs as openMemoryLogs } from '../../../src/exports/testing.ts';
import { FEED_LOG } from '../../../src/feed/feed-log.ts';
import { withFeed } from '../../../src/feed/feed-log-store.ts';
import type { NewEntry } from '../../../src/log/client.ts';
import { withHistory } from '../../../src/state/history/with-history.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import type { Rectangle } from '../../../src/state/spreadsheet/sheet.ts';
import { historyOf } from '../../support/history-log.ts';
import { LiveLog, rowsOf } from '../../support/live-logs.ts';
import { NOON, testLogClient } from '../../support/logs.ts';
import { NOTE, versionedSheet } from '../../support/models/versioned-sheet.ts';
import { expiring } from '../../support/segments.ts';
import { enginePids, temporaryDirectory } from '../../support/stores/shared-engine.ts';
import type { Cases } from './case.ts';

const CITY: NewEntry = { type: 'Set', version: 1, body: [[0, 0, 'Denver']] };

/** Puts the body of each entry under the number of the entry. */
const notes: Reducer = {
  name: 'notes',
  version: 1,
  fold: (draft, { position, body }) => draft.map('notes', 'number').put(position.entry, body),
};

function rectangle(rows: number, columns: number): Rectangle {
  return { rows: { from: 0, to: rows }, columns: { from: 0, to: columns } };
}

/** Loses the answer to an append, and those to later reads. */
function loseAnswer(live: LiveLog): void {
  live.interceptor = async (name, effect) => {
    const answer = await effect();
    if (name === 'putEntries' || name === 'entries') throw new StoreUnavailableError('the connection was lost');
    return answer;
  };
}

/** A client, and two logs with their first entries. */
async function twoLogs() {
  const made = testLogClient();
  return { ...made, logs: [await made.client.createLog(), await made.client.createLog()] as const };
}

/** Advice for applications that hold documents, or append to several logs. */
export const CLIENT: Cases = {
  'Use the log that exists, as { ifMissing: true } does, or choose another id': async (refused) => {
    const logs = openMemoryLogs();
    await logs.create('org-7/budget');
    await refused(() => logs.create('org-7/budget'));
    expect(await logs.create('org-7/budget', { ifMissing: true })).toBe('org-7/budget');
    expect(await logs.create('org-7/plan')).toBe('org-7/plan');
    await logs.close();
  },
  'Look at the new state, and make the change again if it is still wanted': async (refused) => {
    const live = await LiveLog.create();
    const [document, other] = [await live.open({ reducer: spreadsheet }), await live.open({ reducer: spreadsheet })];
    await other.append([CITY, { type: 'Delete Rows', version: 1, body: [0, 1] }]);
    await refused(() => document.append(CITY));
    expect(await rowsOf(document)).toEqual([]);
    await document.append(CITY);
    expect(await rowsOf(document)).toEqual([['Denver']]);
  },
  'Give an array of { log, entries }': async (refused) => {
    const { client, logs } = await twoLogs();
    for (const appends of [undefined, [], [CITY], [{ entries: [CITY] }]]) {
      await refused(() => Reflect.apply(client.transact, client, [appends]));
    }
    expect(await client.transact(logs.map((log) => ({ log, entries: [CITY] })))).toHaveLength(2);
  },
  'Give all entries of a log in one append': async (refused) => {
    const { client, logs } = await twoLogs();
    const [log] = logs;
    await refused(() => client.transact([log, log].map((each) => ({ log: each, entries: [CITY] }))));
    expect(await client.transact([{ log, entries: [CITY, CITY] }])).toHaveLength(1);
  },
  "Give the beginning of ids, such as 'org-7/', or call list without options for all logs": async (refused) => {
    const logs = (await LiveLog.create()).logs();
    const list = (options: unknown) => Array.fromAsync(Reflect.apply(logs.list, logs, [options]));
    await logs.create('org-7/budget');
    for (const prefix of [undefined, 7, 'x'.repeat(257)]) await refused(() => list({ prefix }));
    expect(await list({ prefix: 'org-7/' })).toMatchObject([{ log: 'org-7/budget' }]);
    expect(await list(undefined)).toHaveLength(2);
  },
  'Append an entry with the largest values instead': async (refused) => {
    const { client, logs } = await twoLogs();
    const [log] = logs;
    const large = { note: 'x'.repeat(5_000) };
    await refused(() => client.updateLogAttributes(log, { set: large }));
    await client.addEntry(log, { type: 'Note', version: 1, body: large });
  },
  'Append fewer entries together': async (refused) => {
    const { client, logs } = await twoLogs();
    const transact = (count: number) =>
      client.transact(logs.map((log) => ({ log, entries: Array<NewEntry>(count).fill(CITY) })));
    await refused(() => transact(51));
    expect(await transact(50)).toHaveLength(2);
  },
  'Give each new entry another id, or none': async (refused) => {
    const { client: earlier, store, logs } = await twoLogs();
    const id = Uint8Array.of(1, 2, 3);
    await earlier.addEntry(logs[0], { ...CITY, id });
    const { client } = testLogClient({ store });
    client.sawEnd({ log: logs[0], position: { segment: 0, entry: 0 }, number: 0, type: 'Snapshot' }, NOON * 1000);
    const transact = (entry: NewEntry) => client.transact(logs.map((log) => ({ log, entries: [entry] })));
    await refused(() => transact({ ...CITY, id }));
    expect(await transact(CITY)).toHaveLength(2);
  },
  'Append to the other logs only; logfold itself writes the feed': async (refused) => {
    const { client } = testLogClient({ store: withFeed(new MemoryLogStore(), new MemoryLogStore()) });
    const log = await client.createLog();
    await client.createLog(FEED_LOG);
    await refused(() => client.transact([log, FEED_LOG].map((each) => ({ log: each, entries: [CITY] }))));
    expect(await client.transact([{ log, entries: [CITY] }])).toHaveLength(1);
  },
  'Give openLogs the option `reducer`': async (refused) => {
    await refused(() => openMemoryLogs().pipeline.run());
    await openMemoryLogs({ reducer: spreadsheet }).pipeline.run();
  },
  'Call openLogs again': async (refused) => {
    const live = await LiveLog.create();
    const logs = live.logs();
    await logs.close();
    const steps = [
      () => logs.create(),
      () => logs.open(live.sheet.log, { reducer: spreadsheet }),
      () => logs.client,
      () => logs.list().next(),
    ];
    for (const step of steps) await refused(step);
    const document = await live.logs().open(live.sheet.log, { reducer: spreadsheet });
    await document.append(CITY);
    expect(await rowsOf(document)).toEqual([['Denver']]);
  },
  "Give 'open' a reducer: …": async (refused) => {
    const live = await LiveLog.create();
    const logs = live.logs();
    const { log } = live.sheet;
    for (const reducer of [
      undefined,
      { ...notes, name: '' },
      { ...notes, version: 0 },
      { name: 'notes', version: 1 },
    ]) {
      await refused(() => Reflect.apply(logs.open, logs, [log, { reducer }]));
    }
    expect(live.requests).toEqual([]);
    await logs.open(log, { reducer: notes });
  },
  'Give { map, key }, { row, column }, { row } or { collection, id }; rows and columns count from 0': async (
    refused,
  ) => {
    const document = await (await LiveLog.create()).open({ reducer: spreadsheet });
    await document.append(CITY);
    for (const place of [{ row: -1 }, { row: 0, column: 2 ** 20 }, { map: 'cells' }, { column: 1 }, {}]) {
      await refused(() => Reflect.apply(document.history, document, [place]).next());
    }
    expect(await historyOf(document, { row: 0, column: 0 })).toMatchObject([{ number: 1, value: 'Denver' }]);
    expect(await historyOf(document, { row: 0 })).toMatchObject([{ number: 1, value: [[0, 'Denver']] }]);
  },
  'Give the place as a map and a key': async (refused) => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: notes });
    const position = await document.mutate(CITY);
    await refused(() => historyOf(document, { row: 0, column: 0 }));
    await refused(() => historyOf(document, { collection: 'notes', id: 'a' }));
    const revisions = await historyOf(document, { map: 'notes', key: position?.entry ?? 0 });
    expect(revisions).toMatchObject([{ number: 1, position, value: CITY.body }]);
  },
  'Fold logs with withHistory(reducer) before their entries expire, or archive segments first': async (refused) => {
    const recording = withHistory(spreadsheet);
    for (const how of ['plain', 'recorded', 'archived']) {
      const reducer = how === 'recorded' ? recording : spreadsheet;
      const live = await LiveLog.create();
      const { sheet } = live;
      const { log } = sheet;
      await sheet.append(CITY);
      await sheet.complete(await sheet.snapshot(), { reducer });
      await sheet.complete(await sheet.segment(), { reducer });
      if (how === 'archived') await sheet.archive(0, { reducer });
      else await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(sheet.nowMs / 1000));
      await sheet.tables.deleteEntries(log, 0, [0, 1, 2, 3]);
      const document = await live.open({ reducer });
      const read = () => historyOf(document, { row: 0, column: 0 });
      if (how === 'plain') await refused(read);
      else expect(await read()).toMatchObject([{ number: 1, value: 'Denver' }]);
    }
  },
  'Append the change with a higher number, and give each writer another client name': async (refused) => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: spreadsheet });
    const numbered = (client: string, mutation: number): NewEntry => ({ ...CITY, once: { client, mutation } });
    await live.sheet.append(numbered('shared', 2));
    await refused(() => document.append(numbered('shared', 1)));
    expect(await document.append(numbered('shared', 3))).toBeDefined();
    expect(await document.append(numbered('own', 1))).toBeDefined();
  },
  'Look whether the state has the change. If it has not, append it with a higher number': async (refused) => {
    const live = await LiveLog.create();
    const { sheet } = live;
    for (const mutation of [1, 3]) await sheet.append({ ...CITY, once: { client: 'phone', mutation } });
    await sheet.completed();
    await sheet.covered();
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(sheet.nowMs / 1000));
    await sheet.tables.deleteEntries(sheet.log, 0, [0, 1, 2, 3, 4]);
    const document = await live.open();
    await refused(() => document.append({ ...CITY, once: { client: 'phone', mutation: 1 } }));
    expect(await rowsOf(document)).toEqual([['Denver']]);
    expect(await document.append({ ...CITY, once: { client: 'phone', mutation: 4 } })).toBeDefined();
  },
  'Open the log again': async (refused) => {
    const live = await LiveLog.create();
    const document = await live.open();
    document.close();
    await refused(() => document.append(CITY));
    const again = await live.open();
    await again.append(CITY);
    expect(await rowsOf(again)).toEqual([['Denver']]);
  },
  "Correct the reducer and raise its version, or repair the entry; then run 'logfold resume LOG' and open the log again":
    async (refused) => {
      const live = await LiveLog.create();
      await live.sheet.append({ type: NOTE, version: 1 });
      const document = await live.open({ onBadEntry: 'stop' });
      await refused(() => document.append(CITY));
      const again = await live.open({ reducer: versionedSheet(2), onBadEntry: 'stop' });
      await again.append(CITY);
      expect(await rowsOf(again)).toEqual([['DENVER']]);
    },
  'Read its maps with map(name)': async (refused) => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: notes });
    await document.append({ type: 'Note', version: 1, body: 'a note' });
    await refused(() => document.view(rectangle(1, 1)));
    expect(await Array.fromAsync(document.map('notes').range())).toEqual([{ key: 1, value: 'a note' }]);
  },
  'Refresh the document and look for the entry before you append it again, or append it with a client and a mutation, which apply once':
    async (refused) => {
      const live = await LiveLog.create();
      const document = await live.open();
      const once = { client: 'ours', mutation: 1 };
      for (const entry of [CITY, { ...CITY, body: [[1, 0, 'Austin']], once }]) {
        loseAnswer(live);
        await refused(() => document.append(entry));
        live.interceptor = (_, effect) => effect();
        await document.refresh();
      }
      expect(await rowsOf(document)).toEqual([['Denver'], ['Austin']]);
      expect(await document.append({ ...CITY, body: [[1, 0, 'Boston']], once })).toBeUndefined();
      expect(await rowsOf(document)).toEqual([['Denver'], ['Austin']]);
    },
  'View a smaller rectangle, or export the sheet': async (refused) => {
    const live = await LiveLog.create();
    const document = await live.open();
    await document.append(CITY);
    await refused(() => document.view(rectangle(1_000_000, 2)));
    expect(await document.view(rectangle(1, 2))).toEqual([['Denver', null]]);
    expect(await rowsOf(document)).toEqual([['Denver']]);
  },
  'Close the logs and open them again, which starts another engine': async (refused) => {
    const directory = await temporaryDirectory();
    const logs = await openLogs({ directory });
    const document = await logs.open(await logs.create(), { reducer: spreadsheet });
    process.kill((await enginePids(directory)).engine, 'SIGKILL');
    // The supervisor needs a moment to notice the loss.
    await vi.waitUntil(() => document.refresh().catch((error) => `${error}`.includes('has ended')), 60_000);
    await refused(() => document.refresh());
    await logs.close();
    const again = await openLogs({ directory });
    const reopened = await again.open(document.log, { reducer: spreadsheet });
    await reopened.append(CITY);
    expect(await rowsOf(reopened)).toEqual([['Denver']]);
    await again.close();
  },
};
