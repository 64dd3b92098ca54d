import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { DocumentState } from '../../src/client/document-state.ts';
import { Listeners } from '../../src/client/listeners.ts';
import { type LiveDocument, LiveRead } from '../../src/client/live-read.ts';
import { LiveLog } from '../support/live-logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

const STEPS = fc.array(fc.constantFrom('change', 'add', 'remove', 'replace', 'retry', 'fail', 'run'), {
  maxLength: 40,
});

test('live reads of one document never show different states, and show the newest one in the end', async () => {
  // States that differ; the reads of the test do not look into them.
  const document = await (await LiveLog.create()).open();
  const states: DocumentState[] = [];
  for (let row = 0; row < 12; row++) {
    states.push(document.state);
    await document.append({ type: 'Set', version: 1, body: [[row, 0, 'x']] });
  }
  await fc.assert(
    fc.asyncProperty(STEPS, fc.scheduler(), async (steps, scheduler) => {
      const listeners = new Listeners();
      let newest = 0;
      const stateOf = (index: number) => states[index % states.length] ?? document.state;
      const source: LiveDocument = {
        subscribe: (listener) => listeners.add(listener),
        getSnapshot: () => stateOf(newest),
        refresh: async () => false,
      };
      let fails = false;
      const read = async (state: DocumentState): Promise<number> => {
        await scheduler.schedule(Promise.resolve());
        if (fails) throw new Error('the store does not answer');
        return states.indexOf(state);
      };
      const reads: { live: LiveRead<number>; stop: () => void }[] = [];
      const check = (): void => {
        const shown = reads
          .map(({ live }) => live.getSnapshot())
          .filter(({ value, error }) => value !== undefined && error === undefined);
        expect(new Set(shown.map(({ value }) => value)).size).toBeLessThanOrEqual(1);
      };
      for (const step of steps) {
        if (step === 'change') {
          newest = Math.min(newest + 1, states.length - 1);
          listeners.call();
        } else if (step === 'add') {
          const live = new LiveRead<number>();
          reads.push({ live, stop: live.follow(source, 'part', read) });
        } else if (step === 'remove') reads.shift()?.stop();
        else if (step === 'replace') {
          const [first] = reads;
          if (first === undefined) continue;
          first.stop();
          first.stop = first.live.follow(source, 'part', read);
        } else if (step === 'retry') reads[0]?.live.getSnapshot().retry();
        else if (step === 'fail') fails = !fails;
        else if (scheduler.count() > 0) await scheduler.waitOne();
        await new Promise((resolve) => setImmediate(resolve));
        check();
      }
      fails = false;
      const settle = async (): Promise<void> => {
        for (;;) {
          await new Promise((resolve) => setImmediate(resolve));
          check();
          if (scheduler.count() === 0) break;
          await scheduler.waitOne();
        }
      };
      await settle();
      for (const { live } of reads) live.getSnapshot().retry();
      await settle();
      const end = reads.map(({ live }) => live.getSnapshot());
      expect(end.map(({ value, error }) => [value, error])).toEqual(reads.map(() => [newest, undefined]));
    }),
    { numRuns: propertyRuns(500) },
  );
});
