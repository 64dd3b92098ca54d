import pLimit from 'p-limit';
import type { ChunkId, ChunkPlatform, ChunkStore } from '../codec/chunk.ts';
import { chunkId, openChunk, packChunk } from '../codec/chunk.ts';
import { decodeValue } from '../codec/message-pack.ts';
import type { Value } from '../codec/value.ts';
import {
  ChunkMissingError,
  LogfoldError,
  REBUILD_ADVICE,
  StoreUnavailableError,
  textOf,
  type Where,
} from '../errors.ts';
import { NODE_SHAPE, type NodeShape } from './chunk-boundary.ts';
import type { NodeRef } from './node.ts';
import { decodeNode, encodeNode, isLeaf, type Node } from './node.ts';

export interface NodeStoreOptions {
  /** Decoded nodes are kept up to about this many bytes of memory, the least recently used going first. */
  readonly cacheBytes?: number;
  /** How trees are cut; only tests give another than the format's. */
  readonly shape?: NodeShape;
  /** Chunks that may be on their way to or from the store at once. */
  readonly concurrency?: number;
  /** Whose chunks these are, for errors. */
  readonly where?: Where;
}

export interface NodeStoreCounts {
  read: number;
  bytesRead: number;
  written: number;
  bytesWritten: number;
}

interface Cached {
  readonly node: Node;
  readonly bytes: number;
}

const DEFAULT_CACHE_BYTES = 8 * 1024 * 1024;
const DEFAULT_CONCURRENCY = 16;
/** Uncompressed bytes of chunks that may be on their way early at once. */
const EARLY_BYTES = 4 * 1024 * 1024;

/** One log's nodes and large values, over its chunk store. Whatever is read is checked against its hash. */
export class NodeStore {
  readonly platform: ChunkPlatform;
  readonly shape: NodeShape;
  /** Chunks read from and written to the chunk store by this object, with their stored sizes in bytes. */
  readonly counts: NodeStoreCounts = { read: 0, bytesRead: 0, written: 0, bytesWritten: 0 };
  readonly #chunks: ChunkStore;
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #cacheBytes: number;
  readonly #where: Where;
  readonly #cache = new Map<ChunkId, Cached>();
  readonly #values = new Map<ChunkId, Uint8Array>();
  #valueBytes = 0;
  #cachedBytes = 0;
  readonly #early = new Set<Promise<void>>();
  /** Chunks that are still on their way, or did not get there: whoever reads them meanwhile finds them here. */
  readonly #unwritten = new Map<ChunkId, Uint8Array>();
  #earlyBytes = 0;
  #earlyFailure: { readonly error: unknown } | undefined;

  constructor(chunks: ChunkStore, platform: ChunkPlatform, options: NodeStoreOptions = {}) {
    this.#chunks = chunks;
    this.platform = platform;
    this.shape = options.shape ?? NODE_SHAPE;
    this.#cacheBytes = options.cacheBytes ?? DEFAULT_CACHE_BYTES;
    this.#where = options.where ?? {};
    this.#limit = pLimit(options.concurrency ?? DEFAULT_CONCURRENCY);
  }

