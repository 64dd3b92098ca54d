import { expect, test } from 'vitest';
import { toValue } from '../../src/codec/value.ts';
import { ValueUnsupportedError } from '../../src/errors.ts';

test('a value leaves out undefined properties at any depth, and shares no object with what was given', () => {
  const bytes = Uint8Array.of(1);
  const given = { a: undefined, b: [{ c: undefined, d: 1n }], ['__proto__']: { e: null }, bytes };
  const value = toValue(given);
  expect(Object.entries(value ?? {})).toEqual([
    ['b', [{ d: 1n }]],
    ['__proto__', { e: null }],
    ['bytes', Uint8Array.of(1)],
  ]);
  bytes[0] = 2;
  expect(value).toMatchObject({ bytes: Uint8Array.of(1) });
});

test('an object without a prototype, and a date, are values', () => {
  const date = new Date(0);
  expect(toValue(Object.assign(Object.create(null), { date }))).toEqual({ date });
});

const cycle: unknown[] = [];
cycle.push({ cycle });

test.each([
  ['undefined', undefined],
  ['undefined in an array', [undefined]],
  ['a function', { call: () => 1 }],
  ['an instance of a class', { map: new Map() }],
  ['a lone surrogate', { text: '\ud800' }],
  ['a cycle', cycle],
])('%s cannot be stored', (_, given) => {
  expect(() => toValue(given)).toThrow(ValueUnsupportedError);
});
