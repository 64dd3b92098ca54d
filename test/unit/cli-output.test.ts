import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Progress } from '../../src/cli/output.ts';

let written: string[];

beforeEach(() => {
  vi.useFakeTimers();
  written = [];
});
afterEach(() => {
  vi.useRealTimers();
});

/** Standard error, as a pipe or a file takes it. */
function pipe(): NodeJS.WriteStream {
  const stream = Object.create(process.stderr);
  return Object.defineProperties(stream, {
    isTTY: { value: false },
    write: { value: (text: string) => written.push(text) },
  });
}

test('a short command says nothing of its progress where there is no terminal', () => {
  const progress = new Progress('Lines', 3, pipe());
  progress.update(1);
  vi.advanceTimersByTime(1900);
  progress.update(3);
  progress.stop();
  vi.advanceTimersByTime(10_000);
  expect(written).toEqual([]);
});

test('a long one says every two seconds how far it is and how long it takes, and ends without an empty line', () => {
  const progress = new Progress('Lines', 4, pipe());
  vi.advanceTimersByTime(2000);
  progress.update(1);
  vi.advanceTimersByTime(2000);
  progress.stop();
  expect(written).toEqual(['Lines: 0/4\n', 'Lines: 1/4, 12s left\n']);
});

test.each([[undefined], [0]])('of how much nobody knows (%s), no time is said to be left', (total) => {
  const progress = new Progress('Logs', total, pipe());
  progress.update(7);
  vi.advanceTimersByTime(2000);
  progress.stop();
  expect(written).toEqual(['Logs: 7\n']);
});
