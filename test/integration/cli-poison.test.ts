import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { encodeBody } from '../../src/log/body.ts';
import type { Stop } from '../../src/snapshot/stop.ts';
import type { LogStatus } from '../../src/workers/audit/status.ts';
import { end, runCli, startCli } from '../support/cli.ts';
import { CliPlace, expectNoTrace } from '../support/cli-place.ts';
import { Random } from '../support/models/random.ts';

const BAD = { segment: 0, entry: 2 };
const C = { N: '1732104000' };
const GOOD = { C, T: { S: 'Set' }, V: { N: '1' }, B: { S: '[[7, 7, "mended"]]' } };

let place: CliPlace;

/** A fault that stops a log at entry 2 (or at `where`), and its repair. */
interface Poison {
  readonly name: string;
  readonly code: string;
  readonly where?: { readonly segment: number | null; readonly entry: number | null };
  /** Adds entries that the pipeline folds before the fault. */
  readonly prepare?: (log: LogId) => Promise<void>;
  readonly spoil: (log: LogId) => Promise<void>;
  readonly mend: (log: LogId) => Promise<void>;
}

const replaced = { mend: (log: LogId) => place.putItem(log, BAD, GOOD) };
/** The contents of objects before the fault. */
const spoilt = new Map<LogId, { readonly key: string; readonly stored: Uint8Array }>();
const putBack = {
  mend: async (log: LogId) => {
    const { key = '', stored = new Uint8Array() } = spoilt.get(log) ?? {};
    await place.blobs.put(key, stored);
  },
};

async function spoilObject(log: LogId, kind: 'bodies' | 'chunks' | 'roots', bytes?: Uint8Array): Promise<void> {
  const [key = ''] = await place.keys(log, kind);
  spoilt.set(log, { key, stored: await place.read(key) });
  if (bytes === undefined) await place.blobs.delete([key]);
  else await place.blobs.put(key, bytes);
}

async function addSet(log: LogId, cells: Value): Promise<void> {
  await place.client.addEntry(log, { type: 'Set', version: 1, body: cells });
}

/**
 * Adds random cells and a Snapshot entry. 1,000 cells fit in the root; 12,000 cells need chunks.
 */
async function addSnapshotOf(log: LogId, cells: number): Promise<void> {
  const random = new Random(cells);
  await addSet(
    log,
    Array.from({ length: cells }, (_, i) => [Math.floor(i / 10), i % 10, random.text(12)]),
  );
  await place.client.addSnapshot(log);
}

const POISONS: readonly Poison[] = [
  {
    name: 'an unknown type',
    code: 'ENTRY_TYPE_UNKNOWN',
    spoil: (log) => place.putItem(log, BAD, { ...GOOD, T: { S: 'Sort Rows' } }),
    ...replaced,
  },
  {
    name: 'an unknown version',
    code: 'ENTRY_VERSION_UNKNOWN',
    spoil: (log) => place.putItem(log, BAD, { ...GOOD, V: { N: '2' } }),
    ...replaced,
  },
  {
    name: 'a body that does not decode',
    code: 'BODY_UNDECODABLE',
    spoil: (log) => place.putItem(log, BAD, { ...GOOD, B: { B: Uint8Array.of(0xc1) } }),
    ...replaced,
  },
  {
    name: 'a body of another shape',
    code: 'BODY_INVALID',
    spoil: (log) => place.putItem(log, BAD, { ...GOOD, B: { B: encodeBody('cells') } }),
    ...replaced,
  },
  {
    name: 'a cell outside of the sheet',
    code: 'SHEET_LIMIT',
    spoil: (log) => place.putItem(log, BAD, { ...GOOD, B: { S: '[[0, 1048576, "x"]]' } }),
    ...replaced,
  },
  {
    name: 'an item without a type',
    code: 'ITEM_INVALID',
    spoil: async (log) => {
      await addSet(log, [[0, 0, 'x']]);
      await place.putItem(log, BAD, { C, V: { N: '1' } });
    },
    ...replaced,
  },
  {
    name: 'an external body that is missing',
    code: 'EXTERNAL_MISSING',
    spoil: (log) => place.putItem(log, BAD, { C, T: { S: 'Set' }, V: { N: '1' }, E: { S: `imports/${log}.json` } }),
    mend: (log) => place.blobs.put(`imports/${log}.json`, Buffer.from('[[7, 7, "imported"]]')),
  },
  {
    name: 'an external body that was altered',
    code: 'EXTERNAL_CORRUPT',
    spoil: async (log) => {
      await addSet(log, [[0, 0, 'x'.repeat(20_000)]]);
      await spoilObject(log, 'bodies', encodeBody([[0, 0, 'y']]));
    },
    ...putBack,
  },
  {
    name: 'a gap in the numbers',
    code: 'ENTRY_GAP',
    spoil: async (log) => {
      await addSet(log, [[0, 0, 'x']]);
      await addSet(log, [[0, 1, 'x']]);
      await place.deleteItem(log, BAD);
    },
    ...replaced,
  },
  {
    name: 'a chunk of the snapshot before that is missing',
    code: 'CHUNK_MISSING',
    // No entry is at fault: the fold cannot load the previous snapshot.
    where: { segment: null, entry: null },
    prepare: (log) => addSnapshotOf(log, 12_000),
    spoil: async (log) => {
      await spoilObject(log, 'chunks');
      // Edits of every cell are too many for the write buffer.
      const everyCell = Array.from({ length: 12_000 }, (_, i) => [Math.floor(i / 10), i % 10, 'x']);
      await addSet(log, everyCell);
    },
    ...putBack,
  },
  {
    name: 'a root of the snapshot before that is truncated',
    code: 'CHUNK_CORRUPT',
    where: { segment: 0, entry: 3 },
    prepare: (log) => addSnapshotOf(log, 1000),
    spoil: async (log) => {
      await spoilObject(log, 'roots', Uint8Array.of(0x4c, 0x47, 0x46, 1));
      await addSet(log, [[0, 0, 'x']]);
    },
    ...putBack,
  },
];

