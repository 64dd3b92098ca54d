import type { ChunkId } from '../../codec/chunk.ts';
import type { Node } from '../../tree/node.ts';
import type { NodeStore } from '../../tree/node-store.ts';
import { walkChunks } from '../../tree/walk.ts';
import { IdSet } from './id-set.ts';

const MAX_PARTS = 256;

/** One of `of` parts of all ids, divided by their first byte. `of` is a power of two up to 256. */
export interface IdPart {
  readonly index: number;
  readonly of: number;
}

export const ALL_IDS: IdPart = { index: 0, of: 1 };

/**
 * Marks the chunks of one part that trees reach. It marks inner nodes of all parts, so that each is
 * read only once.
 */
export class Marks {
  readonly #store: NodeStore;
  readonly #part: IdPart;
  readonly #maxIds: number;
  readonly #onMark: (() => void) | undefined;
  readonly #nodes = new IdSet();
  /**
   * Separate, because a value may have the same bytes as a node, and that node must still be read.
   */
  readonly #values = new IdSet();
  /**
   * Leaves of other parts that have already been read, as many as fit. A tree that shares one does
   * not read it again.
   */
  #others = new IdSet();

  /**
   * @param maxIds the most ids in memory, see {@link isFull}
   * @param onMark called for each chunk; if it throws, the marking ends
   */
  constructor(store: NodeStore, part: IdPart = ALL_IDS, maxIds = Number.POSITIVE_INFINITY, onMark?: () => void) {
    this.#store = store;
    this.#part = part;
    this.#maxIds = maxIds;
    this.#onMark = onMark;
  }

  /** Ids marked. */
  get size(): number {
    return this.#nodes.size + this.#values.size;
  }

  /**
   * Whether there are too many ids, so that smaller parts are needed. The smallest parts are never
   * full.
   */
  get isFull(): boolean {
    return this.size > this.#maxIds && this.#part.of < MAX_PARTS;
  }

  has(id: string): boolean {
    return this.#nodes.has(id) || this.#values.has(id);
  }

  /**
   * Marks the chunks below a top node. Ends early if it {@link isFull}.
   * @throws ChunkMissingError, ChunkCorruptError if a node cannot be read; nothing may be collected
   * then
   */
  async addBelow(top: Node): Promise<void> {
    const skip = (id: ChunkId): boolean => this.#nodes.has(id) || this.#others.has(id);
    for await (const { id, holds } of walkChunks(this.#store, top, { values: true, skip })) {
      this.#onMark?.();
      if (holds === 'inner' || isInPart(id, this.#part)) (holds === 'value' ? this.#values : this.#nodes).add(id);
      else if (holds === 'leaf') this.#others.add(id);
      if (this.size + this.#others.size > this.#maxIds) this.#others = new IdSet();
      if (this.isFull) return;
    }
  }
}

/** The part to which an id belongs, if there are `of` parts. */
export function partOf(id: string, of: number): IdPart {
  return { index: Math.floor((Number.parseInt(id.slice(0, 2), 16) * of) / 256), of };
}

function isInPart(id: ChunkId, { index, of }: IdPart): boolean {
  return of === 1 || partOf(id, of).index === index;
}
