import { format, getFormatDateInfo, isValidFormat } from 'numfmt';
import { dateAt } from '../codec/value.ts';
import { DAY_MS } from './iso-time.ts';
import type { XmlAttributes, XmlHandler } from './xml-parser.ts';

/** Formats that a file names only by number (ECMA-376, 18.8.30), as shown in English. */
const BUILT_IN: Readonly<Record<number, string>> = {
  1: '0',
  2: '0.00',
  3: '#,##0',
  4: '#,##0.00',
  9: '0%',
  10: '0.00%',
  11: '0.00E+00',
  12: '# ?/?',
  13: '# ??/??',
  14: 'm/d/yyyy',
  15: 'd-mmm-yy',
  16: 'd-mmm',
  17: 'mmm-yy',
  18: 'h:mm AM/PM',
  19: 'h:mm:ss AM/PM',
  20: 'h:mm',
  21: 'h:mm:ss',
  22: 'm/d/yyyy h:mm',
  37: '#,##0_);(#,##0)',
  38: '#,##0_);(#,##0)',
  39: '#,##0.00_);(#,##0.00)',
  40: '#,##0.00_);(#,##0.00)',
  41: '_(* #,##0_);_(* (#,##0);_(* "-"_);_(@_)',
  42: '_("$"* #,##0_);_("$"* (#,##0);_("$"* "-"_);_(@_)',
  43: '_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)',
  44: '_("$"* #,##0.00_);_("$"* (#,##0.00);_("$"* "-"??_);_(@_)',
  45: 'mm:ss',
  46: '[h]:mm:ss',
  47: 'mm:ss.0',
  48: '##0.0E+0',
  49: '@',
};
/** Dates of East Asian languages, which differ by the language of the program. */
const EAST_ASIAN_DATES = [27, 28, 29, 30, 31, 34, 35, 36, 50, 51, 52, 53, 54, 55, 56, 57, 58];

const GENERAL = 'General';
/** Programs allow 255 characters. */
const MAX_PATTERN_CHARACTERS = 1024;
/** The digits that programs show of a fraction. A file may have 17. */
const SHOWN_DIGITS = 15;

/** Larger numbers are shown without their format. */
const HUGE = 1e18;

const DAY_SECONDS = 24 * 3600;
/** The number of 1970-01-01. */
const EPOCH_DAY = 25_569;
/** The number of 1900-03-01. 1900 counts as a leap year, so earlier days have other numbers. */
const MARCH_1900 = 61;
/** Days from 1899-12-30 to 1904-01-01. */
const DAYS_TO_1904 = 1_462;

/** How cells of a style show their values. */
export class CellFormat {
  readonly #pattern: string;
  readonly #offset: number;
  readonly #isPlain: boolean;
  readonly #changesText: boolean;
  readonly #isScientific: boolean;
  /** The units to which times are rounded; undefined if numbers are not times. */
  readonly #unitsPerDay: number | undefined;
  /** Whether numbers are days, with or without a time. */
  readonly isDate: boolean;

