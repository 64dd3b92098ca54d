import { InvalidArgumentError } from '@commander-js/extra-typings';

/** Reads an option that is a whole number from 1. */
export function wholeNumber(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new InvalidArgumentError('It is a whole number from 1.');
  return number;
}

/** Reads an option that lists some of the known names, with commas between. */
export function namesOf<T extends string>(known: readonly T[]): (text: string) => T[] {
  return (text) =>
    text.split(',').map((name) => {
      const found = known.find((each) => each === name);
      if (found === undefined) throw new InvalidArgumentError(`There is no '${name}', only ${known.join(', ')}.`);
      return found;
    });
}
