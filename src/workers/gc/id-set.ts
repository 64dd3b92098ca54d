import { fromHex } from '../../codec/bytes.ts';

const ID_BYTES = 32;
const MIN_SLOTS = 64;
/** Share of used slots above which the table grows. */
const FULL = 0.7;

/**
 * A set of chunk ids (64 hexadecimal digits) in flat memory. An id takes 47 to 95 bytes, a fraction
 * of its size in a `Set` of strings. It is an open-addressing hash table with linear probing. Ids
 * are hashes already, so their first bytes choose the slot.
 */
export class IdSet {
  #slots: Uint8Array = new Uint8Array(MIN_SLOTS * ID_BYTES);
  #used: Uint8Array = new Uint8Array(MIN_SLOTS);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(id: string): boolean {
    return this.#used[this.#find(fromHex(id))] === 1;
  }

  /** @returns whether the id was added; false if it was present */
  add(id: string): boolean {
    const bytes = fromHex(id);
    if (!this.#insert(bytes)) return false;
    if (this.#size > this.#used.length * FULL) this.#grow();
    return true;
  }

  #insert(bytes: Uint8Array): boolean {
    const slot = this.#find(bytes);
    if (this.#used[slot] === 1) return false;
    this.#used[slot] = 1;
    this.#slots.set(bytes, slot * ID_BYTES);
    this.#size++;
    return true;
  }

  /** The slot of an id, or the free slot for it. */
  #find(bytes: Uint8Array): number {
    const mask = this.#used.length - 1;
    const first = new DataView(bytes.buffer, bytes.byteOffset, ID_BYTES).getUint32(0);
    for (let slot = first & mask; ; slot = (slot + 1) & mask) {
      if (this.#used[slot] !== 1 || this.#isAt(slot, bytes)) return slot;
    }
  }

  #isAt(slot: number, bytes: Uint8Array): boolean {
    const start = slot * ID_BYTES;
    for (let i = 0; i < ID_BYTES; i++) if (this.#slots[start + i] !== bytes[i]) return false;
    return true;
  }

  #grow(): void {
    const [slots, used] = [this.#slots, this.#used];
    this.#slots = new Uint8Array(slots.length * 2);
    this.#used = new Uint8Array(used.length * 2);
    this.#size = 0;
    for (let slot = 0; slot < used.length; slot++) {
      if (used[slot] === 1) this.#insert(slots.subarray(slot * ID_BYTES, (slot + 1) * ID_BYTES));
    }
  }
}