  /** @param from1904 whether dates count from 1904 */
  constructor(pattern: string, { from1904 }: { readonly from1904: boolean }) {
    // A currency's language says nothing about the separators.
    const neutral = pattern.replaceAll(/\[\$([^\]-]+)-[^\]]*\]/g, '[$$$1]');
    const isUsable = neutral.length <= MAX_PATTERN_CHARACTERS && isValidFormat(neutral);
    this.#pattern = isUsable ? neutral : GENERAL;
    this.#isPlain = ['general', '@', ''].includes(this.#pattern.toLowerCase());
    this.#changesText = !this.#isPlain && /@|;.*;.*;/.test(this.#pattern);
    this.#isScientific = /E[+-]/i.test(this.#pattern);
    const { year, month, day, hours, minutes, seconds } = getFormatDateInfo(this.#pattern);
    this.isDate = year || month || day;
    const showsFractions = /s\]?\.0/i.test(this.#pattern);
    if (hours || minutes || seconds) this.#unitsPerDay = showsFractions ? DAY_MS : DAY_SECONDS;
    else if (this.isDate) this.#unitsPerDay = DAY_MS;
    this.#offset = this.isDate && from1904 ? DAYS_TO_1904 : 0;
  }

  showNumber(number: number): string {
    // numfmt mixes up the digits of larger numbers.
    const isHuge = Math.abs(number) >= HUGE && !this.#isScientific;
    if (this.#isPlain || isHuge) return plainNumber(number);
    try {
      return format(this.#pattern, this.#rounded(number) + this.#offset);
    } catch {
      // numfmt has no day for some numbers in the calendars of other cultures.
      return plainNumber(number);
    }
  }

  /** Rounds a time to what is shown. numfmt carries seconds over, but not into the next day. */
  #rounded(number: number): number {
    return this.#unitsPerDay === undefined ? number : Math.round(number * this.#unitsPerDay) / this.#unitsPerDay;
  }

  showText(text: string): string {
    return this.#changesText ? format(this.#pattern, text) : text;
  }

  /** The time that a number stands for, if this is a format of dates; in UTC. */
  toDate(number: number): Date | undefined {
    if (!this.isDate) return undefined;
    const days = number + this.#offset;
    const date = dateAt(Math.round((days - EPOCH_DAY + (days < MARCH_1900 ? 1 : 0)) * DAY_MS));
    return Number.isNaN(date.getTime()) ? undefined : date;
  }
}

interface DayCount {
  readonly from1904: boolean;
  /** Whether 1900 counts as a leap year. */
  readonly countsLeapDay: boolean;
}

/** The number of a time in epoch milliseconds, as cells store it. */
export function dayNumber(epochMs: number, { from1904, countsLeapDay }: DayCount): number {
  const days = epochMs / DAY_MS + EPOCH_DAY;
  return days - (countsLeapDay && days < MARCH_1900 ? 1 : 0) - (from1904 ? DAYS_TO_1904 : 0);
}

/**
 * Shows a number without a format, with all its digits. Programs shorten it to the width of its
 * column, but show all digits when the cell is edited.
 */
function plainNumber(number: number): string {
  const text = String(Number.isSafeInteger(number) ? number : Number(number.toPrecision(SHOWN_DIGITS)));
  return text.replace(/e([+-])(\d)$/, 'E$10$2').replace('e', 'E');
}

/** Collects the formats of an XLSX file's styles. */
export class CellFormats implements XmlHandler {
  readonly #from1904: boolean;
  readonly #patterns = new Map<number, string>();
  /** The number of the format of each style. */
  readonly #styles: number[] = [];
  readonly #formats = new Map<number, CellFormat>();
  #isIn = '';

  constructor({ from1904 }: { readonly from1904: boolean }) {
    this.#from1904 = from1904;
    for (const id of EAST_ASIAN_DATES) this.#patterns.set(id, 'm/d/yyyy');
    for (const [id, pattern] of Object.entries(BUILT_IN)) this.#patterns.set(Number(id), pattern);
  }

  open(name: string, { numFmtId = '0', formatCode = GENERAL }: XmlAttributes): void {
    if (name === 'numFmts' || name === 'cellXfs') this.#isIn = name;
    else if (name === 'numFmt' && this.#isIn === 'numFmts') this.#patterns.set(Number(numFmtId), formatCode);
    else if (name === 'xf' && this.#isIn === 'cellXfs') this.#styles.push(Number(numFmtId));
  }

  close(name: string): void {
    if (name === this.#isIn) this.#isIn = '';
  }

  text(): void {}

  /** The format of a style. Cells without a style have the first one. */
  of(style: number): CellFormat {
    const id = this.#styles[style] ?? 0;
    const known = this.#formats.get(id);
    if (known !== undefined) return known;
    const made = new CellFormat(this.#patterns.get(id) ?? GENERAL, { from1904: this.#from1904 });
    this.#formats.set(id, made);
    return made;
  }
}
