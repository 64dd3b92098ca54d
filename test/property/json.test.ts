import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { confusesNames, parseJson } from '../../src/codec/json.ts';
import { writeText } from '../support/json-text.ts';
import { Random } from '../support/models/random.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** JSON as it is written: an object may have a name twice. */
type Written =
  | null
  | boolean
  | number
  | string
  | readonly Written[]
  | { readonly members: readonly (readonly [string, Written])[] };

/** From few characters, so that texts of names often begin with other names. */
const names = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.string({ unit: fc.constantFrom('\\', '\n', '"', 'n', 'u', '0', 'A', '\u0000'), maxLength: 3 }),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom('\\', '\n', '\\n', '\\u', '\\u004', '__proto__', 'constructor', 'toString', ''),
  },
  { weight: 1, arbitrary: fc.constantFrom('~', '~005c', '~~', '10', '9', '€\\', '€\n', '\ud800', '\udc00\\', '😀\n') },
);

const written = fc.letrec<{ any: Written }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<Written[]>(null, true, 1, -0, -0.5, 1e300, 'a\\"b', '{"\\n":1}', '', '~005c'),
    fc.array(tie('any'), { maxLength: 4 }),
    fc
      .array(fc.tuple(names, tie('any')), { maxLength: 4 })
      .map((entries) => ({ members: [['k', 1] as const, ...entries] })),
  ),
})).any;

function write(json: Written, random: Random): string {
  const space = () => (random.chance(0.1) ? (random.pick([' ', '\n', '\t', '\r\n ']) ?? '') : '');
  if (typeof json === 'string') return writeText(json, random, false);
  if (typeof json === 'number') return Object.is(json, -0) ? '-0' : String(json);
  if (typeof json !== 'object' || json === null) return String(json);
  if (!('members' in json)) return `[${json.map((item) => `${space()}${write(item, random)}`).join(',')}${space()}]`;
  const entries = json.members.map(
    ([name, item]) => `${space()}${writeText(name, random, false)}${space()}:${space()}${write(item, random)}`,
  );
  return `{${entries.join()}${space()}}`;
}

function valueFrom(json: Written): unknown {
  if (typeof json !== 'object' || json === null) return json;
  if (!('members' in json)) return json.map(valueFrom);
  return Object.fromEntries(json.members.map(([name, item]) => [name, valueFrom(item)]));
}

/** A value in which the order of names counts, and each property, also `__proto__`. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return { entries: Object.entries(value).map(([name, item]) => [name, comparable(item)]) };
}

/** As the runtime has it. Other tests load code that repairs the one of this process. */
const runtimeParse: typeof JSON.parse = runInNewContext('JSON.parse');

/** Reads JSON token by token. The runtime is right about a token that stands alone. */
function readTokens(text: string): unknown {
  const tokens = (text.match(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g) ?? []).values();
  const next = (): string => tokens.next().value ?? '';
  const value = (token: string): unknown => {
    if (token === '[') {
      const items: unknown[] = [];
      for (let each = next(); each !== ']'; each = next()) if (each !== ',') items.push(value(each));
      return items;
    }
    if (token !== '{') return runtimeParse(token);
    const entries: [string, unknown][] = [];
    for (let each = next(); each !== '}'; each = next()) {
      if (each === ',') continue;
      next();
      entries.push([runtimeParse(each), value(next())]);
    }
    return Object.fromEntries(entries);
  };
  return value(next());
}

/** The runtime knows the names of objects as long as they are in memory. */
const parsedBefore: unknown[] = [];

describe('JSON', () => {
  test('is read as it was written, whatever the process read before', { tags: ['I9'] }, () => {
    const property = fc.property(written, fc.nat(), (json, seed) => {
      const read = parseJson(write(json, new Random(seed)));
      parsedBefore.push(read);
      expect(comparable(read)).toEqual(comparable(valueFrom(json)));
    });
    fc.assert(property, { numRuns: propertyRuns(10_000, 2_000) });
  });

  test('is refused where the runtime refuses it, and otherwise read as its tokens say', () => {
    const expected = (text: string): unknown => {
      try {
        runtimeParse(text);
      } catch {
        return 'SyntaxError';
      }
      return { read: comparable(readTokens(text)) };
    };
    const actual = (text: string): unknown => {
      try {
        return { read: comparable(parseJson(text)) };
      } catch (error) {
        return error instanceof SyntaxError ? 'SyntaxError' : error;
      }
    };
    const pieces = fc.constantFrom('', '\\', '"', '\\"', '\\n', '\\u', ':', ',', '{', '}', '[', ']', ' ', '\u0001');
    const property = fc.property(
      written,
      fc.nat(),
      fc.nat(),
      fc.nat(3),
      pieces,
      (json, seed, where, removed, piece) => {
        const text = write(json, new Random(seed));
        const at = where % (text.length + 1);
        const damaged = `${text.slice(0, at)}${piece}${text.slice(at + removed)}`;
        expect(actual(damaged)).toEqual(expected(damaged));
      },
    );
    fc.assert(property, { numRuns: propertyRuns(2_000) });
  });

  test('is read at any depth', () => {
    const depth = 50_000;
    const text = `${'{"\\n":'.repeat(depth)}1${'}'.repeat(depth)}`;
    let read = parseJson(text);
    for (let i = 0; i < depth; i++) read = Object(read)['\n'];
    expect(read).toBe(1);
  });

  test('is confused by JSON.parse of the runtime that the project pins', () => {
    // If a newer Node reads the names correctly, docs/operations.md should name it.
    expect(runInNewContext(`(${confusesNames})()`)).toBe(true);
  });
});
