import { UsageError } from '../errors.ts';

/**
 * Checks that an application gave an object of options, and none with a wrong name: a condition or
 * a limit with a typing error would be ignored silently.
 * @param taker the call or the object that takes them, for the message
 * @param place its log, if there is one
 * @throws UsageError otherwise
 */
export function checkOptionNames(
  taker: string,
  options: unknown,
  names: readonly string[],
  place: { readonly log?: string } = {},
): void {
  const advice = `Give only ${names.join(', ')}`;
  if (typeof options !== 'object' || options === null) {
    throw new UsageError(`${taker} takes an object with names, not ${String(options)}`, { ...place, advice });
  }
  const wrong = Object.keys(options).find((name) => !names.includes(name));
  if (wrong !== undefined) throw new UsageError(`${taker} does not take '${wrong}'`, { ...place, advice });
}
