import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type DemoResult, describeResult } from '../../examples/demo/report.ts';
import { SNAPSHOT_EVERY } from '../../examples/demo/team.ts';
import { codeBlocks } from '../support/code-blocks.ts';

const DEMO = fileURLToPath(new URL('../../examples/demo/main.ts', import.meta.url));

/** Enough rows for a tree of several chunks. */
const ROWS = 6000;

interface Answer {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

let temporary: string;

beforeEach(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'logfold-demo-test-'));
});

afterEach(async () => {
  await rm(temporary, { recursive: true });
});

function startDemo(words: readonly string[]): ChildProcess {
  // The demo writes temporary files where the test sees them. It ignores the developer's settings.
  return spawn(process.execPath, [DEMO, ...words], { env: { PATH: process.env.PATH, TMPDIR: temporary } });
}

async function answerOf(demo: ChildProcess): Promise<Answer> {
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    demo[name]?.setEncoding('utf8').on('data', (text: string) => {
      texts[name] += text;
    });
  }
  await once(demo, 'close');
  return { code: demo.exitCode, ...texts };
}

describe('the demo', () => {
  test('proves its snapshots, reports them in JSON, and leaves nothing behind', async () => {
    const { code, stdout, stderr } = await answerOf(startDemo(['--json', '--rows', String(ROWS)]));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const result = JSON.parse(stdout);
    const { data, entries, snapshots, between, view, sheet, replayed, usage } = result;
    expect(result.proved).toBe(true);
    expect(data.rows).toBe(ROWS);
    expect(replayed).toMatchObject({ equal: true, replayed: replayed.stored, snapshot: between.newer });
    expect(replayed.entries).toBeGreaterThan(between.edits);
    expect(sheet).toMatchObject({ equal: true, difference: null });
    expect(sheet.rows).toBe(1 + ROWS + entries.insertedRows - entries.deletedRows);
    expect(view).toMatchObject({ equal: true, snapshot: between.newer });
    expect(view.cells.map((row: string[]) => row.length)).toEqual(Array.from({ length: 20 }, () => 6));
    expect(entries.segments).toBeGreaterThan(1);
    expect(snapshots.snapshots).toBeGreaterThan(3);
    expect(snapshots.snapshots).toBe(entries.snapshotEntries);
    expect(between.olderChunks).toBeGreaterThan(2);
    expect(between.touched).toBeGreaterThan(0);
    expect(between.lost).toBe(0);
    expect(between.shared).toBe(between.olderChunks - between.touched + between.buffered - between.recut);
    expect(between.shared).toBeGreaterThan(0);
    expect(snapshots.chunksReused).toBeGreaterThanOrEqual(between.shared);
    expect(usage.logfold.s3.puts).toBeGreaterThanOrEqual(snapshots.chunksWritten);
    expect(usage.team.dynamodb.writeUnits).toBeGreaterThanOrEqual(entries.entries);
    expect(await readdir(temporary)).toEqual([]);
  });

  test('gives the figures that README.md states', async () => {
    const { code, stdout } = await answerOf(startDemo(['--json']));
    expect(code).toBe(0);
    const result: DemoResult = JSON.parse(stdout);
    const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
    const report = describeResult(result).split('\n');
    const [shown = ''] = codeBlocks('README.md', 'text', 'See it work');
    expect(shown.split('\n').filter((line) => !report.some((each) => each.startsWith(line)))).toEqual([]);
    const { entries, snapshots, usage, sheet } = result;
    const [team, { dynamodb, s3 }] = [usage.team.dynamodb, usage.logfold];
    const number = (value: number): string => value.toLocaleString('en');
    expect(readme.replaceAll(/\s+/g, ' ')).toContain(
      `appending ${number(entries.entries)} entries takes ${number(team.writeUnits)} write units. ` +
        `Folding them into ${snapshots.snapshots} snapshots of ${number(sheet.cells)} cells takes ` +
        `${dynamodb.writeUnits} write units, ${dynamodb.readUnits} read units, ` +
        `${s3.puts} PUTs, ${s3.gets} GETs and ${s3.lists} LISTs. ` +
        `It takes one snapshot every ${SNAPSHOT_EVERY} entries, and one at the start of each segment, of which there are ${entries.segments}.`,
    );
    const perMillion = (dollars: number): string => `\\$${((dollars / entries.entries) * 1e6).toFixed(2)} `;
    expect(readme).toMatch(new RegExp(`entries, to append +\\| ${perMillion(result.cost.team)}`));
    expect(readme).toMatch(new RegExp(`entries, to fold into snapshots +\\| ${perMillion(result.cost.logfold)}`));
  });

  test('ends at an interrupt with an error, and leaves nothing behind', async () => {
    const demo = startDemo(['--rows', String(ROWS)]);
    const answer = answerOf(demo);
    // The note comes when the engine and the pipeline run.
    if (demo.stderr !== null) await once(demo.stderr, 'data');
    demo.kill('SIGINT');
    const { code, stderr } = await answer;
    expect(code).toBe(130);
    expect(stderr).toContain('INTERRUPTED: SIGINT ended the command');
    expect(await readdir(temporary)).toEqual([]);
  });

  test('refuses invalid arguments', async () => {
    const few = await answerOf(startDemo(['--rows', '10']));
    expect(few.code).toBe(1);
    expect(few.stderr).toContain('10 rows are too few');
    const full = await answerOf(startDemo(['--keep', fileURLToPath(new URL('.', import.meta.url))]));
    expect(full.code).toBe(1);
    expect(full.stderr).toContain('is not empty');
    expect((await answerOf(startDemo(['--nonsense']))).code).toBe(2);
  });
});
