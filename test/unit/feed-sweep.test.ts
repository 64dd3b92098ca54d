import { describe, expect, test } from 'vitest';
import { ResourceMissingError } from '../../src/errors.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { reportEvent, type SweepEvent } from '../../src/functions/function-event.ts';
import { type SweepFunctionDeps, sweepFunction } from '../../src/functions/sweep-function.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition, START } from '../../src/ids/position.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { condemnedKey } from '../../src/store/keys.ts';
import type { Metric } from '../../src/workers/jobs/report.ts';
import type { FoundEnd } from '../../src/workers/sweep/feed-ends.ts';
import { SweptFeed } from '../../src/workers/sweep/feed-ends.ts';
import { rebuildFeed } from '../../src/workers/sweep/rebuild-feed.ts';
import type { SweepOptions } from '../../src/workers/sweep/sweep.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { FedSheets } from '../support/fed-sheets.ts';
import { feedSpans } from '../support/feed.ts';
import { entryAt, NOON, newLogId } from '../support/logs.ts';
import { set } from '../support/sheet-log.ts';

/** The ends that a sweep finds, as text, by log. */
async function endsOf({ sheets, deps }: FedSheets, options: SweepOptions = {}): Promise<Record<string, string>> {
  const ends: Record<string, string> = {};
  const onEnd = async (log: LogId, { position, created }: FoundEnd): Promise<void> => {
    ends[log] = `${formatPosition(position)}${created === undefined ? '' : ` +${created - NOON}`}`;
  };
  await sheets.sweep(options, { ...deps, onEnd });
  return ends;
}

describe('a sweep with a feed', () => {
  test('finds the newest entry of each log before, at and after Last Snapshot', async () => {
    const fed = new FedSheets();
    const { sheets } = fed;
    const pending = await sheets.client.createLog();
    const atRest = await sheets.atRest(3);
    const edited = await sheets.atRest(2);
    await sheets.edit(edited, set(0, 0, 'one'));
    await sheets.edit(edited, set(0, 0, 'two'));
    await fed.writer.add([]);
    expect(await endsOf(fed)).toEqual({ [pending]: '0/0 +0', [atRest]: '2/0 +0', [edited]: '1/2 +0' });
  });

  test('leaves the feed itself and young entries out', async () => {
    const fed = new FedSheets();
    const { sheets } = fed;
    const log = await sheets.atRest();
    await sheets.edit(log, set(0, 0, 'old'));
    sheets.nowMs += 1_000_000;
    await sheets.edit(log, set(0, 0, 'young'));
    const young = await sheets.client.createLog();
    await fed.writer.add([{ log, position: { segment: 0, entry: 1 } }]);
    expect(await endsOf(fed, { youngSeconds: 900 })).toEqual({ [log]: '0/1 +0' });
    expect(await endsOf(fed)).toEqual({ [log]: '0/2 +1000', [young]: '0/0 +1000' });
  });

  test('finds the end of the segment before a young one, which a busy log always has', async () => {
    const fed = new FedSheets();
    const { sheets } = fed;
    const log = await sheets.atRest(2);
    sheets.nowMs += 1_000_000;
    await sheets.client.startSegment(log);
    expect(await endsOf(fed, { youngSeconds: 900 })).toEqual({ [log]: '1/1' });
    expect(await endsOf(fed)).toEqual({ [log]: '2/0 +1000' });
  });

  test('finds the end of a log that another program archives', async () => {
    const fed = new FedSheets();
    const { sheets } = fed;
    const log = newLogId();
    const first = entryAt(log, START, { type: 'Snapshot' });
    await sheets.tables.createLog({ log, segment: 0, created: NOON, foreign: { A: { S: 'castore' } } }, first);
    await sheets.edit(log, set(0, 0, 'one'));
    expect(await endsOf(fed)).toEqual({ [log]: '0/1' });
  });

  test('takes the same requests as without a feed', async () => {
    const fed = new FedSheets();
    const { sheets, requests, deps } = fed;
    for (let i = 0; i < 5; i++) await sheets.edit(await sheets.atRest(2), set(0, 0, 'one'));
    const count = async (act: () => Promise<unknown>): Promise<readonly string[]> => {
      requests.length = 0;
      await act();
      return requests.toSorted();
    };
    const without = await count(() => sheets.sweep({}, deps));
    expect(await count(() => endsOf(fed))).toEqual(without);
  });
});