/** Runs the pipeline until it is idle. */
async function work() {
  const answer = await runCli(['work', '--until-idle', '--json', ...place.words]);
  expectNoTrace(answer);
  const document: { snapshots: number; stopped: (Stop & { log: string })[]; failures: string[] } = JSON.parse(
    answer.stdout,
  );
  return { code: answer.code, ...document };
}

async function status(): Promise<Map<string, LogStatus>> {
  const { logs } = (await place.json('status')) as { logs: LogStatus[] };
  return new Map(logs.map((each) => [each.log, each]));
}

describe('a log that cannot be folded', () => {
  const logs = new Map<Poison, LogId>();
  let healthy: LogId;
  let first: Awaited<ReturnType<typeof work>>;
  let stopped: Map<string, LogStatus>;

  beforeAll(async () => {
    place = await CliPlace.open();
    for (const poison of POISONS) {
      const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
      await poison.prepare?.(log);
      logs.set(poison, log);
    }
    expect(await work()).toMatchObject({ code: 0 });
    for (const [poison, log] of logs) {
      await poison.spoil(log);
      await place.client.addSnapshot(log);
    }
    // Last in the stream, after all of the others.
    healthy = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await place.client.addSnapshot(healthy);
    first = await work();
    stopped = await status();
  });
  afterAll(() => place.close());

  const ofLog = (poison: Poison) => logs.get(poison) ?? '';

  test('makes the pipeline end with exit code 1 and a reason', () => {
    expect(first).toMatchObject({ code: 1, failures: [] });
    expect(new Set(first.stopped.map(({ log }) => log))).toEqual(new Set(logs.values()));
  });

  test('does not stop another log', () => {
    expect(stopped.get(healthy)).toMatchObject({
      lastSnapshot: { segment: 0, entry: 2 },
      lagEntries: 0,
      stopped: null,
    });
  });

  test.each(POISONS.map((poison) => [poison.name, poison] as const))('has its reason in status: %s', (_, poison) => {
    const { stopped: stop } = stopped.get(ofLog(poison)) ?? {};
    const where = poison.where ?? BAD;
    expect(stop).toMatchObject({ code: poison.code, ...where });
    const entry = where.segment === null ? '' : `, segment ${where.segment}, entry ${where.entry}`;
    expect(stop?.message).toContain(`[log ${ofLog(poison)}${entry}`);
    expect(first.stopped).toContainEqual({ log: ofLog(poison), ...stop });
  });

  test('has its reason in the output for people', async () => {
    const { code, stdout } = await runCli(['status', ...place.words]);
    expect(code).toBe(0);
    for (const poison of POISONS) expect(stdout).toContain(`${ofLog(poison)} is stopped: `);
    expect(stdout).not.toContain(`${healthy} is stopped`);
  });

  test('is shown up to the bad entry by commands that stop there', async () => {
    const limit = pLimit(3);
    const cell = ['--rows', '0:1', '--columns', '0:1'];
    const view = async (poison: Poison) => {
      const words = ['view', ofLog(poison), ...cell, '--on-bad-entry', 'stop', '--json', ...place.words];
      const answer = await runCli(words);
      expectNoTrace(answer);
      return { poison, code: answer.code, document: JSON.parse(answer.stdout) };
    };
    for (const { poison, code, document } of await Promise.all(POISONS.map((each) => limit(() => view(each))))) {
      const isBadEntry = poison.where === undefined && poison.code !== 'ENTRY_GAP';
      // An older snapshot, or its chunk, is not an entry.
      if (!isBadEntry)
        expect({ code, document }).toMatchObject({ code: 1, document: { error: { code: poison.code } } });
      else expect(document).toMatchObject({ rows: [['a']], badEntry: { position: BAD, error: { code: poison.code } } });
    }
  });

  test('is exported up to the bad entry, with a note for people', async () => {
    const [poison = raise()] = POISONS;
    const log = ofLog(poison);
    const words = [log, '--on-bad-entry', 'stop', ...place.words];
    const exported = await runCli(['export', ...words]);
    expect(exported).toMatchObject({ code: 0, stdout: 'a\n' });
    const notice = `Log ${log}: this is the state before 0/2, which cannot be folded: ${poison.code}: `;
    expect(exported.stderr).toContain(notice);
    const past = await runCli(['state', '--at', '0/3', '--json', ...words]);
    expect(JSON.parse(past.stdout)).toMatchObject({ position: BAD, badEntry: { error: { code: poison.code } } });
    const before = await runCli(['state', '--at', '0/2', '--json', ...words]);
    expect(JSON.parse(before.stdout)).toMatchObject({ position: BAD, badEntry: null });
    const refused = await runCli(['export', log, ...place.words]);
    expect(refused).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(poison.code) });
  });

  test('stays stopped after a repair and another Snapshot entry', async () => {
    for (const [poison, log] of logs) {
      await poison.mend(log);
      await place.client.addSnapshot(log);
    }
    const again = await work();
    expect(again).toMatchObject({ code: 1, snapshots: 0, failures: [] });
    expect(again.stopped).toHaveLength(POISONS.length);
    const now = await status();
    for (const log of logs.values()) expect(now.get(log)?.stopped).toEqual(stopped.get(log)?.stopped);
  });

  test('continues after resume, and replay agrees', async () => {
    const limit = pLimit(3);
    const resumed = await Promise.all(
      POISONS.map((poison) =>
        limit(() => place.json('resume', ofLog(poison)).then((document) => ({ poison, document }))),
      ),
    );
    for (const { poison, document } of resumed) expect(document).toMatchObject({ wasStopped: { code: poison.code } });
    const last = await work();
    expect(last).toMatchObject({ code: 0, stopped: [], failures: [] });
    for (const each of (await status()).values()) expect(each).toMatchObject({ stopped: null, lagEntries: 0 });
    const replays = await Promise.all([...logs.values()].map((log) => limit(() => place.json('replay', log))));
    for (const replay of replays) expect(replay).toMatchObject({ equal: true });
  });

  test('has the repaired entry in its state', async () => {
    const imported = POISONS.find(({ code }) => code === 'EXTERNAL_MISSING');
    const { rows } = await place.json(
      'view',
      imported === undefined ? '' : ofLog(imported),
      '--rows',
      '7:8',
      '--columns',
      '7:8',
    );
    expect(rows).toEqual([['imported']]);
  });

  test('resume of a log that is not stopped only asks for a snapshot', async () => {
    expect(await place.json('resume', healthy)).toMatchObject({ log: healthy, wasStopped: null });
    expect(await work()).toMatchObject({ code: 0, snapshots: 1, stopped: [] });
  });

  test('resume beside a running pipeline loses no snapshot', async () => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await place.putItem(log, BAD, { ...GOOD, T: { S: 'Sort Rows' } });
    await place.client.addSnapshot(log);
    const pipeline = startCli(['work', ...place.words]);
    try {
      await until(async () => (await status()).get(log)?.stopped?.code === 'ENTRY_TYPE_UNKNOWN');
      await place.putItem(log, BAD, GOOD);
      await place.json('resume', log);
      await until(async () => (await status()).get(log)?.lagEntries === 0);
    } finally {
      await end(pipeline, 'SIGTERM');
    }
    expect(pipeline.exitCode).toBe(143);
  });

  test('does not hide other logs in status if its newest item cannot be read', async () => {
    const log = await place.log();
    await place.putItem(log, { segment: 0, entry: 1 }, { C });
    expect((await status()).get(log)).toMatchObject({ entries: 2, lagEntries: 2 });
  });
});

function raise(): never {
  throw new Error('there is no poison');
}

/** Polls until a condition holds. The test's time limit ends the poll. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo()));
}
