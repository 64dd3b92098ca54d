import type { Position } from '../../../src/ids/position.ts';
import { buildState } from '../../../src/snapshot/build.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import type { SheetLog } from '../../support/sheet-log.ts';

/** Runs what must fail with the advice of the case. @returns the advice as the error gives it, with its values */
export type Refused = (run: () => unknown) => Promise<string>;

/** Brings an error about, does what its advice says, and shows that the trouble is gone. */
export type Follow = (refused: Refused) => unknown;

/** How each advice is followed, by its text in the sources: `…` is what a template puts in, `LOG` the log's id. */
export type Cases = Readonly<Record<string, Follow>>;

/** The texts in single quotes; an apostrophe is none. */
export function quoted(advice: string): string[] {
  return [...advice.matchAll(/(?<!\w)'([^']+)'/g)].map(([, text]) => text ?? '');
}

/** The commands of logfold that an advice names, each as its words. */
export function commandsOf(advice: string): string[][] {
  return quoted(advice)
    .map((text) => text.split(' '))
    .filter(([name]) => name === 'logfold')
    .map(([, ...words]) => words);
}

/** The numbers in an advice. */
export function numbersOf(advice: string): number[] {
  return [...advice.matchAll(/\d+/g)].map(([digits]) => Number(digits));
}

/** Folds a log up to a position, and throws what stops it. */
export async function build(sheet: SheetLog, position: Position, reducer: Reducer = sheet.deps.reducer): Promise<void> {
  await buildState({ ...sheet.deps, reducer }, sheet.log, { at: position });
}
