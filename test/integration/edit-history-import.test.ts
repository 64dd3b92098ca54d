import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse as parseCsv } from 'csv-parse/sync';
import { stringify } from 'csv-stringify/sync';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DocumentState } from '../../src/client/document-state.ts';
import { SegmentWithoutSnapshotError } from '../../src/errors.ts';
import { openLogs } from '../../src/exports/local.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { type SheetEdit, sheetBody, sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { end, runJson, startCli } from '../support/cli.ts';
import { checkOf, editHistories } from '../support/models/edit-histories.ts';
import { SheetModel, trim } from '../support/models/sheet-model.ts';
import { applyDiff, dumpSheet } from '../support/models/state-diff.ts';

/** A line of a history. */
interface Line {
  readonly op: string;
  readonly time?: number;
  readonly at?: number;
  readonly count?: number;
  readonly cells?: readonly (readonly [number, number, string])[];
  readonly rows?: number;
  readonly sha256?: string;
}

/** The edits up to a check line, and the check of the sheet after them. */
interface Version {
  readonly edits: readonly (SheetEdit & { readonly time?: number | undefined })[];
  readonly check: unknown;
}

const MOST_ENTRIES = 90;

function versionsOf(text: string): Version[] {
  const versions: Version[] = [];
  let edits: Version['edits'][number][] = [];
  for (const line of text.trimEnd().split('\n')) {
    const parsed: Line = JSON.parse(line);
    const { op, time, rows, sha256 } = parsed;
    if (op !== 'check') {
      edits.push({ ...editOf(parsed), time });
      continue;
    }
    versions.push({ edits, check: { op, rows, sha256 } });
    edits = [];
  }
  return versions;
}

function editOf({ op, at: position = 0, count = 0, cells = [] }: Line): SheetEdit {
  switch (op) {
    case 'set':
      return { type: 'Set', cells };
    case 'insertRows':
      return { type: 'Insert Rows', position, count };
    case 'deleteRows':
      return { type: 'Delete Rows', position, count };
    case 'insertColumns':
      return { type: 'Insert Columns', position, count };
    default:
      return { type: 'Delete Columns', position, count };
  }
}

function rowsOf(state: DocumentState): Promise<string[][]> {
  return Array.fromAsync(sheetRows(sheetOf(state.draft)));
}

describe.each(editHistories(30))('$name, imported as CSV', (history) => {
  let directory: string;
  let words: readonly string[];
  let versions: readonly Version[];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'logfold-import-'));
    words = ['--local', join(directory, 'data')];
    versions = versionsOf(await readFile(await history.file(directory), 'utf8'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  test('is equal to each version after edits, in diffs and in exports', async () => {
    const log = parseLogId(String((await runJson(['create', ...words])).log));
    const [imported, ...later] = versions;
    const model = new SheetModel();
    for (const edit of imported?.edits ?? []) model.apply(edit);
    const csv = join(directory, 'first.csv');
    await writeFile(csv, stringify(model.trimmed()));
    await runJson(['import', log, csv, ...words]);

    const logs = await openLogs({ directory: join(directory, 'data') });
    const work = startCli(['work', ...words]);
    const positions: Position[] = [];
    try {
      const document = await logs.open(log, { reducer: spreadsheet });
      expect(checkOf(await rowsOf(document.state))).toEqual(imported?.check);
      positions.push(document.position);
      for (const [i, { edits, check }] of later.entries()) {
        const before = document.state;
        const from = document.position;
        for (let at = 0; at < edits.length; at += MOST_ENTRIES) {
          await document.append(edits.slice(at, at + MOST_ENTRIES).map(entryOf));
        }
        expect(checkOf(await rowsOf(document.state)), `version ${i + 2}`).toEqual(check);
        const changes = await Array.fromAsync(document.diff(from));
        expect(applyDiff(await dumpSheet(before), changes)).toEqual(await dumpSheet(document.state));
        positions.push(document.position);
        if (i % 5 === 4) await logs.client.addSnapshot(log);
        if (i % 40 === 39) await startSegment(logs.client, log);
      }
    } finally {
      await end(work, 'SIGTERM');
      await logs.close();
    }
    expect(await runJson(['work', '--until-idle', ...words])).toMatchObject({ stopped: [], failures: [] });
    expect(await runJson(['replay', log, ...words])).toMatchObject({ equal: true });

    for (let i = 0; i < versions.length; i += Math.ceil(versions.length / 6)) {
      const [at = { segment: 0, entry: 0 }] = positions.slice(i);
      const { rows } = await runJson(['export', log, '--at', formatPosition(at), ...words]);
      expect(checkOf(rows as string[][]), `version ${i + 1}`).toEqual(versions[i]?.check);
    }
    const last = join(directory, 'last.csv');
    await runJson(['export', log, '--csv', last, ...words]);
    const rows = trim(parseCsv(await readFile(last), { relaxColumnCount: true, skipEmptyLines: false }));
    expect(checkOf(rows)).toEqual(versions.at(-1)?.check);
  });
});

function entryOf(edit: Version['edits'][number]): NewEntry {
  return { type: edit.type, version: 1, body: sheetBody(edit), ...(edit.time !== undefined && { created: edit.time }) };
}

/** Starts a segment if the newest one has a complete snapshot. */
async function startSegment(client: Awaited<ReturnType<typeof openLogs>>['client'], log: string): Promise<void> {
  try {
    await client.startSegment(parseLogId(log));
  } catch (error) {
    if (!(error instanceof SegmentWithoutSnapshotError)) throw error;
  }
}
