import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Output } from '../../src/cli/output.ts';
import { ProgressBar } from '../../src/cli/progress.ts';
import { UsageError } from '../../src/errors.ts';

let written: string[];

beforeEach(() => {
  vi.useFakeTimers();
  written = [];
});
afterEach(() => {
  vi.useRealTimers();
});

/** Standard error as a pipe or a file. */
function pipe(): NodeJS.WriteStream {
  const stream = Object.create(process.stderr);
  return Object.defineProperties(stream, {
    isTTY: { value: false, configurable: true },
    write: { value: (text: string) => written.push(text) },
  });
}

test('a short command without a terminal shows no progress', () => {
  const progress = new ProgressBar('Lines', 3, { stream: pipe() });
  progress.update(1);
  vi.advanceTimersByTime(1900);
  progress.update(3);
  progress.stop();
  vi.advanceTimersByTime(10_000);
  expect(written).toEqual([]);
});

test('a long command without a terminal writes a line every two seconds, and no empty line at its end', () => {
  const progress = new ProgressBar('Lines', 4, { stream: pipe() });
  vi.advanceTimersByTime(2000);
  progress.update(1);
  vi.advanceTimersByTime(2000);
  progress.stop();
  expect(written).toEqual(['Lines: 0/4\n', 'Lines: 1/4, 12s left\n']);
});

test.each([[undefined], [0]])('progress without a total (%s) shows no remaining time', (total) => {
  const progress = new ProgressBar('Logs', total, { stream: pipe() });
  progress.update(7);
  vi.advanceTimersByTime(2000);
  progress.stop();
  expect(written).toEqual(['Logs: 7\n']);
});

test('the line changes with requests and other work while the count stays the same', () => {
  let requests = 1;
  const progress = new ProgressBar('Logs', 0, { stream: pipe(), requests: () => requests });
  vi.advanceTimersByTime(2000);
  requests = 57;
  progress.update(0, '3 jobs done');
  vi.advanceTimersByTime(2000);
  progress.stop();
  expect(written).toEqual(['Logs: 0, 1 request\n', 'Logs: 0, 3 jobs done, 57 requests\n']);
});

describe('on a terminal', () => {
  /** The lines that a terminal shows after it has applied cursor and erase sequences. */
  function screen(): string[] {
    const lines = [''];
    let [row, column, saved] = [0, 0, { row: 0, column: 0 }];
    // biome-ignore lint/suspicious/noControlCharactersInRegex: terminals use this character
    for (const [part, sequence] of written.join('').matchAll(/\x1b(\[[0-9;?]*[A-Za-z]|[78])|[^\x1b]/gs)) {
      if (part === '\n') [row, column] = [row + 1, 0];
      else if (part === '\r' || sequence === '[1G') column = 0;
      else if (sequence === '7') saved = { row, column };
      else if (sequence === '8') ({ row, column } = saved);
      else if (sequence === '[0K' || sequence === '[2K')
        lines[row] = (lines[row] ?? '').slice(0, sequence === '[2K' ? 0 : column);
      else if (sequence !== undefined) throw new Error(`unknown sequence: ${sequence}`);
      else {
        lines[row] = (lines[row] ?? '').padEnd(column).slice(0, column) + part + (lines[row] ?? '').slice(column + 1);
        column++;
      }
    }
    return lines;
  }

  function terminal(): NodeJS.WriteStream {
    return Object.defineProperties(pipe(), { isTTY: { value: true }, columns: { value: 80 } });
  }

  test.each([[0], [4]])('other output gets separate lines, and no mode changes: total %s', (total) => {
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
    const progress = new ProgressBar('Lines', total, { stream: terminal() });
    progress.update(1);
    vi.advanceTimersByTime(500);
    new Output(false).note('a word');
    progress.update(2);
    vi.advanceTimersByTime(500);
    new Output(false).error(new UsageError('the end'));
    vi.restoreAllMocks();
    const lines = screen();
    expect(lines).toContain('a word');
    expect(lines).toContain('logfold: USAGE: the end');
    expect(lines.filter((line) => line.startsWith('Lines'))).toEqual([]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: terminals use this character
    expect(written.join('')).not.toMatch(/\x1b\[\?/);
  });

  test('an exit clears the line for the prompt', () => {
    const progress = new ProgressBar('Lines', 4, { stream: terminal() });
    progress.update(1);
    expect(screen().join('')).toContain('Lines');
    process.listeners('exit').at(-1)?.call(process, 0);
    expect(screen().join('')).toBe('');
    expect(ProgressBar.shown).toBeUndefined();
  });
});