  /** A node that is in memory already. */
  peek(ref: NodeRef): Node | undefined {
    return ref.node ?? (ref.id === undefined ? undefined : this.#cached(ref.id));
  }

  /**
   * A node, from memory or from the chunk store.
   * @throws ChunkMissingError, ChunkCorruptError
   */
  async load(ref: NodeRef): Promise<Node> {
    const known = this.peek(ref);
    if (known !== undefined) return known;
    if (ref.id === undefined) throw new Error('a node has neither an id nor content');
    const { id } = ref;
    return this.#placed(async () => {
      const canonical = await this.#fetch(id);
      const node = decodeNode(canonical);
      this.#remember(id, node);
      return node;
    });
  }

  /** The value in a chunk of its own. */
  async loadValue(id: ChunkId): Promise<Value> {
    return this.#placed(async () => decodeValue(this.#values.get(id) ?? (await this.#fetch(id))));
  }

  /** Bytes of large values that wait for the next {@link save}. */
  get heldValueBytes(): number {
    return this.#valueBytes;
  }

  /** Takes in a value that is too large for a leaf; it is written by the next {@link save}. */
  addValue(canonical: Uint8Array): ChunkId {
    const id = chunkId(this.platform, canonical);
    if (!this.#values.has(id)) this.#valueBytes += canonical.length;
    this.#values.set(id, canonical);
    return id;
  }

  /**
   * Writes large values, then every node below the given ones that is only in memory, then returns. The given nodes
   * themselves are the tops of trees: they travel in the root and are no chunks.
   */
  async save(tops: readonly Node[]): Promise<void> {
    const writes: Promise<void>[] = [];
    for (const [id, canonical] of this.#values) writes.push(this.#write(id, canonical));
    for (const top of tops) this.#saveChildren(top, writes);
    await Promise.all([...writes, ...this.#early]);
    if (this.#earlyFailure !== undefined) throw this.#earlyFailure.error;
    this.#values.clear();
    this.#valueBytes = 0;
  }

  #saveChildren(node: Node, writes: Promise<void>[]): void {
    if (isLeaf(node)) return;
    for (const child of node.children) {
      if (child.node === undefined) continue;
      const { node } = child;
      this.#saveChildren(node, writes);
      const { id, canonical } = this.#place(child, node);
      this.#remember(id, node);
      writes.push(this.#write(id, canonical));
    }
  }

  /** Gives a node its id, so that its reference needs it in memory no longer: it is about to be written. */
  #place(ref: NodeRef, node: Node): { readonly id: ChunkId; readonly canonical: Uint8Array } {
    const canonical = encodeNode(node);
    const id = chunkId(this.platform, canonical);
    ref.wasSaved(id);
    return { id, canonical };
  }

  /**
   * Writes leaves that an edit has just made, without waiting for the rest of the tree, so that they need not be kept in
   * memory. Returns once there is room for more. Failures are thrown by the next {@link save}, which is to follow.
   */
  async saveEarly(refs: readonly NodeRef[]): Promise<void> {
    for (const ref of refs) {
      if (ref.node === undefined) continue;
      const { id, canonical } = this.#place(ref, ref.node);
      this.#earlyBytes += canonical.length;
      this.#unwritten.set(id, canonical);
      const write = this.#write(id, canonical)
        .then(() => {
          this.#unwritten.delete(id);
        })
        .finally(() => {
          this.#earlyBytes -= canonical.length;
          this.#early.delete(write);
        });
      // Awaited by save, where it is still on its way then; a failure before that is kept for it.
      write.catch((error) => {
        this.#earlyFailure ??= { error };
      });
      this.#early.add(write);
      while (this.#earlyBytes > EARLY_BYTES) await Promise.race([...this.#early].map((each) => each.catch(() => {})));
    }
  }

  #write(id: ChunkId, canonical: Uint8Array): Promise<void> {
    return this.#limit(async () => {
      const stored = packChunk(this.platform, canonical);
      await this.#chunks.put(id, stored);
      this.counts.written++;
      this.counts.bytesWritten += stored.length;
    });
  }

  async #placed<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      throw error instanceof LogfoldError ? error.at(this.#where) : error;
    }
  }

  async #fetch(id: ChunkId): Promise<Uint8Array> {
    const unwritten = this.#unwritten.get(id);
    if (unwritten !== undefined) return unwritten;
    const stored = await this.#limit(() => this.#read(id));
    if (stored === undefined) {
      throw new ChunkMissingError(`chunk ${id} is not in the blob store`, {
        advice: REBUILD_ADVICE,
      });
    }
    this.counts.read++;
    this.counts.bytesRead += stored.length;
    return openChunk(this.platform, id, stored);
  }

  /** A store that fails is told apart from a reducer that fails while it reads: only the first may pass. */
  async #read(id: ChunkId): Promise<Uint8Array | undefined> {
    try {
      return await this.#chunks.get(id);
    } catch (cause) {
      if (cause instanceof LogfoldError) throw cause;
      throw new StoreUnavailableError(`chunk ${id} could not be read: ${textOf(cause)}`, { cause });
    }
  }

  #cached(id: ChunkId): Node | undefined {
    const cached = this.#cache.get(id);
    if (cached === undefined) return undefined;
    this.#cache.delete(id);
    this.#cache.set(id, cached);
    return cached.node;
  }

  #remember(id: ChunkId, node: Node): void {
    const bytes = memoryBytes(node);
    this.#cachedBytes += bytes - (this.#cache.get(id)?.bytes ?? 0);
    this.#cache.delete(id);
    this.#cache.set(id, { node, bytes });
    for (const [oldest, { bytes: freed }] of this.#cache) {
      if (this.#cachedBytes <= this.#cacheBytes) break;
      this.#cache.delete(oldest);
      this.#cachedBytes -= freed;
    }
  }
}

/** About how much memory the nodes below a node take that are not saved yet, in bytes. */
export function unsavedBytes(node: Node): number {
  if (isLeaf(node)) return 0;
  let bytes = 0;
  for (const { node: child } of node.children) {
    if (child !== undefined) bytes += memoryBytes(child) + unsavedBytes(child);
  }
  return bytes;
}

/** About how much memory a node takes. */
function memoryBytes(node: Node): number {
  return isLeaf(node) ? node.bytes.length + node.keys.length * 12 : node.keys.length * 120;
}
