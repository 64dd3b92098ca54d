import type { Position } from '../../../src/ids/position.ts';
import { buildState } from '../../../src/snapshot/build.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import type { SheetLog } from '../../support/sheet-log.ts';

/** Runs a step that must fail with the advice of the case. @returns the advice with its values */
export type Refused = (run: () => unknown) => Promise<string>;

/** Causes an error, follows its advice, and shows that the error is gone. */
export type Follow = (refused: Refused) => unknown;

/**
 * How to follow each piece of advice, by its text in the sources. `…` replaces the values of a
 * template, `LOG` the log's id.
 */
export type Cases = Readonly<Record<string, Follow>>;

/** Returns the texts in single quotes; an apostrophe is not a quote. */
export function quoted(advice: string): string[] {
  return [...advice.matchAll(/(?<!\w)'([^']+)'/g)].map(([, text]) => text ?? '');
}

/** Returns the logfold commands that advice names, each split into words. */
export function commandsOf(advice: string): string[][] {
  return quoted(advice)
    .map((text) => text.split(' '))
    .filter(([name]) => name === 'logfold')
    .map(([, ...words]) => words);
}

/** Returns the numbers in advice. */
export function numbersOf(advice: string): number[] {
  return [...advice.matchAll(/\d+/g)].map(([digits]) => Number(digits));
}

/** Folds a log up to a position. @throws the error that stops the log */
export async function build(sheet: SheetLog, position: Position, reducer: Reducer = sheet.deps.reducer): Promise<void> {
  await buildState({ ...sheet.deps, reducer }, sheet.log, { at: position });
}
