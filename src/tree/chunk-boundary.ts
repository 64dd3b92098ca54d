import type { Key } from './key.ts';

/** How large nodes become, in bytes as {@link itemBytes} counts them. */
export interface NodeShape {
  /** A node never ends before it has this many bytes, unless its level ends. */
  readonly minBytes: number;
  /** A node always ends once it has this many bytes. */
  readonly maxBytes: number;
  /** How far sizes spread past the minimum: they are Rayleigh distributed with this scale. */
  readonly spreadBytes: number;
}

/**
 * The shape of every stored tree: nodes of 80 KiB on average, few near the maximum. It is part of the format, since equal
 * contents are equal chunks only where they are cut alike; other shapes are for tests, which want many small nodes.
 */
export const NODE_SHAPE: NodeShape = { minBytes: 48 * 1024, maxBytes: 128 * 1024, spreadBytes: 26 * 1024 };

/** How large nodes are on average, in bytes. */
export function meanNodeBytes({ minBytes, spreadBytes }: NodeShape): number {
  return minBytes + spreadBytes * Math.sqrt(Math.PI / 2);
}

/** What an item counts towards its node's size, in bytes: a function of the item alone, so history has no say. */
export function itemBytes(key: Key, payloadBytes: number): number {
  return (typeof key === 'number' ? 2 : key.length + 1) + payloadBytes;
}

/**
 * Decides where the nodes of a level end. Whether one ends after an item depends on the item's key and on the node's size so far, never on how the node came about: equal contents are cut in equal places. The
 * chance grows with the size past the minimum and with the item's share of it, which keeps sizes close together
 * (as Dolt's prolly trees do with a Weibull distribution; this is the case with shape 2, in plain multiplication, so
 * that every machine computes the same).
 */
export class NodeSplitter {
  readonly #shape: NodeShape;
  readonly #level: number;
  readonly #chance: number;
  #size = 0;

  constructor(shape: NodeShape, level: number) {
    this.#shape = shape;
    this.#level = level;
    this.#chance = 2 ** 32 / shape.spreadBytes ** 2;
  }

  /** Counts an item of a node and says whether the node ends after it. */
  endsAfter(key: Key, payloadBytes: number): boolean {
    const bytes = itemBytes(key, payloadBytes);
    this.#size += bytes;
    if (this.#size < this.#shape.minBytes) return false;
    const threshold = bytes * (this.#size - this.#shape.minBytes) * this.#chance;
    const ends = this.#size >= this.#shape.maxBytes || hashKey(key, this.#level) < threshold;
    if (ends) this.#size = 0;
    return ends;
  }

  /** Forgets the items counted so far: the level has ended. */
  reset(): void {
    this.#size = 0;
  }
}

/** A 32-bit hash of a key; every level gets another one, or one level's ends would all be ends of the next. */
export function hashKey(key: Key, level: number): number {
  const salt = Math.imul(level + 1, 0x9e3779b1);
  if (typeof key === 'number') return mix(mix(salt ^ Math.floor(key / 2 ** 32)) ^ (key % 2 ** 32));
  // FNV-1a over UTF-16 code units.
  let hash = 0x811c9dc5 ^ salt;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** The finalizer of MurmurHash3: every input bit reaches every output bit. */
function mix(value: number): number {
  let hash = value;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
