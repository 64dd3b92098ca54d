import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { type DivisionPolicy, type DivisionSettings, divisionOf } from '../../src/log/division-policy.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { route, type StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { decodeJob, type Job } from '../../src/workers/jobs/job.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { SheetLogs } from '../support/sheet-logs.ts';

type Step =
  | { readonly kind: 'append'; readonly entries: number }
  | { readonly kind: 'snapshot' | 'segment' }
  | { readonly kind: 'deliver'; readonly records: readonly ('lost' | 'once' | 'twice')[] }
  | { readonly kind: 'work'; readonly at: number; readonly twice: boolean };

const steps = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ kind: fc.constant('append' as const), entries: fc.integer({ min: 1, max: 6 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('snapshot' as const, 'segment' as const) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('deliver' as const),
        records: fc.array(fc.constantFrom('lost' as const, 'once' as const, 'once' as const, 'twice' as const)),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constant('work' as const), at: fc.nat(), twice: fc.boolean() }),
    },
  ),
  { maxLength: 60 },
);

const on = (min: number, max: number) => fc.option(fc.integer({ min, max }), { nil: 0 });
const policies: fc.Arbitrary<DivisionSettings> = fc
  .record({
    snapshotEveryEntries: on(1, 12),
    snapshotEveryBytes: on(1_000, 3_000),
    segmentEveryEntries: on(1, 30),
    segmentEveryBytes: on(1_000, 8_000),
  })
  .filter((settings) => Object.values(settings).some((value) => value > 0));

/** A log, its stream and its queue, without any order or promise. */
class Divided {
  readonly sheets: SheetLogs;
  readonly #division: DivisionPolicy;
  readonly #log: LogId;
  readonly #jobs: Job[] = [];
  readonly #seen = new Set<string>();
  #row = 0;

  private constructor(sheets: SheetLogs, log: LogId, settings: DivisionSettings) {
    this.sheets = sheets;
    this.#log = log;
    this.#division = divisionOf(settings);
  }

  static async create(settings: DivisionSettings): Promise<Divided> {
    const sheets = new SheetLogs();
    return new Divided(sheets, await sheets.client.createLog(), settings);
  }

  async take(step: Step): Promise<void> {
    const { client } = this.sheets;
    switch (step.kind) {
      case 'append':
        for (let i = 0; i < step.entries; i++) {
          await this.sheets.edit(this.#log, { type: 'Set', cells: [[this.#row++, 0, 'x'.repeat(this.#row % 90)]] });
        }
        return;
      case 'snapshot':
        await client.addSnapshot(this.#log);
        return;
      case 'segment':
        // Refused if the segment has no complete snapshot yet.
        await client.startSegment(this.#log).catch(() => undefined);
        return;
      case 'deliver':
        return this.#deliver(step.records);
      case 'work': {
        const [job] = this.#jobs.splice(step.at % Math.max(1, this.#jobs.length), 1);
        if (job === undefined) return;
        await this.#run(step.twice ? [job, job] : [job]);
      }
    }
  }

  /** A sweep, and everything that it makes due. */
  async rest(): Promise<void> {
    for (let rounds = 0; rounds < 10; rounds++) {
      const { sent, failures } = await this.sheets.sweep({}, { division: this.#division });
      expect(failures).toEqual([]);
      if (sent.length === 0) return;
      await this.#run(sent);
    }
    throw new Error('sweeps send jobs after 10 rounds');
  }

  /** The segments of the log, with the items of each. */
  async segments(): Promise<StoredItem[][]> {
    const segments = await Array.fromAsync(this.sheets.tables.segments(this.#log));
    const all = { from: 0, to: MAX_NUMBER + 1 };
    return Promise.all(
      segments.map(async ({ segment }) =>
        (await Array.fromAsync(this.sheets.tables.items(this.#log, { segment, ...all }))).flat(),
      ),
    );
  }

  async replays(): Promise<boolean | null> {
    return (await replay({ ...this.sheets.deps, scratch: new MemoryChunks() }, this.#log)).equal;
  }

  async #run(jobs: readonly Job[]): Promise<void> {
    await this.sheets.runWith({ ...this.sheets.deps, division: this.#division }, jobs);
  }

  async #deliver(fates: readonly ('lost' | 'once' | 'twice')[]): Promise<void> {
    const records: StreamRecord[] = [];
    for (const items of await this.segments()) {
      for (const { S = {}, N = {}, ...rest } of items) {
        const eventId = `${S.B?.at(-1)}/${N.N}`;
        if (this.#seen.has(eventId)) continue;
        this.#seen.add(eventId);
        const keys = { S, N };
        const record = {
          eventId,
          eventName: 'INSERT',
          sequenceNumber: '1',
          keys,
          newImage: { ...keys, ...rest },
        } as const;
        const fate = fates[records.length % Math.max(1, fates.length)] ?? 'once';
        for (let copies = ['lost', 'once', 'twice'].indexOf(fate); copies > 0; copies--) records.push(record);
      }
    }
    const queue = { send: async ({ body }: { readonly body: string }) => void this.#jobs.push(decodeJob(body)) };
    const report = (_: StreamRecord, error: unknown): void => {
      throw error;
    };
    await route({ queue, types: RESERVED_TYPES, division: this.#division, report }, records);
  }
}

const isSnapshot = (item: StoredItem | undefined): boolean => item?.T?.S === RESERVED_TYPES.snapshot;

test('after a sweep no log has more than its policy allows since its newest Snapshot entry, whatever records are lost', {
  tags: ['I1', 'I5'],
}, async () => {
  await fc.assert(
    fc.asyncProperty(policies, steps, async (settings, taken) => {
      const divided = await Divided.create(settings);
      let byHand = 0;
      for (const step of taken) {
        if (step.kind === 'snapshot') byHand++;
        await divided.take(step);
      }
      await divided.rest();
      const segments = await divided.segments();
      const { snapshotEveryEntries, snapshotEveryBytes, segmentEveryEntries } = settings;
      const off = (limit: number | undefined): number => (limit ? limit : Number.POSITIVE_INFINITY);
      const open = segments.at(-1) ?? [];
      const tail = open.slice(open.findLastIndex(isSnapshot) + 1);
      expect(tail.length).toBeLessThan(off(snapshotEveryEntries));
      expect(tail.reduce((sum, item) => sum + itemBytes(item), 0)).toBeLessThan(off(snapshotEveryBytes));
      // A segment does not end directly after a Snapshot entry.
      if (tail.length > 0) expect(open.length - 1).toBeLessThan(off(segmentEveryEntries));
      // Only the application may append two Snapshot entries in a row.
      const all = segments.flat().filter((item) => item.T?.S !== RESERVED_TYPES.endSegment);
      const inARow = all.filter((item, i) => isSnapshot(item) && isSnapshot(all[i - 1])).length;
      expect(inARow).toBeLessThanOrEqual(byHand + taken.filter(({ kind }) => kind === 'segment').length);
      if (byHand === 0 && !taken.some(({ kind }) => kind === 'segment')) expect(inARow).toBe(0);
      expect(await divided.replays()).not.toBe(false);
    }),
    { numRuns: propertyRuns(300, 60) },
  );
});
