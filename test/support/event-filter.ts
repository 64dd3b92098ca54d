/**
 * Whether a record passes the filters of an event source mapping, as Lambda decides it: it passes where one of the
 * patterns fits, a pattern fits where each of its keys does, and a list fits where one of its texts is the value.
 * @param patterns as in FilterCriteria, parsed; none let everything through
 * @throws Error for a pattern with anything but texts to compare with: that is all that is known here
 */
export function passesFilter(patterns: readonly unknown[], record: unknown): boolean {
  if (patterns.length === 0) return true;
  // All of them, so that an unknown operator does not hide behind a pattern that fits.
  return patterns.map((pattern) => fits(pattern, record, '')).some((passed) => passed);
}

function fits(pattern: unknown, value: unknown, path: string): boolean {
  if (Array.isArray(pattern)) {
    if (pattern.length === 0) throw new Error(`the filter compares ${path} with nothing`);
    const other = pattern.find((each) => typeof each !== 'string');
    if (other !== undefined)
      throw new Error(`the filter has an operator that is not known here: ${path} ${say(other)}`);
    return pattern.includes(value);
  }
  if (typeof pattern !== 'object' || pattern === null) throw new Error(`the filter has no list at ${path}`);
  const keys = Object.entries(pattern).map(([key, below]) => {
    if (key.startsWith('$')) throw new Error(`the filter has an operator that is not known here: ${path}.${key}`);
    return fits(below, property(value, key), path === '' ? key : `${path}.${key}`);
  });
  return keys.every((passed) => passed);
}

function property(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.entries(value).find(([name]) => name === key)?.[1];
}

function say(value: unknown): string {
  return JSON.stringify(value);
}
