import { readFileSync } from 'node:fs';
import { InvalidArgumentError } from '@commander-js/extra-typings';
import { z } from 'zod';
import { textOf } from '../src/errors.ts';
import { type Run, runSchema } from './measured.ts';

/**
 * Parses a whole number of at least 1.
 * @throws InvalidArgumentError if the text is something else
 */
export function wholeNumber(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new InvalidArgumentError('Give a whole number of at least 1.');
  return number;
}

/** Returns a parser for a list of known names, separated by commas. */
export function namesOf<T extends string>(known: readonly T[]): (text: string) => T[] {
  return (text) =>
    text.split(',').map((name) => {
      const found = known.find((each) => each === name);
      if (found === undefined) throw new InvalidArgumentError(`There is no '${name}', only ${known.join(', ')}.`);
      return found;
    });
}

/**
 * Reads a file that `npm run bench -- --json` printed.
 * @throws InvalidArgumentError if there is no such file, or it holds something else
 */
export function readRun(path: string): Run {
  try {
    return runSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    const reason = error instanceof z.ZodError ? 'it holds something else' : textOf(error);
    throw new InvalidArgumentError(`Give a file that npm run bench -- --json printed: ${reason}.`);
  }
}
