import { type BigIntStats, createReadStream, createWriteStream, fstatSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { makeTemporaryDirectory } from '../adapters/filesystem/temporary-paths.ts';
import { EditLineInvalidError, UsageError } from '../errors.ts';
import { type EditedLog, type EditLine, parseEditLine } from './edit-line.ts';
import { isSystemError, outputFailed } from './output.ts';

/** The longest line, in bytes. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;
const STANDARD_INPUT = 0;
const ADVICE = 'Name a file of edits, or - for standard input';
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
    const before = await look(path, file);
    let count = 0;
    for await (const _ of readLines(path, file, log)) count++;
    const requireSame = async (): Promise<void> => {
      const now = await look(path, file);
      if (now.ino === before.ino && now.size === before.size && now.mtimeNs === before.mtimeNs) return;
      throw new UsageError(`'${file}' changed while it was read`, {
        advice: 'Copy the file first. The end of the log shows which lines were appended',
      });
    };
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

interface Source {
  readonly path: string;
  readonly close: () => void;
}

async function readableTwice(file: string): Promise<Source> {
  // `/dev/stdin` cannot be opened if it is a socket.
  if (file === '-' || file === '/dev/stdin') return spool(standardInput(), file);
  const stats = await look(file, file);
  return stats.isFile() || stats.isDirectory() ? { path: file, close: () => {} } : spool(createReadStream(file), file);
}

/** @throws UsageError if standard input is a directory, which Node reads as an empty stream */
function standardInput(): NodeJS.ReadableStream {
  if (!fstatSync(STANDARD_INPUT).isDirectory()) return process.stdin;
  throw new UsageError('standard input cannot be read: it is a directory', { advice: ADVICE });
}

async function spool(input: NodeJS.ReadableStream, file: string): Promise<Source> {
  const { path: directory, remove } = makeTemporaryDirectory('logfold-append-');
  try {
    const path = join(directory, 'edits.ndjson');
    await pipeline(input, createWriteStream(path));
    return { path, close: remove };
  } catch (error) {
    remove();
    const isWrite = isSystemError(error) && error.syscall === 'write';
    throw isWrite ? outputFailed(`a copy of '${file}' in '${directory}'`, error) : cannotBeRead(file, error);
  }
}

async function look(path: string, file: string): Promise<BigIntStats> {
  try {
    return await stat(path, { bigint: true });
  } catch (cause) {
    throw cannotBeRead(file, cause);
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

function cannotBeRead(file: string, cause: unknown): unknown {
  if (!isSystemError(cause)) return cause;
  return new UsageError(`${file === '-' ? 'standard input' : `'${file}'`} cannot be read: ${cause.message}`, {
    advice: ADVICE,
    cause,
  });
}
