import { DAY_MS, isoTime, isoTimeOfDay } from './iso-time.ts';
import { findMergedAreas } from './merged-areas.ts';
import type { XlsxRules } from './reading-rules.ts';
import { booleanText } from './typed-text.ts';

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
