import type { MergedArea } from './merged-areas.ts';

/**
 * The rules by which the texts of a file become values. They never change, so an Import entry that
 * names them gives the same cells in every version of logfold.
 */
export type RulesNumber = 1 | 2;

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
