/** A number with what it counts, for a person: `1 entry`, `2 entries`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** `1 entry` or `2 entries`, which nearly every command tells of. */
export function countEntries(number: number): string {
  return count(number, 'entry', 'entries');
}
