import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Json, jsonFromValue, valueFromJson } from '../../src/cli/json-value.ts';
import { checkValue } from '../../src/codec/value.ts';
import { ValueUnsupportedError } from '../../src/errors.ts';
import { values } from '../support/models/values.ts';
import { propertyRuns } from '../support/property-runs.ts';

function throughText(json: Json): Json {
  return JSON.parse(JSON.stringify(json));
}

test('a value is the same after it was written as JSON and read', () => {
  const named = fc.dictionary(fc.constantFrom('$bytes', '$object', '$', '$x', 'plain'), values, { maxKeys: 2 });
  fc.assert(
    fc.property(fc.oneof(values, named), (value) => {
      expect(valueFromJson(throughText(jsonFromValue(value)))).toEqual(value);
    }),
    { numRuns: propertyRuns(1_000) },
  );
});

test('JSON of other programs is read as it is', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      fc.pre(!text.includes('{"$'));
      const json: Json = JSON.parse(text);
      expect(valueFromJson(json)).toEqual(json);
      checkValue(valueFromJson(json));
    }),
    { numRuns: propertyRuns(1_000) },
  );
});

test.each(['[', '{"a":', '{"$x":'])('a text with many times %s is refused', (open) => {
  const close = open === '[' ? ']' : '}';
  const json: Json = JSON.parse(`${open.repeat(100_000)}1${close.repeat(100_000)}`);
  expect(() => valueFromJson(json)).toThrow(ValueUnsupportedError);
});

describe('an object whose only name starts with $', () => {
  test.each([
    { $ref: 'x' },
    { $bytes: 'no base64' },
    { $bytes: 1 },
    { $date: '2026-01-01' },
    { $integer: '1.5' },
    { $number: '1' },
    { $number: 'toString' },
    { $object: 'x' },
    { $object: [] },
  ])('%j is refused', (json) => {
    expect(() => valueFromJson(json)).toThrow(ValueUnsupportedError);
  });
});
