import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { Document } from '../../src/client/document.ts';
import { Logs } from '../../src/client/logs.ts';
import { AppendUncertainError, EntryExistsError, StoreUnavailableError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { NewEntry } from '../../src/log/client.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { newLogId } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { interceptLogStore } from '../support/stores/interceptor.ts';
import { testDeployment } from '../support/test-deployment.ts';

const ITEMS = ['chair', 'lamp', 'table', 'vase'];

/** A room: the things in it. An entry that takes a thing that is not there would be a lost move. */
const room: Reducer = {
  name: 'room',
  version: 1,
  fold: (draft, { type, body }) => {
    const things = draft.map('things', 'string');
    if (type === 'Bring') things.put(String(body), true);
    else things.delete(String(body));
  },
};

const entry = (type: 'Bring' | 'Take', thing: string): NewEntry => ({ type, version: 1, body: thing });

/** Two rooms, and people who carry things from one to the other at the same time. */
class Rooms {
  readonly tables = new MemoryLogStore({ pageItems: 5 });
  readonly blobs = new MemoryBlobStore();
  readonly logs: readonly [LogId, LogId] = [newLogId(), newLogId()];
  readonly random: Random;
  moves = 0;
  conflicts = 0;
  faults = 0;

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  /** The logs as one process sees them. Some of its writes fail before or after their effect. */
  process(isFaulty: boolean): Logs {
    const tables = interceptLogStore(this.tables, async (name, effect) => {
      await new Promise((resolve) => setImmediate(resolve));
      const fails = isFaulty && name === 'putEntries' && this.random.chance(0.2);
      if (!fails) return effect();
      this.faults++;
      if (this.random.chance(0.5)) await effect();
      throw new StoreUnavailableError('the connection was lost');
    });
    const random = new Random(this.random.integer(1, 2 ** 30));
    return new Logs({
      ...testDeployment({ tables, blobs: this.blobs, reducer: room }),
      random: () => random.next(),
      sleep: () => new Promise((resolve) => setImmediate(resolve)),
    });
  }

  async fill(): Promise<void> {
    const { client } = this.process(false);
    for (const log of this.logs) await client.createLog(log);
    await client.addEntries(
      this.logs[0],
      ITEMS.map((thing) => entry('Bring', thing)),
    );
  }

  /** A person carries things, and forgets everything after a failure, as a page does. */
  async person(moves: number): Promise<void> {
    for (let i = 0; i < moves; i++) {
      const logs = this.process(true);
      try {
        await this.#carry(logs);
      } catch (error) {
        if (!(error instanceof StoreUnavailableError) && !(error instanceof AppendUncertainError)) throw error;
      }
      await this.check();
    }
  }

  async #carry(logs: Logs): Promise<void> {
    const documents = await Promise.all(this.logs.map((log) => logs.open(log, { reducer: room })));
    for (;;) {
      const [from, to] = this.random.chance(0.5) ? documents : documents.toReversed();
      if (from === undefined || to === undefined) return;
      const thing = this.random.pick(await thingsIn(from));
      const unrelated = this.random.chance(0.3);
      try {
        await logs.client.transact([
          ...(thing === undefined ? [] : [{ log: from.log, entries: [entry('Take', thing)], after: from.newest }]),
          {
            log: to.log,
            entries: [thing === undefined ? entry('Take', 'nothing') : entry('Bring', thing)],
            // A thing that is not there can be brought after whatever others do.
            ...(unrelated ? { snapshotBefore: true } : { after: to.newest }),
          },
        ]);
        this.moves++;
        return;
      } catch (error) {
        if (!(error instanceof EntryExistsError)) throw error;
        this.conflicts++;
        expect(this.logs).toContain(error.log);
        for (const document of documents) await document.refresh();
      }
    }
  }

  /** Every thing is in exactly one room. Nothing comes between the reads of the two rooms. */
  async check(): Promise<void> {
    const items = await Promise.all(
      this.logs.map((log) => Array.fromAsync(this.tables.entries(log, { segment: 0, from: 0, to: 10_000 }))),
    );
    const places = new Map<string, number>(ITEMS.map((thing) => [thing, 0]));
    for (const { type, body } of items.flat(2)) {
      if (type === 'Snapshot' || body?.format !== 'bytes') continue;
      const thing = new TextDecoder().decode(body.bytes.subarray(1));
      if (!places.has(thing)) continue;
      places.set(thing, (places.get(thing) ?? 0) + (type === 'Bring' ? 1 : -1));
    }
    expect(Object.fromEntries(places)).toEqual(Object.fromEntries(ITEMS.map((thing) => [thing, 1])));
    for (const log of this.logs) {
      const { number } = (await this.tables.newestEntry(log, 0)) ?? {};
      const counted = items.flat(2).filter((found) => found.log === log && found.type !== 'Snapshot');
      expect(number).toBe(counted.length);
    }
  }
}

async function thingsIn(document: Document): Promise<string[]> {
  const things = await Array.fromAsync(document.state.map('things').range());
  return things.map(({ key }) => String(key));
}

test('a thing that is moved between two documents is always in exactly one of them', { tags: ['I8'] }, async () => {
  let [moves, conflicts, faults] = [0, 0, 0];
  for (let seed = 1; seed <= propertyRuns(100); seed++) {
    const rooms = new Rooms(seed);
    await rooms.fill();
    const people = Array.from({ length: 3 }, () => rooms.person(4));
    await Promise.all(people);
    await rooms.check();
    const documents = await Promise.all(rooms.logs.map((log) => rooms.process(false).open(log, { reducer: room })));
    const things = (await Promise.all(documents.map(thingsIn))).flat();
    expect(things.sort()).toEqual(ITEMS);
    moves += rooms.moves;
    conflicts += rooms.conflicts;
    faults += rooms.faults;
  }
  expect(Math.min(moves, conflicts, faults)).toBeGreaterThan(0);
});
