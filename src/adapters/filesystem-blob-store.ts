import { randomUUID } from 'node:crypto';
import type { Dirent, Stats } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { BlobInfo, BlobStore } from '../store/blob-store.ts';
import { checkBlobKey } from '../store/keys.ts';

export interface FilesystemBlobStoreOptions {
  /** False gives up durability across a power cut for speed; what a killed process wrote stays whole either way. */
  readonly fsync?: boolean | undefined;
}

/**
 * Blobs as files: a key is a path under `objects/`. What is being written lies under `temporary/` of the same
 * directory, is renamed when it is whole, and is never listed or read before. Several processes may share a directory.
 *
 * As in any directory, and unlike in S3, one key cannot be another's folder (`a` and `a/b`).
 */
export class FilesystemBlobStore implements BlobStore {
  readonly #objects: string;
  readonly #temporary: string;
  readonly #fsync: boolean;

  /** @param directory made on the first put where it does not exist */
  constructor(directory: string, options: FilesystemBlobStoreOptions = {}) {
    this.#objects = resolve(directory, 'objects');
    this.#temporary = resolve(directory, 'temporary');
    this.#fsync = options.fsync ?? true;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return undefinedWhereMissing(readFile(this.#path(key)));
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const path = this.#path(key);
    const directory = dirname(path);
    await Promise.all([this.#makeDirectory(directory), this.#makeDirectory(this.#temporary)]);
    const temporary = join(this.#temporary, randomUUID());
    try {
      await this.#writeWhole(temporary, bytes);
      await rename(temporary, path);
    } catch (error) {
      await undefinedWhereMissing(unlink(temporary));
      throw error;
    }
    await this.#syncDirectory(directory);
  }

  async delete(keys: readonly string[]): Promise<void> {
    const paths = keys.map((key) => this.#path(key));
    for (const path of paths) await undefinedWhereMissing(unlink(path));
  }

  async *list(prefix: string): AsyncGenerator<BlobInfo> {
    const slash = prefix.lastIndexOf('/');
    const folder = prefix.slice(0, slash + 1);
    // A prefix is no key, but it must not lead out of the directory either.
    if (folder !== '') checkBlobKey(folder.slice(0, -1));
    yield* this.#walk(folder, prefix.slice(slash + 1));
  }

  async *#walk(folder: string, start: string): AsyncGenerator<BlobInfo> {
    const directory = join(this.#objects, folder);
    const entries = (await undefinedWhereMissing(readdir(directory, { withFileTypes: true }))) ?? [];
    for (const name of entries.map(keyPart).sort()) {
      if (!name.startsWith(start)) continue;
      const key = folder + name;
      if (name.endsWith('/')) {
        yield* this.#walk(key, '');
        continue;
      }
      const stats: Stats | undefined = await undefinedWhereMissing(stat(join(this.#objects, key)));
      // Deleted since the directory was read: it is no longer there to be listed.
      if (stats !== undefined) yield { key, bytes: stats.size, modified: stats.mtimeMs };
    }
  }

  #path(key: string): string {
    return join(this.#objects, checkBlobKey(key));
  }

  async #writeWhole(path: string, bytes: Uint8Array): Promise<void> {
    const file = await open(path, 'wx');
    try {
      await file.writeFile(bytes);
      if (this.#fsync) await file.sync();
    } finally {
      await file.close();
    }
  }

  async #makeDirectory(directory: string): Promise<void> {
    const first = await mkdir(directory, { recursive: true });
    if (first === undefined) return;
    // A new directory survives a power cut only once its parent is on the disk.
    for (let made = directory; made.length >= first.length; made = dirname(made)) {
      await this.#syncDirectory(dirname(made));
    }
  }

  async #syncDirectory(directory: string): Promise<void> {
    if (!this.#fsync) return;
    const handle = await open(directory, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}

/** With its slash, a folder sorts among its neighbours just as the keys inside of it do. */
function keyPart(entry: Dirent): string {
  return entry.isDirectory() ? `${entry.name}/` : entry.name;
}

async function undefinedWhereMissing<T>(attempt: Promise<T>): Promise<T | undefined> {
  try {
    return await attempt;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    // EISDIR: the key is a folder of other keys, and so no object itself.
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR') return undefined;
    throw error;
  }
}
