import { ByteWriter } from '../codec/bytes.ts';
import { writeValue } from '../codec/canonical.ts';
import { decodeValue } from '../codec/message-pack.ts';
import type { Value } from '../codec/value.ts';
import { StateUnsupportedError, ValueUnsupportedError } from '../errors.ts';
import { describeKey } from '../tree/key.ts';
import type { DraftUse } from './draft-use.ts';

/**
 * The size limit of a metadata record: UTF-16 code units of names and strings plus bytes of other
 * encoded values. Every root contains the whole record, and a root has a limit.
 */
export const MAX_META_SIZE = 8 * 1024 * 1024;

/** The record is a map inside the root's map, so its values are nested two levels deep. */
const DEPTH_IN_ROOT = 2;

/**
 * A value that no program can change, or the canonical encoding of one that a program could change.
 */
type Held = null | boolean | number | bigint | string | Uint8Array;

/**
 * The metadata record of a draft: few and small values by name. It behaves as a Map does, with
 * three differences that make it equal to the record that is loaded from a snapshot:
 *
 * - `set` takes a copy in canonical form. The record ignores later changes to the object, and to
 *   objects that `get` returned.
 * - Names are in ascending order of UTF-16 code units, not in the order of insertion.
 * - `set` refuses a value that cannot be stored.
 */
export class DraftMeta {
  readonly #use: DraftUse;
  readonly #held = new Map<string, Held>();
  #size = 0;

  constructor(use: DraftUse, values: { readonly [name: string]: Value }) {
    this.#use = use;
    for (const [name, value] of Object.entries(values)) this.#hold(name, canonical(value));
  }

  /** Number of names. */
  get size(): number {
    this.#use.checkRead();
    return this.#held.size;
  }

  has(name: string): boolean {
    this.#use.checkRead();
    return this.#held.has(name);
  }

  get(name: string): Value | undefined {
    this.#use.checkRead();
    const held = this.#held.get(name);
    return held instanceof Uint8Array ? decodeValue(held) : held;
  }

  /**
   * @throws ValueUnsupportedError if the value cannot be stored
   * @throws StateUnsupportedError if the name cannot be stored or the record is too large; then the
   * record is unchanged
   */
  set(name: string, value: Value): this {
    if (!this.#use.allowsEdit()) return this;
    const before = this.#held.get(name);
    if (before === undefined) checkName(name);
    const held = canonical(value);
    const size = this.#size - sizeOf(name, before) + sizeOf(name, held);
    if (size > MAX_META_SIZE && size > this.#size) {
      throw new StateUnsupportedError(
        `the metadata record would take ${size} bytes and exceed the limit of ${MAX_META_SIZE}`,
        {
          advice:
            'Correct the reducer so that it stores large or many values in a map, raise its version, and deploy it',
        },
      );
    }
    this.#hold(name, held);
    return this;
  }

  #hold(name: string, held: Held): void {
    this.#size += sizeOf(name, held) - sizeOf(name, this.#held.get(name));
    this.#held.set(name, held);
  }

  /** @returns whether the record had the name */
  delete(name: string): boolean {
    if (!this.#use.allowsEdit()) return false;
    this.#size -= sizeOf(name, this.#held.get(name));
    return this.#held.delete(name);
  }

  clear(): void {
    if (!this.#use.allowsEdit()) return;
    this.#held.clear();
    this.#size = 0;
  }

  /** The names in ascending order, as they are at the time of the call. */
  keys(): ArrayIterator<string> {
    this.#use.checkRead();
    return [...this.#held.keys()].sort().values();
  }

  /** The entries in ascending order of name. Skips names that are deleted during the iteration. */
  *entries(): Generator<[string, Value], undefined> {
    for (const name of this.keys()) {
      const value = this.get(name);
      if (value !== undefined) yield [name, value];
    }
  }

  *values(): Generator<Value, undefined> {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator](): Generator<[string, Value], undefined> {
    return this.entries();
  }

  forEach(visit: (value: Value, name: string) => void): void {
    for (const [name, value] of this.entries()) visit(value, name);
  }
}

function checkName(name: unknown): void {
  if (typeof name === 'string' && name.isWellFormed()) return;
  throw new StateUnsupportedError(`${describeKey(name)} cannot be a name in the metadata record`, {
    advice: 'Correct the reducer so that it uses strings without lone surrogates, raise its version, and deploy it',
  });
}

function canonical(value: Value): Held {
  // Most records are counters and names.
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return value;
  if (typeof value === 'string' && value.isWellFormed()) return value;
  const writer = new ByteWriter(64);
  writeValue(writer, value, DEPTH_IN_ROOT);
  const encoded = writer.take();
  if (typeof value === 'object') return encoded;
  const read = decodeValue(encoded);
  // Only numbers and bigints get here: other values are objects or were refused.
  if (typeof read === 'number' || typeof read === 'bigint') return read;
  throw new ValueUnsupportedError(`a value of type ${typeof value} cannot be stored`);
}

function sizeOf(name: string, held: Held | undefined): number {
  if (held === undefined) return 0;
  const size = typeof held === 'string' || held instanceof Uint8Array ? held.length : 9;
  return name.length + size;
}
