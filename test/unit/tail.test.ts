import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { Tail } from '../../src/client/tail.ts';
import type { Position } from '../../src/ids/position.ts';
import { type CompletedSnapshot, type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { entryAt, LOG } from '../support/logs.ts';

const at = (entry: number): Position => ({ segment: 0, entry });
const completed = (entry: number): CompletedSnapshot => ({ position: at(entry), root: { inline: new Uint8Array() } });

/** Entries of which every thousandth asks for a snapshot. */
function entries(from: number, to: number): Entry[] {
  return Array.from({ length: to - from }, (_, i) =>
    entryAt(LOG, at(from + i), { type: (from + i) % 1_000 === 0 ? RESERVED_TYPES.snapshot : 'Set', body: undefined }),
  );
}

/** A tail that has read entries, in pages of a hundred. */
function tailOf(count: number, onPage?: (page: readonly Entry[]) => void): Tail {
  const tail = new Tail(RESERVED_TYPES);
  for (let from = 0; from < count; from += 100) {
    const page = entries(from, from + 100);
    onPage?.(page);
    tail.add(page);
  }
  return tail;
}

test('a tail drops old entries if no snapshot completes', async () => {
  const read: WeakRef<Entry>[] = [];
  const tail = tailOf(40_000, (page) => read.push(...page.map((entry) => new WeakRef(entry))));
  await setImmediate();
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const alive = read.filter((each) => each.deref() !== undefined).length;
  expect(alive).toBeGreaterThanOrEqual(5_000);
  expect(alive).toBeLessThanOrEqual(10_000);
  expect(tail.isPending).toBe(true);
  expect(tail.entries).toBeUndefined();
});

test('a tail without its entry moves onto a snapshot, and reads the entries after it again', () => {
  const tail = tailOf(40_000);
  expect(tail.fork(completed(3_000))).toBe(true);
  expect(tail.base?.position).toEqual(at(3_000));
  expect(tail.entries).toBeUndefined();
  expect(tail.isPending).toBe(true);
});

test('a tail that has dropped entries is whole again on a snapshot that it holds', () => {
  const tail = tailOf(40_000);
  expect(tail.fork(completed(39_000))).toBe(true);
  expect(tail.entries?.map(({ position }) => position.entry)).toEqual(
    Array.from({ length: 1_000 }, (_, i) => 39_000 + i),
  );
  expect(tail.isPending).toBe(false);
});

test('a tail does not move back, nor beyond the entries that were read', () => {
  const tail = tailOf(40_000);
  tail.fork(completed(3_000));
  expect(tail.fork(completed(2_000))).toBe(false);
  expect(tail.fork(completed(40_000))).toBe(false);
  expect(tail.base?.position).toEqual(at(3_000));
});
