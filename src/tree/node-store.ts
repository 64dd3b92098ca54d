import pLimit from 'p-limit';
import { fromHex } from '../codec/bytes.ts';
import { type ChunkId, type ChunkPlatform, type ChunkStore, chunkId, openChunk, packChunk } from '../codec/chunk.ts';
import { decodeValue } from '../codec/message-pack.ts';
import type { Value } from '../codec/value.ts';
import { ChunkMissingError, LogfoldError, REBUILD_ADVICE, StoreUnavailableError, textOf } from '../errors.ts';
import { decodeNode, encodeNode, isLeaf, type Node, NodeRef } from './node.ts';
import { NODE_SHAPE, type NodeShape } from './node-builder.ts';
import { NodeCache } from './node-cache.ts';

export interface NodeStoreOptions {
  /**
   * The cache, which other stores may share; a new cache by default. A check of stored chunks
   * needs a new one, otherwise it finds chunks that only another store has.
   */
  readonly cache?: NodeCache | undefined;
  /** Approximate memory of the cache, in bytes. */
  readonly cacheBytes?: number;
  /** The shape of trees. Tests set another shape than the format's. */
  readonly shape?: NodeShape;
  /** Maximum number of concurrent requests to the chunk store. */
  readonly concurrency?: number;
}

export interface NodeStoreCounts {
  read: number;
  bytesRead: number;
  written: number;
  bytesWritten: number;
}

const DEFAULT_CONCURRENCY = 16;
/** Maximum total of uncompressed bytes that early writes have in flight. */
const EARLY_BYTES = 4 * 1024 * 1024;

/**
 * One log's nodes and large values, on top of its chunk store. Checks the hash of everything it
 * reads.
 */
export class NodeStore {
  readonly platform: ChunkPlatform;
  readonly shape: NodeShape;
  /**
   * Chunks that this object read from and wrote to the chunk store, with their stored sizes in
   * bytes.
   */
  readonly counts: NodeStoreCounts = { read: 0, bytesRead: 0, written: 0, bytesWritten: 0 };
  readonly #chunks: ChunkStore;
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #cache: NodeCache;
  readonly #values = new Map<ChunkId, Uint8Array>();
  #valueBytes = 0;
  readonly #early = new Set<Promise<void>>();
  /** Chunks whose early write is in flight or has failed. Reads find them here. */
  readonly #unwritten = new Map<ChunkId, Uint8Array>();
  #earlyBytes = 0;
  #earlyFailure: { readonly error: unknown } | undefined;

  constructor(chunks: ChunkStore, platform: ChunkPlatform, options: NodeStoreOptions = {}) {
    this.#chunks = chunks;
    this.platform = platform;
    this.shape = options.shape ?? NODE_SHAPE;
    this.#cache = options.cache ?? new NodeCache(options.cacheBytes);
    this.#limit = pLimit(options.concurrency ?? DEFAULT_CONCURRENCY);
  }

  /** A node, if it is in memory. */
  peek(ref: NodeRef): Node | undefined {
    return ref.node ?? (ref.id === undefined ? undefined : this.#cache.node(ref.id));
  }

  /**
   * A node, from memory or from the chunk store.
   * @throws ChunkMissingError, ChunkCorruptError
   */
  async load(ref: NodeRef): Promise<Node> {
    const known = this.peek(ref);
    if (known !== undefined) return known;
    if (ref.id === undefined) throw new Error('a reference has neither an id nor a node');
    const { id } = ref;
    return this.#placed(() => this.#cache.loadNode(id, this, async () => decodeNode(await this.#fetch(id))));
  }

  /** A large value, which is a separate chunk. */
  async loadValue(id: ChunkId): Promise<Value> {
    const request = (): Promise<Uint8Array> => this.#fetch(id);
    return this.#placed(async () =>
      decodeValue(this.#values.get(id) ?? (await this.#cache.loadValue(id, this, request))),
    );
  }

  /** Bytes of large values that the next {@link save} writes. */
  get heldValueBytes(): number {
    return this.#valueBytes;
  }

  /** Holds a value that is too large for a leaf. The next {@link save} writes it. */
  addValue(canonical: Uint8Array): ChunkId {
    const id = chunkId(this.platform, canonical);
    if (!this.#values.has(id)) this.#valueBytes += canonical.length;
    this.#values.set(id, canonical);
    return id;
  }

  /**
   * Writes all large values, and all nodes below the given tops that are only in memory. The tops
   * themselves are not chunks: the root contains them.
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

  /**
   * Puts large values, and all nodes below the given tops that are only in memory, into the cache
   * under their ids. Writes nothing and changes no node. So a reader of another tree fetches
   * nothing that these trees already have.
   */
  remember(tops: readonly Node[]): void {
    for (const [id, canonical] of this.#values) this.#cache.addValue(id, canonical);
    for (const top of tops) this.#rememberChildren(top);
  }

  /**
   * Puts the nodes below a node into the cache.
   * @returns the node with references by id, as a load gives it
   */
  #rememberChildren(node: Node): Node {
    if (isLeaf(node)) return node;
    const children = node.children.map((child) => {
      if (child.node === undefined) return child;
      const known = this.#rememberChildren(child.node);
      const id = chunkId(this.platform, encodeNode(known));
      this.#cache.addNode(id, known);
      return NodeRef.stored(fromHex(id), child);
    });
    return { ...node, children };
  }

  #saveChildren(node: Node, writes: Promise<void>[]): void {
    if (isLeaf(node)) return;
    for (const child of node.children) {
      if (child.node === undefined) continue;
      const { node } = child;
      this.#saveChildren(node, writes);
      const { id, canonical } = this.#place(child, node);
      this.#cache.addNode(id, node);
      writes.push(this.#write(id, canonical));
    }
  }

  /**
   * Gives a node its id right before it is written, so that its reference no longer holds the node
   * in memory.
   */
  #place(ref: NodeRef, node: Node): { readonly id: ChunkId; readonly canonical: Uint8Array } {
    const canonical = encodeNode(node);
    const id = chunkId(this.platform, canonical);
    ref.wasSaved(id);
    return { id, canonical };
  }

  /**
   * Writes new leaves before the rest of the tree, so that they do not stay in memory. Returns as
   * soon as there is room for more. The caller must call {@link save} later, which throws the
   * failures.
   */
  async saveEarly(refs: readonly NodeRef[]): Promise<void> {
    for (const ref of refs) {
      if (ref.node === undefined) continue;
      const { node } = ref;
      const { id, canonical } = this.#place(ref, node);
      this.#cache.addNode(id, node);
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
      // `save` awaits the write, or throws the failure that is kept here.
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
      throw error instanceof LogfoldError ? error.at(this.#chunks.where ?? {}) : error;
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

  /**
   * Marks failures of the store. They may be transient, unlike failures of the reducer that reads.
   */
  async #read(id: ChunkId): Promise<Uint8Array | undefined> {
    try {
      return await this.#chunks.get(id);
    } catch (cause) {
      if (cause instanceof LogfoldError) throw cause;
      throw new StoreUnavailableError(`chunk ${id} could not be read: ${textOf(cause)}`, { cause });
    }
  }
}
