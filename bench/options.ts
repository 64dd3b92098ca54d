import { InvalidArgumentError } from '@commander-js/extra-typings';

/**
 * Parses a whole number from 1.
 * @throws InvalidArgumentError if the text is something else
 */
export function wholeNumber(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new InvalidArgumentError('Give a whole number from 1.');
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
