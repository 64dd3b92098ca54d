import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openEdits } from '../../src/cli/edits-file.ts';
import { EditLineInvalidError, UsageError } from '../../src/errors.ts';
import { EDITED_SHEET } from '../support/logs.ts';

const LINE = '{"op":"snapshot"}';

let directory: string;
let file: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'logfold-edits-'));
  file = join(directory, 'edits.ndjson');
});
afterEach(() => rm(directory, { recursive: true }));

async function numbers(): Promise<number[]> {
  const edits = await openEdits(file, EDITED_SHEET);
  const lines = await Array.fromAsync(edits.lines());
  expect(lines).toHaveLength(edits.count);
  return lines.map(({ number }) => number);
}

test.each([
  ['an empty file', '', []],
  ['a last line without its end', `${LINE}\n${LINE}`, [1, 2]],
  ['blank lines between', `\n${LINE}\n  \n${LINE}\n\n`, [2, 4]],
  ['lines as Windows ends them', `${LINE}\r\n\r\n${LINE}\r\n`, [1, 3]],
  ['a byte order mark', `\ufeff${LINE}\n${LINE}\n`, [1, 2]],
  ['a separator that JSON may contain', '{"op":"set","cells":[[0,0,"\u2028"]]}\n', [1]],
])('openEdits reads %s', async (_, text, expected) => {
  await writeFile(file, text);
  expect(await numbers()).toEqual(expected);
});

test('openEdits reads lines that cross the boundaries of its reads', async () => {
  const long = JSON.stringify({ op: 'set', cells: [[0, 0, 'ü'.repeat(100_000)]] });
  await writeFile(file, `${long}\n${LINE}\n${long}`);
  expect(await numbers()).toEqual([1, 2, 3]);
});

test('openEdits refuses a line longer than 64 MiB', async () => {
  await writeFile(file, `${LINE}\n${'x'.repeat(65 * 1024 * 1024)}`);
  const refusal = await openEdits(file, EDITED_SHEET).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(EditLineInvalidError);
  expect(refusal).toMatchObject({ line: 2, message: expect.stringContaining('longer than 67108864 bytes') });
});

describe('a file that changes', () => {
  test('yields no line if it changed between the two reads', async () => {
    await writeFile(file, `${LINE}\n`);
    const edits = await openEdits(file, EDITED_SHEET);
    await appendFile(file, `${LINE}\n`);
    await expect(Array.fromAsync(edits.lines())).rejects.toThrow(UsageError);
    await expect(Array.fromAsync(edits.lines())).rejects.toThrow(/changed while it was read/);
  });

  test('is refused at its end if it changes during the second read, and yields no new line', async () => {
    await writeFile(file, `${LINE}\n${LINE}\n`);
    const edits = await openEdits(file, EDITED_SHEET);
    let lines = 0;
    const read = async () => {
      for await (const _ of edits.lines()) {
        lines++;
        await appendFile(file, `${LINE}\n`);
      }
    };
    await expect(read()).rejects.toThrow(/changed while it was read/);
    expect(lines).toBe(2);
  });
});
