import { setImmediate as pause } from 'node:timers/promises';

const ITEMS = 1_000;

/**
 * The same items, with a pause now and then in which signals and timers have their turn: without one they wait while items
 * come that need nothing from a store, such as empty rows.
 */
export async function* withPauses<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  let since = 0;
  for await (const item of items) {
    yield item;
    if (++since < ITEMS) continue;
    since = 0;
    await pause();
  }
}
