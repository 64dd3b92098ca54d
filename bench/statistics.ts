/**
 * The median. For an even count, the mean of the two middle numbers.
 * @throws RangeError if there are no numbers
 */
export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.floor((sorted.length - 1) / 2)];
  if (upper === undefined || lower === undefined) throw new RangeError('an empty list has no median');
  return (lower + upper) / 2;
}
