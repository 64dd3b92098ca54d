import { createReadStream } from 'node:fs';
import { EditLineInvalidError } from '../errors.ts';
import { type EditedLog, type EditLine, parseEditLine } from './edit-line.ts';
import { cannotBeRead, readableTwice, watchChanges } from './input-file.ts';

const CHANGED_ADVICE = 'Copy the file first. The end of the log shows which lines were appended';

/** The longest line, in bytes. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

interface NumberedLine {
  /** Counts from 1. */
  readonly number: number;
  readonly line: EditLine;
}

/** A file of edits without malformed lines: it has been read to its end once. */
export interface EditsFile {
  /** Lines that are not blank. */
  readonly count: number;
  /**
   * Reads the lines again.
   * @throws UsageError if something has written to the file since it was opened
   */
  lines(): AsyncGenerator<NumberedLine>;
  close(): void;
}

/**
 * Opens a file of edits, `-` for standard input. A source that can be read only once, such as a
 * pipe, is copied to a temporary file until it is closed.
 * @throws UsageError if there is no such file
 * @throws EditLineInvalidError for the first line that is malformed
 */
export async function openEdits(file: string, log: EditedLog): Promise<EditsFile> {
  const { path, close } = await readableTwice(file);
  try {
    const requireSame = await watchChanges(path, file, CHANGED_ADVICE);
    let count = 0;
    for await (const _ of readLines(path, file, log)) count++;
    async function* lines(): AsyncGenerator<NumberedLine> {
      await requireSame();
      let left = count;
      try {
        for await (const line of readLines(path, file, log)) {
          if (left-- === 0) break;
          yield line;
        }
      } finally {
        // A change of the file explains a malformed line.
        await requireSame();
      }
    }
    return { count, lines, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** @param file its name in error messages */
async function* readLines(path: string, file: string, log: EditedLog): AsyncGenerator<NumberedLine> {
  let number = 0;
  try {
    for await (const bytes of splitLines(createReadStream(path))) {
      const text = decodeLine(bytes, ++number);
      if (text.trim() !== '') yield { number, line: parseEditLine(text, number, log) };
    }
  } catch (cause) {
    throw cannotBeRead(file, cause);
  }
}

/** Splits at line feeds only. JSON may contain U+2028, so U+2028 ends no line. */
async function* splitLines(parts: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let number = 1;
  let begun: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer): void => {
    length += part.length;
    if (length > MAX_LINE_BYTES) {
      throw new EditLineInvalidError(number, `the line is longer than ${MAX_LINE_BYTES} bytes`, {
        advice: 'Split the edit into several lines',
      });
    }
    begun.push(part);
  };
  for await (const part of parts) {
    let from = 0;
    for (let end = part.indexOf(LINE_FEED); end !== -1; end = part.indexOf(LINE_FEED, from)) {
      add(part.subarray(from, end));
      yield Buffer.concat(begun);
      [begun, length, from] = [[], 0, end + 1];
      number++;
    }
    add(part.subarray(from));
  }
  if (length > 0) yield Buffer.concat(begun);
}

function decodeLine(bytes: Buffer, number: number): string {
  const text = bytes.at(-1) === CARRIAGE_RETURN ? bytes.subarray(0, -1) : bytes;
  try {
    // The decoder removes the byte order mark that some editors put before the first line.
    return new TextDecoder('utf-8', { fatal: true }).decode(text);
  } catch (cause) {
    throw new EditLineInvalidError(number, 'the line is not UTF-8', { advice: 'Save the file as UTF-8', cause });
  }
}
