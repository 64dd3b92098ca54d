import fc from 'fast-check';
import type { Value } from '../../../src/codec/value.ts';

const SURROGATES = { from: 0xd800, to: 0xe000 };

/**
 * Any character that UTF-8 can encode: `unit: 'binary'` of fast-check, which makes a Map of all
 * 1,112,064 characters before the first text.
 */
export const anyCharacter: fc.Arbitrary<string> = fc
  .nat({ max: 0x10ffff - (SURROGATES.to - SURROGATES.from) })
  .map((n) => String.fromCodePoint(n < SURROGATES.from ? n : n + SURROGATES.to - SURROGATES.from), indexOf);

function indexOf(text: unknown): number {
  const point = typeof text === 'string' ? text.codePointAt(0) : undefined;
  if (point === undefined || text !== String.fromCodePoint(point)) throw new Error('this is not one character');
  if (point < SURROGATES.from) return point;
  if (point < SURROGATES.to) throw new Error('UTF-8 cannot encode half a character');
  return point - (SURROGATES.to - SURROGATES.from);
}

/**
 * Texts that UTF-8 can encode. Some start with a byte order mark or are names that JavaScript uses.
 */
export const texts: fc.Arbitrary<string> = fc.oneof(
  { weight: 20, arbitrary: fc.string({ maxLength: 40 }) },
  { weight: 20, arbitrary: fc.string({ unit: anyCharacter, maxLength: 40 }) },
  { weight: 5, arbitrary: fc.string({ maxLength: 5 }).map((text) => `\ufeff${text}`) },
  {
    weight: 5,
    arbitrary: fc.constantFrom(
      '',
      '__proto__',
      'constructor',
      'toJSON',
      'x'.repeat(31),
      'x'.repeat(32),
      'é'.repeat(130),
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('y'.repeat(300), 'z'.repeat(66_000)) },
);

const integers = fc.oneof(
  fc.integer({ min: -300, max: 300 }),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.constantFrom(127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, -32, -33, -128, -129, -32_768, -32_769),
);
const bigints = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n });
const floats = fc.oneof(fc.double(), fc.float(), fc.constantFrom(-0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53));
const dates = fc.oneof(
  fc.date({ noInvalidDate: true }),
  fc.integer({ min: -1e12, max: 1e12 }).map((ms) => new Date(ms)),
  fc.constantFrom(new Date(0), new Date(-1), new Date(2 ** 32 * 1000), new Date(2 ** 34 * 1000)),
);
const scalars: fc.Arbitrary<Value> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  integers,
  floats,
  bigints,
  texts,
  fc.uint8Array({ maxLength: 300 }),
  dates,
);

/** Storable values of every type. */
export const values: fc.Arbitrary<Value> = fc.letrec<{ value: Value }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    scalars,
    fc.array(tie('value'), { maxLength: 20 }),
    fc.array(fc.tuple(texts, tie('value')), { maxLength: 20 }).map((entries): Value => Object.fromEntries(entries)),
  ),
})).value;

/**
 * The value that a stored value reads as. Integers that a number holds exactly come back as
 * numbers.
 */
export function asRead(value: Value): Value {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  return mapChildren(value, asRead);
}

/** The same value with the keys of its objects in reverse order. */
export function keysReversed(value: Value): Value {
  const inner = mapChildren(value, keysReversed);
  return isPlain(inner) ? Object.fromEntries(Object.entries(inner).reverse()) : inner;
}

/** Nested arrays with this many levels. */
export function nested(levels: number): Value {
  let value: Value = null;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

function mapChildren(value: Value, change: (value: Value) => Value): Value {
  if (Array.isArray(value)) return value.map(change);
  return isPlain(value) ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, change(item)])) : value;
}

function isPlain(value: Value): value is { readonly [key: string]: Value } {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
