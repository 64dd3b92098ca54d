import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { UsageError } from '../errors.ts';
import { type EditLine, parseEditLine } from './edit-line.ts';

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
  const stream = createReadStream(path, 'utf8');
  const failed = new Promise<never>((_, reject) => stream.once('error', reject));
  failed.catch(() => {});
  await Promise.race([failed, new Promise((resolve) => stream.once('open', resolve))]).catch((cause: unknown) => {
    throw new UsageError(`'${path}' cannot be read`, {
      advice: 'Name a file of edits, or - for standard input',
      cause,
    });
  });
  let number = 0;
  for await (const text of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
    number++;
    if (text.trim() !== '') yield { number, line: parseEditLine(text, number) };
  }
}
