import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse as parseCsv } from 'csv-parse/sync';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { end, runCli, runJson, startCli } from '../support/cli.ts';
import { checkOf, checksIn, editHistories } from '../support/models/edit-histories.ts';
import { trim } from '../support/models/sheet-model.ts';

const EVERY = {
  generated: { snapshotEvery: '40', segmentEvery: '150' },
  given: { snapshotEvery: '200', segmentEvery: '1000' },
};

describe.each(editHistories(12))('$name', (history) => {
  const { snapshotEvery, segmentEvery } = history.generated ? EVERY.generated : EVERY.given;
  let directory: string;
  let local: string[];
  let file: string;
  let log: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'logfold-history-'));
    local = ['--local', join(directory, 'data')];
    file = await history.file(directory);
    log = String((await runJson(['create', ...local])).log);
  });
  afterEach(() => rm(directory, { recursive: true }));

  const append = () => {
    const every = ['--snapshot-every', snapshotEvery, '--segment-every', segmentEvery];
    return runJson(['append', log, file, '--check', ...every, ...local]);
  };

  /** Checks the result, which must not depend on how the pipeline ran. */
  async function expectRight(appended: Record<string, unknown>): Promise<void> {
    const checks = await checksIn(file);
    expect(appended.checks).toBe(checks.length);
    expect(await runJson(['work', '--until-idle', ...local])).toMatchObject({ stopped: [], failures: [] });
    expect(await runJson(['replay', log, ...local])).toMatchObject({ equal: true });
    expect(await runJson(['verify', log, ...local])).toMatchObject({ problems: [] });
    const { logs } = await runJson(['status', log, ...local]);
    expect(logs).toMatchObject([{ log, stopped: null, segments: 1 + Number(appended.segments) }]);
    const [{ lagEntries }] = logs as [{ lagEntries: number }];
    expect(lagEntries).toBeLessThanOrEqual(Number(snapshotEvery));
    const csv = join(directory, 'sheet.csv');
    await runJson(['export', log, '--csv', csv, ...local]);
    const rows = trim(parseCsv(await readFile(csv), { relaxColumnCount: true, skipEmptyLines: false }));
    const last = checks.at(-1);
    expect(checkOf(rows)).toEqual({ op: 'check', rows: last?.rows, sha256: last?.sha256 });
  }

  test('has the right result if the pipeline runs during the appends', async () => {
    const work = startCli(['work', ...local]);
    try {
      const appended = await append();
      expect(appended.segments).toBeGreaterThan(0);
      await expectRight(appended);
    } finally {
      await end(work, 'SIGTERM');
    }
  }, 300_000);

  test('has the right result if the pipeline starts after the appends', async () => {
    await expectRight(await append());
  }, 300_000);

  test('has the right result if the pipeline is killed and restarted many times', async () => {
    let appending = true;
    let kills = 0;
    const killing = (async () => {
      for (let i = 0; appending; i++) {
        const work = startCli(['work', ...local]);
        // The kills come at moments from before the first request to the middle of builds.
        await new Promise((resolve) => setTimeout(resolve, 300 + ((i * 379) % 1500)));
        await end(work, 'SIGKILL');
        kills++;
      }
    })();
    const appended = await append().finally(() => {
      appending = false;
    });
    await killing;
    expect(kills).toBeGreaterThan(0);
    await expectRight(appended);
  }, 300_000);
});

test('after a command is killed, the next command joins or replaces its engine', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-killed-'));
  try {
    const log = String((await runJson(['create', '--local', directory])).log);
    const work = startCli(['work', '--local', directory]);
    await new Promise((resolve) => setTimeout(resolve, 700));
    await end(work, 'SIGKILL');
    const answer = await runCli(['status', log, '--local', directory, '--json']);
    expect(JSON.parse(answer.stdout)).toMatchObject({ logs: [{ log, entries: 1 }] });
  } finally {
    await rm(directory, { recursive: true });
  }
}, 60_000);
