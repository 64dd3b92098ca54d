import { describe, expect, test } from 'vitest';
import { withScratch } from '../../src/adapters/filesystem/scratch.ts';
import { UsageError } from '../../src/errors.ts';
import { type ReplayEvent, reportEvent } from '../../src/functions/function-event.ts';
import { replayFunction } from '../../src/functions/replay-function.ts';
import { encodeRoot } from '../../src/snapshot/root.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { LOG } from '../support/logs.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

/** Creates a log with a complete snapshot of two edits at 0/3, and its replay function. */
async function replayable(remainingMs = 900_000) {
  const sheet = await SheetLog.create();
  await sheet.edit(set(0, 0, 'a'), set(1, 0, 'b'));
  const position = await sheet.completed();
  const events: ReplayEvent[] = [];
  const replay = replayFunction({
    ...sheet.deps,
    rangeEntries: 1,
    withScratch,
    report: (event) => void events.push(event),
  });
  return { sheet, position, events, run: (event: unknown) => replay(event, lambdaContext(remainingMs, 'request')) };
}

describe('the replay function', () => {
  test('it replays to the newest snapshot or to a position, and writes nothing', async () => {
    const { sheet, position, run, events } = await replayable();
    const before = await sheet.contents();
    expect(await run({ log: LOG })).toMatchObject({ log: LOG, position, equal: true, entries: 3 });
    const after = { segment: 0, entry: position.entry + 1 };
    expect(await run({ log: LOG, at: `0/${after.entry}` })).toMatchObject({ position: after, equal: true, entries: 4 });
    expect(await sheet.contents()).toEqual(before);
    expect(events).toMatchObject([{ kind: 'replayed', run: 'request', log: LOG }, { replayed: { entries: 4 } }]);
  });

  test('it reports that there is no stored snapshot, which is neither equal nor a difference', async () => {
    const { run, events } = await replayable();
    expect(await run({ log: LOG, at: '0/2' })).toMatchObject({ equal: null, stored: null, snapshot: null, entries: 2 });
    const [event] = events;
    if (event === undefined) throw new Error('nothing was reported');
    expect(reportEvent(event)).toMatchObject({
      level: 'warn',
      message: expect.stringContaining('found no stored snapshot'),
    });
    expect(reportEvent(event).metrics).toEqual([{ name: 'ReplaysDiffered', unit: 'Count', value: 0 }]);
  });

  test('it reports as an error that a snapshot is not the fold of its log', async () => {
    const { sheet, position, run, events } = await replayable();
    await sheet.edit(set(0, 0, 'another'));
    const forged = await sheet.snapshot();
    const { stored } = encodeRoot(sheet.deps.platform, { ...(await sheet.root(position)), position: forged });
    await sheet.tables.completeSnapshot(LOG, forged, { inline: stored });
    await sheet.tables.advanceLastSnapshot(
      LOG,
      { position: forged },
      (await sheet.segmentItem(forged.segment)).lastSnapshot,
    );
    expect(await run({ log: LOG })).toMatchObject({ equal: false });
    const [event] = events;
    if (event === undefined) throw new Error('nothing was reported');
    expect(reportEvent(event)).toMatchObject({
      level: 'error',
      fields: { correlationId: 'request', log: LOG, position: `0/${forged.entry}`, equal: false },
    });
    expect(reportEvent(event).metrics).toEqual([{ name: 'ReplaysDiffered', unit: 'Count', value: 1 }]);
  });

  test.each([
    ['without content', undefined],
    ['without a log', {}],
    ['with a malformed id', { log: '0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f' }],
    ['with a malformed position', { log: LOG, at: 'the end' }],
    ['with a number beyond the limit', { log: LOG, at: '0/9999999999' }],
    ['from a position without a snapshot', { log: LOG, from: '0/1' }],
    ['from its own end', { log: LOG, from: '0/3' }],
    ['with an unknown field', { log: LOG, to: '0/1' }],
  ])('it refuses an event %s', async (_what, event) => {
    const { run } = await replayable();
    await expect(run(event)).rejects.toThrow(UsageError);
  });

  test('it refuses a position that the log does not have', async () => {
    const { run } = await replayable();
    await expect(run({ log: LOG, at: '0/9' })).rejects.toThrow('the log has no position 0/9');
  });

  test('it ends before its time is up, reports its progress, and leaves nothing behind', async () => {
    const { sheet, run, events } = await replayable(30_000);
    const before = await sheet.contents();
    const error = await run({ log: LOG }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'TIME_UP', log: LOG, message: expect.stringContaining('out at 0/1, after 1') });
    expect(error).toMatchObject({ advice: expect.stringContaining(`logfold replay ${LOG} --at 0/3`) });
    expect(events).toEqual([]);
    expect(await sheet.contents()).toEqual(before);
  });
});
