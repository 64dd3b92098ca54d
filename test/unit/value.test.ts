import { expect, test } from 'vitest';
import { checkValue, toValue } from '../../src/codec/value.ts';
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
  ['a function', { call: () => 1 }],
  ['an instance of a class', { map: new Map() }],
  ['a lone surrogate', { text: '\ud800' }],
  ['a cycle', cycle],
])('%s cannot be stored', (_, given) => {
  expect(() => toValue(given)).toThrow(ValueUnsupportedError);
});

test('a value is what JSON reads back of an object of another library', () => {
  // biome-ignore lint/suspicious/noSparseArray: a hole is the case
  for (const given of [[undefined], [1, , 2], { a: [{ b: undefined }, [undefined]] }, { lines: [undefined, null] }]) {
    expect(toValue(given)).toStrictEqual(JSON.parse(JSON.stringify(given)));
  }
});

const wide: unknown[] = [];
wide.push(wide, wide);

test.each([
  ['a property', { a: undefined }, ' at `a`'],
  ['an item of an array', [0, undefined], ' at `[1]`'],
  ['a part', { order: { lines: [{ item: 'tea' }, { item: undefined }] } }, ' at `order.lines[1].item`'],
  ['a name with a space', { 'the item': [undefined] }, ' at `["the item"][0]`'],
  ['a hostile name', { '\u202e`': undefined }, ' at `["\\u{202e}`"]`'],
  ['a long name', { ['x'.repeat(1e6)]: [undefined] }, `${'x'.repeat(100)}…`],
  ['a cycle', cycle, '[0].cycle[0].cycle[0]'],
  ['a wide cycle', wide, '[0][0][0]'],
  ['the value itself', undefined, 'cannot be stored, in the body. Leave it out'],
])('the error names the place of %s', (_, given, place) => {
  const run = () => checkValue(given, 'the body');
  expect(run).toThrow(place);
  expect(run).toThrow(', in the body');
  expect(run).toThrow(/^.{1,400}$/u);
});