test('a sweep collects the garbage of the feed, and leaves it alone once the feed is off', async () => {
  const fed = new FedSheets();
  const { sheets, writer, deps } = fed;
  await writer.add([{ log: await sheets.atRest(), position: START }]);
  await sheets.blobs.put(condemnedKey(FEED_LOG), Uint8Array.of(1));
  sheets.nowMs += 30 * 24 * 3600_000;
  const { sent } = await sheets.sweep({}, deps);
  expect(sent).toContainEqual({ kind: 'collect', log: FEED_LOG });
  expect(await sheets.sweep()).toMatchObject({ failures: [], sent: [] });
});

describe('the sweep function with a feed', () => {
  /** Runs the sweep function as its schedule does, and returns its events. */
  async function run(fed: FedSheets, deps: Partial<SweepFunctionDeps> = {}, event: object = {}) {
    const events: SweepEvent[] = [];
    const published: number[] = [];
    const sweeps = sweepFunction({
      ...fed.deps,
      queues: { snapshot: fed.queue, maintenance: fed.queue },
      policy: DEFAULT_POLICY,
      feed: fed.writer,
      publish: async (checkpoint) => void published.push(checkpoint),
      report: (each) => events.push(each),
      ...deps,
    });
    const result = await sweeps(event, lambdaContext(900_000));
    const ahead = events.flatMap((each) => (each.kind === 'ahead' ? [each] : []));
    const swept = events.find(({ kind }) => kind === 'swept');
    return { result, published, event: events.find(({ kind }) => kind === 'fed' || kind === 'unfed'), ahead, swept };
  }

  test('feeds logs from before the feed, and counts what the stream missed', { tags: ['I10'] }, async () => {
    const fed = new FedSheets();
    const { sheets } = fed;
    const old = await sheets.atRest(3);
    sheets.nowMs += 48 * 3600_000;
    const missed = await sheets.atRest(2);
    sheets.nowMs += 3600_000;
    const young = await sheets.atRest();
    const first = await run(fed);
    expect(first.event).toMatchObject({ kind: 'fed', spans: 2, missed: 1, checkpoint: first.published[0] });
    expect(first.event && reportEvent(first.event).metrics).toEqual([
      { name: 'FeedSpans', unit: 'Count', value: 2 },
      { name: 'FeedSpansMissed', unit: 'Count', value: 1 },
    ]);
    expect(await fed.fed()).toEqual({ [old]: '2/0', [missed]: '1/0' });
    expect((await run(fed)).event).toMatchObject({ spans: 0, missed: 0 });
    expect((await run(fed, {}, { log: young })).event).toMatchObject({ spans: 1, missed: 0 });
  });

  test('without a stream, it feeds young entries too', async () => {
    const fed = new FedSheets();
    const log = await fed.sheets.atRest();
    expect((await run(fed, { hasTrigger: false })).event).toMatchObject({ spans: 1, missed: 0 });
    expect(await fed.fed()).toEqual({ [log]: '0/0' });
  });

  test('feeds many logs in batches, and publishes once', async () => {
    const fed = new FedSheets();
    const logs = await Promise.all(Array.from({ length: 450 }, () => fed.sheets.client.createLog()));
    fed.sheets.nowMs += 3600_000;
    const { published, result } = await run(fed);
    expect(result).toMatchObject({ jobs: 450 });
    expect(published).toHaveLength(1);
    expect(await fed.fed()).toEqual(Object.fromEntries(logs.map((log) => [log, '0/0'])));
  });

  test.each<[string, Partial<SweepFunctionDeps>]>([
    ['cannot be written', { feed: { add: () => Promise.reject(new ResourceMissingError('there is no feed')) } }],
    ['cannot be published', { publish: () => Promise.reject(new ResourceMissingError('there is no topic')) }],
  ])('sends its jobs although the feed %s', async (_, deps) => {
    const fed = new FedSheets();
    const log = await fed.sheets.client.createLog();
    fed.sheets.nowMs += 3600_000;
    const { result, event } = await run(fed, deps);
    expect(result).toMatchObject({ logs: 1, jobs: 1 });
    expect(event).toMatchObject({ kind: 'unfed', error: { code: 'RESOURCE_MISSING' } });
    expect(await fed.jobs()).toMatchObject([{ kind: 'snapshot', log }]);
    expect((await run(fed)).event).toMatchObject({ kind: 'fed' });
    expect(await fed.fed()).toEqual({ [log]: '0/0' });
  });

  test('names each log that ends before the last of its entries that the feed has', async () => {
    const fed = new FedSheets();
    const { sheets, writer } = fed;
    const [back, whole] = [await sheets.atRest(2), await sheets.atRest(2)];
    sheets.nowMs += 3600_000;
    // The stream fed more before the tables went back.
    await writer.add([{ log: back, position: { segment: 3, entry: 7 } }]);
    await writer.add([{ log: whole, position: { segment: 1, entry: 0 } }]);
    const found = await run(fed);
    expect(found.ahead).toMatchObject([{ log: back, error: { code: 'FEED_AHEAD', log: back, segment: 3, entry: 7 } }]);
    expect(found.ahead[0]?.error.message).toContain('ends at 1/0');
    expect(found.ahead[0] && reportEvent(found.ahead[0])).toMatchObject({ level: 'error', fields: { log: back } });
    expect(found.result).toMatchObject({ feedAhead: 1 });
    const ofFeed = ({ name }: Metric) => name === 'FeedAhead';
    expect(found.swept && reportEvent(found.swept).metrics.filter(ofFeed)).toMatchObject([{ value: 1 }]);

    const onFailure = (): void => expect.unreachable();
    await rebuildFeed({ ...fed.deps, feed: writer, onFailure });
    const after = await run(fed);
    expect(after).toMatchObject({ ahead: [], result: { feedAhead: 0 } });
    expect(after.swept && reportEvent(after.swept).metrics.filter(ofFeed)).toMatchObject([{ value: 0 }]);
  });

  test('names no log whose young entries the stream fed, or whose newest entries a stale read lacks', async () => {
    const fed = new FedSheets();
    const { sheets, writer, requests, tables } = fed;
    const log = await sheets.atRest();
    sheets.nowMs += 3600_000;
    await sheets.edit(log, set(0, 0, 'young'));
    await writer.add([{ log, position: { segment: 0, entry: 1 } }]);
    expect(await run(fed)).toMatchObject({ ahead: [] });
    requests.length = 0;
    expect(await run(fed)).toMatchObject({ ahead: [] });
    // The sweep saw the young entry, and need not look again.
    const usual = requests.length;
    sheets.nowMs += 3600_000;
    await run(fed);
    expect(requests).toHaveLength(usual + usual);

    await sheets.edit(log, set(0, 0, 'not seen'));
    type Read = Parameters<typeof tables.items>;
    const stale = {
      ...tables,
      items: (of: Read[0], range: Read[1], options: Read[2]) => tables.items(of, { ...range, to: 2 }, options),
    };
    await writer.add([{ log, position: { segment: 0, entry: 2 } }]);
    expect(await run(fed, { tables: stale })).toMatchObject({ ahead: [] });
  });

  test('finds the snapshots and epochs that the feed needs', async () => {
    const fed = new FedSheets();
    await fed.sheets.atRest();
    await run(fed, { hasTrigger: false });
    expect(await fed.jobs()).toEqual([]);
    fed.sheets.nowMs += 3600_000;
    await run(fed);
    expect(await fed.jobs()).toMatchObject([{ kind: 'snapshot', log: FEED_LOG, position: { segment: 0, entry: 0 } }]);
  });
});

