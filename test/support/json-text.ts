import type { Random } from './models/random.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/**
 * Writes JSON as another program could: with any space, any escapes and the fields in any order.
 * Plain JSON has no space, and no escapes in texts of letters and digits.
 */
export function writeJson(json: Json, random: Random, plain = false): string {
  const space = () => (!plain && random.chance(0.1) ? (random.pick([' ', '\n', '\t', '\r\n ', '  ']) ?? '') : '');
  const list = (open: string, parts: readonly string[], close: string) =>
    `${open}${space()}${parts.map((part) => `${part}${space()}`).join(`,${space()}`)}${close}`;
  if (typeof json === 'string') return writeText(json, random, plain);
  if (typeof json !== 'object' || json === null) return String(json);
  if (isList(json))
    return list(
      '[',
      json.map((each) => writeJson(each, random, plain)),
      ']',
    );
  const entries = Object.entries(json).map(([key, value]) => {
    return `${writeText(key, random, plain)}${space()}:${space()}${writeJson(value, random, plain)}`;
  });
  return list('{', shuffled(entries, random), '}');
}

function isList(json: Json): json is readonly Json[] {
  return Array.isArray(json);
}

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

export function writeText(value: string, random: Random, plain: boolean): string {
  // Base64 and the names of the protocol need no escapes.
  if (plain && /^[\w+/=]*$/.test(value)) return `"${value}"`;
  const parts = Array.from(value, (point) => {
    const mustEscape = point < ' ' || /["\\\p{Surrogate}]/u.test(point);
    if (!mustEscape && !random.chance(0.1)) return point;
    const short = SHORT[point];
    if (short !== undefined && random.chance(0.7)) return short;
    return Array.from({ length: point.length }, (_, unit) => {
      const hex = point.charCodeAt(unit).toString(16).padStart(4, '0');
      return `\\u${random.chance(0.5) ? hex : hex.toUpperCase()}`;
    }).join('');
  });
  return `"${parts.join('')}"`;
}

function shuffled<T>(values: readonly T[], random: Random): T[] {
  return values
    .map((value) => ({ value, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
