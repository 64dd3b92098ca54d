import { parseReference } from './cell-reference.ts';
import { checkCount, type MergedArea, wrongArea } from './merged-areas.ts';
import type { XlsxRules } from './reading-rules.ts';

const MAX_TAG_CHARACTERS = 64 * 1024;
/** A merged area in the XML of a sheet. Comments may have it too. */
const MERGE_TAG = /<(?:[\w.-]+:)?mergeCell\s[^<>]*?\bref\s*=\s*["']([A-Z]+\d+):([A-Z]+\d+)["']/g;

/** A time that every program reads alike. */
const ISO = /^(?:\d{4}|[+-]\d{6})(?:-\d\d){0,2}(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?$/;
/** A date of digits, which V8 reads. */
const DIGITS = /^[\d/-]+(?:[ ,]+[\d:.]+)?(?:z|Z|[+-]\d\d:\d\d)?$/;
const ZONE = /(?:[Zz]|:[\d.]+[+-]\d\d:\d\d)$/;

/**
 * The rules of the first version of imports. They are kept for stored entries, whose snapshots must
 * stay provable, and are lenient. They read a date without a zone in UTC, as the functions on AWS
 * always did. The first version read some of them in the zone of the machine.
 */
export const firstRules: XlsxRules = {
  booleanOf: (text) => text === '1' || text === 'true',
  numberOf(text) {
    const number = Number(text);
    return Number.isFinite(number) ? number : undefined;
  },
  timeOf(text) {
    if (!ISO.test(text) && !DIGITS.test(text)) return undefined;
    const isUtc = ZONE.test(text) || (ISO.test(text) && !text.includes('T'));
    // biome-ignore lint/plugin: these texts have a zone
    const epochMs = Date.parse(isUtc ? text : `${text}Z`);
    return Number.isNaN(epochMs) ? undefined : { epochMs };
  },
  unescaped(text) {
    if (!text.includes('_x')) return text;
    const plain = text.replaceAll(/_x([0-9A-Fa-f]{4})_/g, (_, unit: string) =>
      String.fromCharCode(Number.parseInt(unit, 16)),
    );
    return plain.isWellFormed() ? plain : text;
  },
  isEmpty: (type, text) => type === 'n' && text.trim() === '',
  needsResults: false,
  countsLeapDay: false,
  async findMergedAreas(texts) {
    const areas: MergedArea[] = [];
    let rest = '';
    for await (const text of texts()) {
      const piece = rest + text;
      // The last tag may end in the next piece.
      const cut = piece.lastIndexOf('<');
      rest = cut < 0 || piece.length - cut > MAX_TAG_CHARACTERS ? '' : piece.slice(cut);
      const whole = cut < 0 ? piece : piece.slice(0, cut);
      if (whole.includes('mergeCell')) areas.push(...areasIn(whole));
      checkCount(areas);
    }
    return areas;
  },
};

function areasIn(text: string): MergedArea[] {
  return Array.from(text.matchAll(MERGE_TAG), ([, from = '', to = '']) => {
    const [first, last] = [parseReference(from), parseReference(to)];
    if (first === undefined || last === undefined) throw wrongArea(`${from}:${to}`);
    return { first, last };
  });
}
