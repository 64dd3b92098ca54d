import { expect } from 'vitest';
import type * as testingEntry from '../../../src/exports/testing.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { parseLogId } from '../../../src/ids/log-id.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import type { FakeClock } from '../../../src/testing/fake-clock.ts';
import type { GivenEntries, ReducerTest } from '../../../src/testing/given.ts';
import type { MemoryLogs } from '../../../src/testing/memory-logs.ts';
import type { MemoryPipeline } from '../../../src/testing/memory-pipeline.ts';
import type { CallsOf, MemberCalls } from './recorder.ts';
import { serverLogsCalls } from './stores.ts';
import { CORNER, type World } from './world.ts';

const DAY_MS = 24 * 3600 * 1000;
const set = (number: number) => ({
  ...{ type: 'Set', version: 1, body: [[(number - 1) % 3, 0, `value ${number}`]] },
});

/** The id of the first log in memory. */
const LOG = parseLogId('00000000-0000-4000-8000-000000000001');

/**
 * Logs in memory with a log like {@link World.log}, fed and archived. Only its last segment is in
 * the table.
 */
async function filled(world: World): Promise<MemoryLogs> {
  const retention = { keepSegments: 1, keepDays: 1, expire: 'delete' } as const;
  const logs = world.testing.openLogs({ reducer: spreadsheet, retention });
  const log: LogId = await logs.create();
  for (let number = 1; number <= 15; number++) {
    await logs.client.addEntry(log, set(number));
    if (number % 5 > 0) continue;
    await logs.client.addSnapshot(log);
    await logs.pipeline.run();
    await logs.client.startSegment(log);
    await logs.pipeline.run();
  }
  for (let day = 0; day < 4; day++) {
    await logs.clock.advance(DAY_MS);
    await logs.pipeline.run();
  }
  return world.record('MemoryLogs', logs);
}

const clockOf = (world: World): FakeClock => world.record('FakeClock', new world.testing.FakeClock(5));

const pipelineLogs: MemberCalls<Pick<MemoryLogs, 'clock' | 'pipeline'>> = {
  clock: async (world) => {
    const { clock } = await filled(world);
    expect(clock.now()).toBe(Date.UTC(2025, 0, 5));
  },
  pipeline: async (world) => {
    const logs = await filled(world);
    expect(await logs.pipeline.run()).toEqual([]);
    const document = await logs.open(LOG, { reducer: spreadsheet });
    expect((await (await document.at({ number: 4 })).view(CORNER))[0]?.[0]).toBe('value 1');
    expect((await document.view(CORNER))[0]?.[0]).toBe('value 13');
  },
};

export const TESTING: CallsOf<typeof testingEntry> = {
  openLogs: async (world) => {
    const logs = world.testing.openLogs();
    expect((await logs.open(await logs.create(), { reducer: spreadsheet })).number).toBe(0);
  },
  given: (world) =>
    world.testing
      .given(spreadsheet, [set(1)])
      .when(set(4))
      .thenCheck(async (state) => {
        expect((await state.view(CORNER))[0]?.[0]).toBe('value 4');
      }),
  MemoryLogs: { ...serverLogsCalls(filled, () => LOG), ...pipelineLogs },
  FakeClock: {
    now: (world) => expect(clockOf(world).now()).toBe(5),
    set: (world) => {
      const clock = clockOf(world);
      clock.set(new Date(7));
      expect(clock.now()).toBe(7);
    },
    advance: async (world) => {
      const clock = clockOf(world);
      await clock.advance(DAY_MS);
      expect(clock.now()).toBe(DAY_MS + 5);
    },
    sleep: async (world) => {
      const clock = clockOf(world);
      const slept = clock.sleep(DAY_MS).then(clock.now);
      await clock.advance(2 * DAY_MS);
      expect(await slept).toBe(DAY_MS + 5);
    },
  },
};

const notes: Reducer = {
  name: 'notes',
  version: 1,
  fold: (draft, { type, body }) => {
    if (type !== 'Note') throw new Error('no note');
    draft.map('notes', 'string').put(String(body), true);
  },
};
const note = { type: 'Note', version: 1, body: 'a' };

const given = (world: World): GivenEntries<Reducer> => world.record('GivenEntries', world.testing.given(notes, [note]));
const whenNoted = (world: World): ReducerTest<Reducer> =>
  world.record('ReducerTest', given(world).when({ ...note, body: 'b' }));

export const GIVEN_ENTRIES: MemberCalls<GivenEntries<Reducer>> = {
  when: async (world) => {
    const wrong = given(world).when().thenState({});
    await expect(wrong).rejects.toMatchObject({ actual: { maps: { notes: { a: true } } } });
  },
};

export const REDUCER_TEST: MemberCalls<ReducerTest<Reducer>> = {
  thenState: async (world) =>
    expect(await whenNoted(world).thenState({ maps: { notes: { a: true, b: true } } })).toBeUndefined(),
  thenCheck: (world) =>
    whenNoted(world).thenCheck(async (state) => expect(await state.map('notes').get('b')).toBe(true)),
  thenRejected: async (world) => {
    const test = world.record('ReducerTest', given(world).when({ ...note, type: 'Other' }));
    expect(await test.thenRejected(/no note/)).toMatchObject({ code: 'ENTRY_REJECTED' });
  },
};

export const MEMORY_PIPELINE: MemberCalls<MemoryPipeline> = {
  run: async (world) => {
    const logs = world.testing.openLogs({ reducer: spreadsheet });
    const log = await logs.create();
    await logs.client.addSnapshot(log);
    const pipeline = world.record('MemoryPipeline', logs.pipeline);
    expect(await pipeline.run()).toContainEqual(expect.stringContaining(`snapshot ${log}`));
  },
};
