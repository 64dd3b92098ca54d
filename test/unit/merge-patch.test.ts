import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { mergePatch } from '../../src/state/collections/reducer.ts';

describe('a merge patch', () => {
  // Appendix A of RFC 7396.
  test.each<[target: Value, patch: Value, result: Value]>([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
    [{ a: 'b' }, { a: null }, {}],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd'],
    ],
    [{ a: 'b' }, ['c'], ['c']],
    [{ a: 'foo' }, null, null],
    [{ a: 'foo' }, 'bar', 'bar'],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: 'b', c: null }, { a: 'b' }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])('%j patched with %j is %j', (target, patch, result) => {
    const before = structuredClone([target, patch]);
    expect(mergePatch(target, patch)).toEqual(result);
    expect([target, patch]).toEqual(before);
  });

  test('dates, bytes and bigints replace and are replaced as a whole', () => {
    const target = { date: new Date(1), bytes: Uint8Array.of(1, 2), big: 2n ** 60n };
    const patch = { date: Uint8Array.of(3), bytes: new Date(2), big: { a: new Date(3) } };
    expect(mergePatch(target, patch)).toEqual(patch);
    expect(mergePatch(target, { date: { a: 1 }, bytes: null })).toEqual({ date: { a: 1 }, big: 2n ** 60n });
  });

  test('a name that is special in JavaScript is a name as any other', () => {
    const patch: Value = JSON.parse('{"__proto__":{"a":1},"constructor":{"b":2},"toString":null}');
    expect(JSON.stringify(mergePatch({ x: 1 }, patch))).toBe('{"x":1,"__proto__":{"a":1},"constructor":{"b":2}}');
    expect(Reflect.get({}, 'a')).toBeUndefined();
  });
});
