import type { Key } from './key.ts';

/** The size of nodes, in bytes as {@link itemBytes} counts them. */
export interface NodeShape {
  /** A node has at least this many bytes, except for the last node of a level. */
  readonly minBytes: number;
  /** A node ends when it has this many bytes. */
  readonly maxBytes: number;
  /** Sizes beyond the minimum follow a Rayleigh distribution with this scale. */
  readonly spreadBytes: number;
}

/**
 * The shape of every stored tree: nodes of 80 KiB on average, few near the maximum. The shape is
 * part of the format: equal contents give equal chunks only if they are cut alike. Tests use other
 * shapes to get many small nodes.
 */
export const NODE_SHAPE: NodeShape = { minBytes: 48 * 1024, maxBytes: 128 * 1024, spreadBytes: 26 * 1024 };

/** Average size of a node, in bytes. */
export function meanNodeBytes({ minBytes, spreadBytes }: NodeShape): number {
  return minBytes + spreadBytes * Math.sqrt(Math.PI / 2);
}

/**
 * The size of an item within its node, in bytes. Depends on the item alone, so edit history has no
 * influence.
 */
export function itemBytes(key: Key, payloadBytes: number): number {
  return (typeof key === 'number' ? 2 : key.length + 1) + payloadBytes;
}

/**
 * Decides where the nodes of a level end. The decision depends on the item's key and the node's
 * size so far, never on edit history: equal contents are cut in equal places.
 *
 * The probability grows in proportion to the size beyond the minimum and to the item's own size,
 * which keeps the sizes of nodes close together. Dolt's prolly trees do the same with a Weibull
 * distribution. This is the case with shape 2, written as plain multiplication so that every
 * machine computes the same.
 */
export class NodeSplitter {
  readonly shape: NodeShape;
  /** The size of the node so far, in bytes as {@link itemBytes} counts them. */
  size = 0;
  readonly #level: number;
  readonly #chance: number;

  constructor(shape: NodeShape, level: number) {
    this.shape = shape;
    this.#level = level;
    this.#chance = 2 ** 32 / shape.spreadBytes ** 2;
  }

  /**
   * Counts the next item of a node.
   * @returns whether the node ends after it
   */
  endsAfter(key: Key, payloadBytes: number): boolean {
    const bytes = itemBytes(key, payloadBytes);
    this.size += bytes;
    const ends = this.size >= this.shape.minBytes && this.endsAt(this.size, key, bytes);
    if (ends) this.size = 0;
    return ends;
  }

  /**
   * Whether a node ends after an item of this many bytes. Counts nothing.
   * @param size the size of the node with that item, not below the minimum
   */
  endsAt(size: number, key: Key, bytes: number): boolean {
    const { minBytes, maxBytes } = this.shape;
    return size >= maxBytes || hashKey(key, this.#level) < bytes * (size - minBytes) * this.#chance;
  }

  /** Forgets the items counted so far, at the end of a level. */
  reset(): void {
    this.size = 0;
  }
}

/**
 * A 32-bit hash of a key. Each level has its own hash, so that its cuts do not depend on the hashes
 * of other levels.
 */
export function hashKey(key: Key, level: number): number {
  const salt = Math.imul(level + 1, 0x9e3779b1);
  // Bitwise operators use a number modulo 2^32.
  if (typeof key === 'number') return mix(mix(salt ^ (key / 2 ** 32)) ^ key);
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
