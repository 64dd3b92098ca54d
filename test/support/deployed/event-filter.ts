/**
 * Whether a record passes the filters of an event source mapping, by Lambda's rules. A record
 * passes if one of the patterns matches. A pattern matches if each of its keys matches. A list
 * matches if it contains the value, or a prefix of it as `{ prefix: text }`.
 * @param patterns parsed FilterCriteria; an empty list lets every record pass
 * @throws Error if a pattern compares with anything but texts
 */
export function passesFilter(patterns: readonly unknown[], record: unknown): boolean {
  if (patterns.length === 0) return true;
  // Check all patterns, so that a match does not hide an unknown operator in another one.
  return patterns.map((pattern) => fits(pattern, record, '')).some((passed) => passed);
}

function fits(pattern: unknown, value: unknown, path: string): boolean {
  if (Array.isArray(pattern)) {
    if (pattern.length === 0) throw new Error(`the filter has an empty list at ${path}`);
    const matches = pattern.map((each) => {
      if (typeof each === 'string') return each === value;
      const prefix = prefixIn(each);
      if (prefix === undefined) throw new Error(`the filter has an unknown operator: ${path} ${say(each)}`);
      return typeof value === 'string' && value.startsWith(prefix);
    });
    return matches.includes(true);
  }
  if (typeof pattern !== 'object' || pattern === null) throw new Error(`the filter has no list at ${path}`);
  const keys = Object.entries(pattern).map(([key, below]) => {
    if (key.startsWith('$')) throw new Error(`the filter has an unknown operator: ${path}.${key}`);
    return fits(below, property(value, key), path === '' ? key : `${path}.${key}`);
  });
  return keys.every((passed) => passed);
}

function prefixIn(operator: unknown): string | undefined {
  if (typeof operator !== 'object' || operator === null || Object.keys(operator).length !== 1) return undefined;
  const prefix = property(operator, 'prefix');
  return typeof prefix === 'string' ? prefix : undefined;
}

function property(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.entries(value).find(([name]) => name === key)?.[1];
}

function say(value: unknown): string {
  return JSON.stringify(value);
}
