/**
 * The item at an index that is known to be there.
 * @throws RangeError where it is not, instead of going on with undefined
 */
export function at<T>(items: ArrayLike<T>, index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError(`index ${index} is outside of ${items.length} items`);
  return item;
}
