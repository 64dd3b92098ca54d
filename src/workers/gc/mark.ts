import type { ChunkId } from '../../codec/chunk.ts';
import type { Node } from '../../tree/node.ts';
import type { NodeStore } from '../../tree/node-store.ts';
import { walkChunks } from '../../tree/walk.ts';
import { IdSet } from './id-set.ts';

const MAX_PARTS = 256;

/** One of several parts into which all ids are cut, by their first byte: `index` of `of`, a power of two up to 256. */
export interface IdPart {
  readonly index: number;
  readonly of: number;
}

export const ALL_IDS: IdPart = { index: 0, of: 1 };

/** Marks the chunks of one part that trees reach. Every inner node is marked whatever its part, to be opened once only. */
export class Marks {
  readonly #store: NodeStore;
  readonly #part: IdPart;
  readonly #maxIds: number;
  readonly #onMark: (() => void) | undefined;
  readonly #nodes = new IdSet();
  /** Apart, since whoever writes a value that is a node's very bytes must not keep that node from being opened. */
  readonly #values = new IdSet();
  /** Leaves of other parts that were read already, as far as there is room: trees that share them need not read them again. */
  #others = new IdSet();

  /**
   * @param maxIds how many ids may be held in memory at once, see {@link isFull}
   * @param onMark called for each chunk; what it throws ends the marking
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

  /** Whether more was reached than may be held, so that smaller parts are needed. The smallest ones are never full. */
  get isFull(): boolean {
    return this.size > this.#maxIds && this.#part.of < MAX_PARTS;
  }

  has(id: string): boolean {
    return this.#nodes.has(id) || this.#values.has(id);
  }

  /**
   * Marks what is below a top node; ends early once it {@link isFull}.
   * @throws ChunkMissingError, ChunkCorruptError where a node cannot be opened: then nothing may be collected
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

/** The part of so many to which an id belongs. */
export function partOf(id: string, of: number): IdPart {
  return { index: Math.floor((Number.parseInt(id.slice(0, 2), 16) * of) / 256), of };
}

function isInPart(id: ChunkId, { index, of }: IdPart): boolean {
  return of === 1 || partOf(id, of).index === index;
}
