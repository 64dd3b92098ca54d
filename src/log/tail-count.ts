import type { StoredItem } from './attribute.ts';
import type { MeasuredTail } from './division-policy.ts';
import type { ReservedTypes } from './entry.ts';
import { decodeEntryHead } from './item-codec.ts';
import { itemBytes } from './item-size.ts';

/**
 * Counts the items of a segment in order, to find its {@link MeasuredTail}. Reads only keys, type
 * and time of an item, so a malformed entry counts too.
 */
export class TailCount {
  readonly #types: ReservedTypes;
  readonly #before: number;
  #snapshot: number;
  #newest: number;
  #items = 0;
  #bytes = 0;
  #oldest: number | undefined;
  /** Bytes of all counted items. */
  allBytes = 0;
  /** Creation time of the first counted entry that is not a Snapshot entry, in epoch seconds. */
  first: number | undefined;

  /** @param before number of the last item that is not counted; it is a Snapshot entry, or -1 */
  constructor(types: ReservedTypes, before: number) {
    this.#types = types;
    this.#before = before;
    this.#snapshot = before;
    this.#newest = before;
  }

  /**
   * Counts the next item.
   * @returns false for an item up to `before`, which is not counted
   * @throws ItemInvalidError if its keys are malformed
   */
  add(item: StoredItem): boolean {
    const { position, type } = decodeEntryHead(item);
    if (position.entry <= this.#before) return false;
    const bytes = itemBytes(item);
    this.#items++;
    this.allBytes += bytes;
    this.#newest = position.entry;
    if (type === this.#types.snapshot) {
      this.#snapshot = position.entry;
      this.#bytes = 0;
      this.#oldest = undefined;
      return true;
    }
    this.#bytes += bytes;
    const created = Number(item.C?.N ?? Number.NaN);
    if (!Number.isSafeInteger(created)) return true;
    this.first ??= created;
    this.#oldest ??= created;
    return true;
  }

  /** The tail so far. Without the first items of the segment, its bytes are an estimate. */
  get tail(): MeasuredTail {
    const estimate = this.#items === 0 ? 0 : (this.allBytes / this.#items) * (this.#newest + 1);
    return {
      snapshot: this.#snapshot,
      newest: this.#newest,
      bytes: this.#bytes,
      oldest: this.#oldest,
      segmentBytes: this.#before === -1 ? this.allBytes : estimate,
    };
  }
}
