import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import type { LogStatus } from '../../src/workers/audit/status.ts';
import { CliPlace } from '../support/cli-place.ts';

let place: CliPlace;

async function statusOf(log: LogId): Promise<LogStatus> {
  const { logs } = (await place.json('status', log)) as { logs: LogStatus[] };
  const [status] = logs;
  if (status === undefined) throw new Error('the log has no status');
  return status;
}

/** Appends edits, each in its own entry. */
async function edit(log: LogId, from: number, count: number): Promise<void> {
  for (let row = from; row < from + count; row++) {
    await place.edit(log, { type: 'Set', cells: [[row, 0, `row ${row}`]] });
  }
}

describe('a division policy on the embedded engine', () => {
  beforeAll(async () => {
    place = await CliPlace.open();
  });
  afterAll(() => place.close());

  test('work builds snapshots and starts segments that nothing asked for', async () => {
    const log = await place.log();
    const policy = ['--snapshot-every-entries', '5', '--segment-every-entries', '12'];
    for (let row = 0; row < 30; row += 10) {
      await edit(log, row, 10);
      await place.json('work', '--until-idle', ...policy);
    }
    const status = await statusOf(log);
    expect(status.segments).toBeGreaterThan(1);
    expect(status.lagEntries).toBeLessThan(8);
    expect(status.stopped).toBeNull();
    expect(await place.json('replay', log)).toMatchObject({ equal: true });
  });

  test('work without a policy leaves the log as it is', async () => {
    const log = await place.log();
    await edit(log, 0, 12);
    expect(await place.json('work', '--until-idle')).toMatchObject({ failures: [] });
    expect(await statusOf(log)).toMatchObject({ segments: 1, entries: 13, lagEntries: 12 });
  });

  test('sweep finds a log that no record asked for, and does nothing the second time', async () => {
    const log = await place.log();
    await edit(log, 0, 9);
    await place.json('work', '--until-idle');
    const policy = ['--log', log, '--snapshot-every-entries', '5'];
    const swept = await place.json('sweep', ...policy);
    expect(swept).toMatchObject({ failures: [], jobs: [{ kind: 'divide' }, { kind: 'snapshot', outcome: 'built' }] });
    expect(await statusOf(log)).toMatchObject({ entries: 11, lagEntries: 0 });
    expect(await place.json('sweep', ...policy)).toMatchObject({ jobs: [], failures: [] });
    // A change is enough for minutes, but only after they have passed.
    await edit(log, 20, 1);
    expect(await place.json('sweep', '--log', log, '--snapshot-every-minutes', '5')).toMatchObject({ jobs: [] });
  });

  test('a number out of range is refused, and nothing is changed', async () => {
    const refused = await place.refusals(
      ['sweep', '--snapshot-every-entries', '0'],
      ['sweep', '--snapshot-every-bytes', '10'],
      ['work', '--until-idle', '--segment-every-entries', '9999999'],
    );
    expect(refused.map(({ message }) => message)).toEqual([
      expect.stringContaining("--snapshot-every-entries: '0' is not a whole number above 0"),
      expect.stringContaining('snapshotEveryBytes is 10'),
      expect.stringContaining('segmentEveryEntries is 9999999'),
    ]);
  });
});
