import { parseReference } from './cell-reference.ts';
import { DAY_MS, isoTime, isoTimeOfDay } from './iso-time.ts';
import { checkAreaCount, findMergedAreas, type MergedArea, wrongArea } from './merged-areas.ts';
import { booleanText } from './typed-text.ts';

/** How the texts in an XLSX file become values. */
export interface XlsxRules {
  /** The value of a boolean; undefined if the text is none. */
  readonly booleanOf: (text: string) => boolean | undefined;
  /** The value of a number; undefined if the text is none. */
  readonly numberOf: (text: string) => number | undefined;
  /** The value of a date or of a time of day; undefined if the text is none. */
  readonly timeOf: (text: string) => CellTime | undefined;
  /** Replaces `_x000D_` and the like, which stand for characters that XML cannot hold. */
  readonly unescaped: (text: string) => string;
  /** Whether a cell of a type has no value if it has this text as its `<v>`. */
  readonly isEmpty: (type: string, text: string) => boolean;
  /**
   * Whether formulas need results: a `<v>` that is not empty, in a workbook that does not ask
   * programs to compute all results again.
   */
  readonly needsResults: boolean;
  /** Whether days before March 1900 are numbered as in cells, which count a leap day too many. */
  readonly countsLeapDay: boolean;
  /** Finds the merged areas in the XML of a sheet. */
  readonly findMergedAreas: (texts: () => AsyncIterable<string>) => Promise<readonly MergedArea[]>;
}

/** A date with its time in epoch milliseconds, or a time of day in milliseconds. */
export type CellTime = { readonly epochMs: number } | { readonly dayMs: number };

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
      checkAreaCount(areas);
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

/** A decimal number in XML. */
const NUMBER = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/** The rules 2: exact, or an error. */
export const newestRules: XlsxRules = {
  booleanOf(text) {
    const trimmed = text.trim();
    return trimmed === '1' ? true : trimmed === '0' ? false : booleanText(trimmed);
  },
  numberOf(text) {
    const number = NUMBER.test(text) ? Number(text) : Number.NaN;
    return Number.isFinite(number) ? number : undefined;
  },
  timeOf(text) {
    const trimmed = text.trim();
    const epochMs = isoTime(trimmed);
    if (epochMs !== undefined) return { epochMs };
    const dayMs = isoTimeOfDay(trimmed);
    return dayMs === undefined || dayMs < 0 || dayMs > DAY_MS ? undefined : { dayMs };
  },
  unescaped(text) {
    if (!text.includes('_x')) return text;
    // An escape of half a character stays, since no text can hold it.
    return text.replaceAll(
      /_x(D[89AB][\dA-F]{2})__x(D[C-F][\dA-F]{2})_|_x([\dA-F]{4})_/gi,
      (escaped, high?: string, low?: string, unit?: string) => {
        const units = unit === undefined ? [high, low] : [unit];
        const character = String.fromCharCode(...units.map((digits = '') => Number.parseInt(digits, 16)));
        return character.isWellFormed() ? character : escaped;
      },
    );
  },
  // A text may be the empty result of a formula.
  isEmpty: (type, text) => type !== 'str' && text.trim() === '',
  needsResults: true,
  countsLeapDay: true,
  findMergedAreas,
};