test('counts what the stream missed in parts of a sweep that feed at the same time', async () => {
  const started: ((spans: number) => void)[] = [];
  const add = () => {
    const { promise, resolve } = Promise.withResolvers<number>();
    started.push(resolve);
    return promise.then((spans) => ({ spans, entries: [], checkpoint: 1, ahead: [] }));
  };
  const { deps } = new FedSheets();
  const onAhead = (): void => expect.unreachable();
  const swept = new SweptFeed({ ...deps, feed: { add }, now: () => NOON * 1000, hasStream: true, onAhead });
  const found: FoundEnd = { position: START, newest: START, created: NOON };
  const ends = Array.from({ length: 800 }, () => swept.onEnd(newLogId(), found));
  expect(started).toHaveLength(2);
  started[0]?.(400);
  started[1]?.(0);
  await Promise.all(ends);
  expect(await swept.finish()).toEqual({ spans: 400, missed: 400, ahead: 0, checkpoint: 1 });
});

test('a rebuilt feed has every log from its first entry onward again', { tags: ['I10'] }, async () => {
  const fed = new FedSheets();
  const { sheets, writer, deps, store, queue } = fed;
  const [one, two] = [await sheets.atRest(2), await sheets.atRest()];
  await sheets.edit(two, set(0, 0, 'not fed yet'));
  await writer.add([{ log: one, position: { segment: 0, entry: 0 } }]);
  await writer.add([{ log: one, position: { segment: 1, entry: 0 } }]);
  const onFailure = (): void => expect.unreachable();
  const rebuilt = await rebuildFeed({ ...deps, feed: writer, onFailure });
  expect(rebuilt).toEqual({ from: 3, to: 5, logs: 3, spans: 2 });
  expect(await feedSpans(store)).toEqual(
    new Map([
      [one, [{ log: one, after: undefined, to: { segment: 1, entry: 0 } }]],
      [two, [{ log: two, after: undefined, to: { segment: 0, entry: 1 } }]],
    ]),
  );
  expect(queue.stats()).toMatchObject({ waiting: 0 });
});
