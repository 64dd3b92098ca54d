import type { ChunkId } from '../codec/chunk.ts';
import type { Key } from './key.ts';
import { memoryBytes, type Node } from './node.ts';

const DEFAULT_CACHE_BYTES = 8 * 1024 * 1024;
/** Approximate memory of an item besides its content, in bytes. */
const CACHED_ITEM_BYTES = 200;
/** Approximate memory of a text besides its characters, in bytes. */
const TEXT_BYTES = 24;

interface Held {
  /** A node, or the canonical bytes of a large value. */
  readonly content: Node | Uint8Array;
  readonly bytes: number;
}

interface Request<T> {
  readonly owner: object;
  readonly content: Promise<T>;
}

/**
 * A cache of decoded nodes and encoded large values. Chunks are named by the hash of their content,
 * so stores of different logs can share one cache. The least recently used chunks are evicted
 * first.
 *
 * Readers of the same chunk at the same time share one request. A failed request is forgotten, and
 * fails only the readers of the store that sent it.
 */
export class NodeCache {
  /** Approximate memory that the cached chunks may take, in bytes. */
  readonly maxBytes: number;
  readonly #held = new Map<string, Held>();
  readonly #nodeRequests = new Map<ChunkId, Request<Node>>();
  readonly #valueRequests = new Map<ChunkId, Request<Uint8Array>>();
  #bytes = 0;

  constructor(maxBytes: number = DEFAULT_CACHE_BYTES) {
    this.maxBytes = maxBytes;
  }

  /** Approximate memory of the cached chunks, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A node, if the cache has it. */
  node(id: ChunkId): Node | undefined {
    const content = this.#use(id);
    return content !== undefined && 'level' in content ? content : undefined;
  }

  /**
   * A node, from the cache or by a request.
   * @param owner the store that sends the request
   * @throws any error of the request
   */
  loadNode(id: ChunkId, owner: object, request: () => Promise<Node>): Promise<Node> {
    const node = this.node(id);
    if (node !== undefined) return Promise.resolve(node);
    return shared(this.#nodeRequests, id, owner, async () => {
      const loaded = await request();
      this.addNode(id, loaded);
      return loaded;
    });
  }

  /** Like {@link loadNode}, for the canonical bytes of a large value. */
  loadValue(id: ChunkId, owner: object, request: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const content = this.#use(valueKey(id));
    if (content !== undefined && !('level' in content)) return Promise.resolve(content);
    return shared(this.#valueRequests, id, owner, async () => {
      const canonical = await request();
      this.addValue(id, canonical);
      return canonical;
    });
  }

  /** Adds a node. Its children must be references by id, since the cache counts only the node. */
  addNode(id: ChunkId, node: Node): void {
    this.#add(id, node, memoryBytes(node) + textBytes(node.keys));
  }

  addValue(id: ChunkId, canonical: Uint8Array): void {
    this.#add(valueKey(id), canonical, canonical.length + CACHED_ITEM_BYTES);
  }

  #use(key: string): Node | Uint8Array | undefined {
    const held = this.#held.get(key);
    if (held === undefined) return undefined;
    this.#held.delete(key);
    this.#held.set(key, held);
    return held.content;
  }

  #add(key: string, content: Node | Uint8Array, bytes: number): void {
    // One chunk must not evict all others and then itself.
    if (bytes > this.maxBytes) return;
    this.#bytes += bytes - (this.#held.get(key)?.bytes ?? 0);
    this.#held.delete(key);
    this.#held.set(key, { content, bytes });
    for (const [oldest, { bytes: freed }] of this.#held) {
      if (this.#bytes <= this.maxBytes) break;
      this.#held.delete(oldest);
      this.#bytes -= freed;
    }
  }
}

/** Approximate memory of the texts of keys, and of their bytes in the chunk, which a leaf keeps. */
function textBytes(keys: readonly Key[]): number {
  let bytes = 0;
  for (const key of keys) if (typeof key === 'string') bytes += 2 * key.length + TEXT_BYTES;
  return bytes;
}

/** A value's key in the cache. The same bytes may also be a node. */
function valueKey(id: ChunkId): string {
  return `value ${id}`;
}

/** Joins the running request for a chunk, or sends one. */
async function shared<T>(
  requests: Map<ChunkId, Request<T>>,
  id: ChunkId,
  owner: object,
  request: () => Promise<T>,
): Promise<T> {
  for (;;) {
    const running = requests.get(id);
    if (running === undefined) break;
    try {
      return await running.content;
    } catch (error) {
      if (running.owner === owner) throw error;
    }
  }
  const content = request().finally(() => requests.delete(id));
  requests.set(id, { owner, content });
  return content;
}
