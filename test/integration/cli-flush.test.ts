import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import type { LogStatus } from '../../src/workers/audit/status.ts';
import { runCli } from '../support/cli.ts';
import { CliPlace, refusalOf } from '../support/cli-place.ts';
import { Random } from '../support/models/random.ts';

const COLUMNS = 10;
const CELLS = 12_000;

let place: CliPlace;

/** As many cells of random text as make some leaves. */
function full(): SheetEdit {
  const random = new Random(1);
  const cells = Array.from({ length: CELLS }, (_, i) => {
    return [Math.floor(i / COLUMNS), i % COLUMNS, random.text(12)] as const;
  });
  return { type: 'Set', cells };
}

/** Every nth cell. */
function every(nth: number, value: string): SheetEdit {
  const cells = Array.from({ length: Math.ceil(CELLS / nth) }, (_, i) => {
    return [Math.floor((i * nth) / COLUMNS), (i * nth) % COLUMNS, value] as const;
  });
  return { type: 'Set', cells };
}

async function statusOf(log: LogId): Promise<LogStatus | undefined> {
  const { logs } = (await place.json('status', log)) as { logs: LogStatus[] };
  return logs[0];
}

/** A log with a snapshot, then edits, then another snapshot, as the pipeline builds them. */
async function worked(edits: SheetEdit): Promise<{ log: LogId; work: Record<string, unknown> }> {
  const log = await place.log(full());
  await place.client.addSnapshot(log);
  await place.json('work', '--until-idle');
  await place.edit(log, edits);
  await place.client.addSnapshot(log);
  return { log, work: await place.json('work', '--until-idle') };
}

describe('buffered edits', () => {
  beforeAll(async () => {
    place = await CliPlace.open();
  });
  afterAll(() => place.close());

  test('flush writes them into the tree and changes nothing that is read', async () => {
    const { log, work } = await worked(every(1_000, 'edited'));
    expect(work).toMatchObject({ snapshots: 1, flushes: 0 });
    expect(await statusOf(log)).toMatchObject({ bufferedEdits: CELLS / 1_000 });
    const before = await place.json('export', log);

    const flushed = await place.json('flush', log);
    const position = { segment: 0, entry: 4 };
    expect(flushed).toMatchObject({ log, position, outcome: 'flushed', flushedEdits: CELLS / 1_000 });
    expect(flushed.chunksWritten).toBeGreaterThan(1);

    expect(await place.json('export', log)).toEqual(before);
    const stateHash = flushed.stateHash;
    expect(await place.json('replay', log)).toMatchObject({ equal: true, stored: stateHash, replayed: stateHash });
    expect(await place.json('verify', log)).toMatchObject({ snapshots: 3, problems: [] });
    expect(await statusOf(log)).toMatchObject({ bufferedEdits: 0, lastSnapshot: position, stopped: null });

    const again = await runCli(['flush', log, ...place.words]);
    expect(again).toMatchObject({ code: 0, stdout: `flush ${log} 0/4: no buffered edits\n` });
  });

  test('the pipeline flushes them when that is due', async () => {
    const { log, work } = await worked(every(4, 'x'));
    expect(work).toMatchObject({ snapshots: 1, flushes: 1, stopped: [], failures: [] });
    expect(await statusOf(log)).toMatchObject({ bufferedEdits: 0 });
    expect(await place.json('replay', log)).toMatchObject({ equal: true });
    expect(await place.json('verify', log)).toMatchObject({ problems: [] });
  });

  test('flush refuses a log without a snapshot', async () => {
    const log = await place.log();
    const refusal = refusalOf(await runCli(['flush', log, '--json', ...place.words]));
    expect(refusal).toMatchObject({ code: 'SEGMENT_WITHOUT_SNAPSHOT', log });
  });

  test('flush leaves them in place if the log is stopped', async () => {
    const { log } = await worked(every(1_000, 'edited'));
    for (const key of await place.keys(log, 'chunks')) await place.blobs.delete([key]);
    const answer = await runCli(['flush', log, '--json', ...place.words]);
    expect(answer.code).toBe(1);
    expect(JSON.parse(answer.stdout)).toMatchObject({ outcome: 'stopped', stop: { code: 'CHUNK_MISSING' } });
    expect(await statusOf(log)).toMatchObject({ bufferedEdits: CELLS / 1_000, stopped: { code: 'CHUNK_MISSING' } });
  });
});
