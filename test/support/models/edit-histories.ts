import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import type { SheetEdit } from '../../../src/state/spreadsheet/reducer.ts';
import { SheetModel, sheetEdits } from './sheet-model.ts';

/** A file of edits with check lines, as `logfold append` reads it. */
export interface EditHistory {
  readonly name: string;
  /**
   * Writes the file into a directory if it does not exist elsewhere.
   * @returns the path of the file
   */
  readonly file: (directory: string) => Promise<string>;
  /** True if the history is generated. */
  readonly generated: boolean;
}

/**
 * A generated history, so that a test needs no file. LOGFOLD_EDITS names the file of a second one,
 * such as real edits.
 * @param groups length of the generated history, in groups of about thirty edits
 */
export function editHistories(groups: number): EditHistory[] {
  const file = (directory: string) => writeGenerated(directory, groups);
  const histories: EditHistory[] = [{ name: 'a generated history', file, generated: true }];
  const given = process.env.LOGFOLD_EDITS;
  if (given !== undefined) histories.push({ name: given, file: async () => given, generated: false });
  return histories;
}

async function writeGenerated(directory: string, groups: number): Promise<string> {
  const all = Array.from({ length: groups }, () => sheetEdits(60));
  const [edits] = fc.sample(fc.tuple(...all), { numRuns: 1, seed: 7 });
  const model = new SheetModel();
  const lines: unknown[] = [];
  for (const [i, edit] of (edits ?? []).flat().entries()) {
    model.apply(edit);
    lines.push(toLine(edit));
    if (i % 25 === 24) lines.push(checkOf(model.trimmed()));
  }
  lines.push(checkOf(model.trimmed()));
  const file = join(directory, 'generated.ndjson');
  await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return file;
}

function toLine(edit: SheetEdit): unknown {
  if (edit.type === 'Set') return { op: 'set', cells: edit.cells };
  const [verb, what] = edit.type.split(' ');
  return { op: `${verb?.toLowerCase()}${what}`, at: edit.position, count: edit.count };
}

/** The check line for a sheet. */
export function checkOf(rows: readonly (readonly string[])[]): { op: string; rows: number; sha256: string } {
  return { op: 'check', rows: rows.length, sha256: createHash('sha256').update(JSON.stringify(rows)).digest('hex') };
}

/** The check lines of a file. */
export async function checksIn(file: string): Promise<{ rows: number; sha256: string }[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.includes('"check"'));
  return lines.map((line) => JSON.parse(line));
}
