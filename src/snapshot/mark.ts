import type { ChunkId } from '../tree/chunk.ts';
import type { Node } from '../tree/node.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { walkChunks } from '../tree/walk.ts';
import { IdSet } from './id-set.ts';

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
  readonly #nodes = new IdSet();
  /** Apart, since whoever writes a value that is a node's very bytes must not keep that node from being opened. */
  readonly #values = new IdSet();

  constructor(store: NodeStore, part: IdPart = ALL_IDS) {
    this.#store = store;
    this.#part = part;
  }

  /** Ids held in memory. */
  get size(): number {
    return this.#nodes.size + this.#values.size;
  }

  has(id: string): boolean {
    return this.#nodes.has(id) || this.#values.has(id);
  }

  /**
   * Marks what is below a top node.
   * @throws ChunkMissingError, ChunkCorruptError where a node cannot be opened: then nothing may be collected
   */
  async addBelow(top: Node): Promise<void> {
    const skip = (id: ChunkId): boolean => this.#nodes.has(id);
    for await (const { id, holds } of walkChunks(this.#store, top, { values: true, skip })) {
      if (holds !== 'inner' && !isInPart(id, this.#part)) continue;
      if (holds === 'value') this.#values.add(id);
      else this.#nodes.add(id);
    }
  }
}

/** The hexadecimal prefixes, of two digits, under which the ids of a part lie; the empty one where it is all of them. */
export function prefixesOf({ index, of }: IdPart): string[] {
  if (of === 1) return [''];
  const size = 256 / of;
  return Array.from({ length: size }, (_, i) => (index * size + i).toString(16).padStart(2, '0'));
}

function isInPart(id: ChunkId, { index, of }: IdPart): boolean {
  return of === 1 || Math.floor((Number.parseInt(id.slice(0, 2), 16) * of) / 256) === index;
}
