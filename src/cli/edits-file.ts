import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { EditLineInvalidError, UsageError } from '../errors.ts';
import { type EditLine, parseEditLine } from './edit-line.ts';
import { isSystemError } from './system-error.ts';

/** A file of edits that has been read through once and found good, so that appending it fails at no line's form. */
export interface EditsFile {
  /** Lines that are not blank. */
  readonly count: number;
  /** The lines again, each with its number from 1. */
  lines(): AsyncGenerator<{ readonly number: number; readonly line: EditLine }>;
  close(): Promise<void>;
}

/**
 * Opens a file of edits, `-` for standard input, which is kept in a temporary file meanwhile.
 * @throws UsageError where there is no such file
 * @throws EditLineInvalidError for the first line that is malformed
 */
export async function openEdits(file: string): Promise<EditsFile> {
  const { path, close } = file === '-' ? await spool() : { path: file, close: async () => {} };
  try {
    let count = 0;
    for await (const _ of readLines(path)) count++;
    return { count, lines: () => readLines(path), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function spool(): Promise<{ readonly path: string; readonly close: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-append-'));
  const path = join(directory, 'edits.ndjson');
  await pipeline(process.stdin, createWriteStream(path));
  return { path, close: () => rm(directory, { recursive: true }) };
}

async function* readLines(path: string): AsyncGenerator<{ readonly number: number; readonly line: EditLine }> {
  // Latin-1 keeps every byte apart, so that lines end at line feeds alone and not at U+2028, which JSON may contain.
  const lines = createInterface({ input: createReadStream(path, 'latin1'), crlfDelay: Number.POSITIVE_INFINITY });
  let number = 0;
  try {
    for await (const bytes of lines) {
      number++;
      const text = decodeLine(bytes, number);
      if (text.trim() !== '') yield { number, line: parseEditLine(text, number) };
    }
  } catch (cause) {
    if (!isSystemError(cause)) throw cause;
    throw new UsageError(`'${path}' cannot be read: ${cause.message}`, {
      advice: 'Name a file of edits, or - for standard input',
      cause,
    });
  }
}

function decodeLine(bytes: string, number: number): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'));
  } catch (cause) {
    throw new EditLineInvalidError(number, 'it is not UTF-8', { advice: 'Save the file as UTF-8', cause });
  }
}
