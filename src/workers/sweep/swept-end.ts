import type { Position } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { entryPlace } from '../../log/item-codec.ts';
import { isYoung, type Youth } from './swept-tail.ts';

/** An end that a sweep found. */
export interface FoundEnd {
  readonly position: Position;
  /** The newest entry that the sweep saw, also if it is young. */
  readonly newest: Position;
  /** Creation time of the entry in epoch seconds; undefined if nobody knows. */
  readonly created: number | undefined;
}

/**
 * Finds the newest entry that a sweep feeds, from items in order: the one before the first young
 * entry. The stream feeds that one and those after it.
 */
export class SweptEnd {
  readonly #youth: Youth;
  #found: Omit<FoundEnd, 'newest'> | undefined;
  #newest: Position | undefined;
  #sawYoung = false;
  /** Whether the log has not been read, because another program wrote to its newest segment. */
  isUnread = true;

  constructor(youth: Youth) {
    this.#youth = youth;
  }

  /** @throws ItemInvalidError if the keys of the item are malformed */
  add(item: StoredItem): void {
    this.isUnread = false;
    this.#sawYoung ||= isYoung(item, this.#youth);
    const { position } = entryPlace(item);
    this.#newest = position;
    if (this.#sawYoung) return;
    const created = Number(item.C?.N ?? Number.NaN);
    this.#found = { position, created: Number.isSafeInteger(created) && created > 0 ? created : undefined };
  }

  /** Undefined if all items were young, or if there was none. */
  get found(): FoundEnd | undefined {
    const newest = this.#newest;
    return newest && this.#found && { ...this.#found, newest };
  }

  /** The newest item, also if it is young. Undefined if there was none. */
  get newest(): Position | undefined {
    return this.#newest;
  }
}
