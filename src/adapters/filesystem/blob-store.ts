import { createHash, randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { type FileHandle, link, mkdir, open, readdir, readFile, rename, rmdir, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { BlobKeyInvalidError, UploadAbortedError } from '../../errors.ts';
import {
  type BlobInfo,
  type BlobPart,
  type BlobRange,
  type BlobStore,
  clampRange,
  isSameWrite,
  type ListOptions,
  type UploadInfo,
} from '../../store/blob-store.ts';
import { checkBlobKey } from '../../store/keys.ts';
import { translateDiskFull } from './disk-full.ts';
import { withFileLock } from './file-lock.ts';
import { removeAtExit } from './temporary-paths.ts';

export interface FilesystemBlobStoreOptions {
  /**
   * False trades durability across a power cut for speed. Files of a killed process stay whole
   * either way.
   */
  readonly fsync?: boolean;
}

/**
 * Blobs as files: a key is a path under `objects/`. A file is written under `temporary/` of the
 * same directory and renamed when it is whole. Before that it is neither listed nor read. Several
 * processes may share a directory.
 *
 * Unlike in S3, one key cannot be another key's folder (`a` and `a/b`).
 */
export class FilesystemBlobStore implements BlobStore {
  readonly #objects: string;
  readonly #temporary: string;
  readonly #fsync: boolean;

  /** @param directory the first write creates it if it does not exist */
  constructor(directory: string, options: FilesystemBlobStoreOptions = {}) {
    this.#objects = resolve(directory, 'objects');
    this.#temporary = resolve(directory, 'temporary');
    this.#fsync = options.fsync ?? true;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    const bytes = await undefinedIfMissing(readFile(this.#path(key)));
    // Not a Buffer, because its `slice` shares memory. The `slice` of a Uint8Array copies.
    return bytes && new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  async getRange(key: string, range: BlobRange): Promise<BlobPart | undefined> {
    return undefinedIfMissing(readRange(this.#path(key), range));
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    await this.#write(key, bytes);
  }

  async putStream(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#write(key, bytes);
  }

  async delete(keys: readonly string[]): Promise<void> {
    const paths = keys.map((key) => this.#path(key));
    for (const path of paths) await undefinedIfMissing(unlink(path));
  }

  /**
   * Moves an unchanged file away and checks it again. If another process replaced it in between,
   * the file is put back. It is missing for that moment. If this process is killed then, the file
   * stays away and `uploads` lists it.
   */
  async deleteUnchanged(blobs: readonly BlobInfo[]): Promise<number> {
    for (const { key } of blobs) checkBlobKey(key);
    let gone = 0;
    for (const blob of blobs) if (await this.#deleteUnchanged(blob)) gone++;
    return gone;
  }

  async update(key: string, change: (bytes: Uint8Array | undefined) => Uint8Array | undefined): Promise<void> {
    checkBlobKey(key);
    await this.#makeDirectory(this.#temporary);
    // The lock's name is a hash, because a key may be too long for a file name.
    const lock = join(this.#temporary, `${createHash('sha256').update(key).digest('hex')}.lock`);
    await withFileLock(lock, async () => {
      const changed = change(await this.get(key));
      if (changed !== undefined) await this.#write(key, changed);
    });
  }

  async *list(prefix: string, { after = '' }: ListOptions = {}): AsyncGenerator<BlobInfo> {
    const slash = prefix.lastIndexOf('/');
    const folder = prefix.slice(0, slash + 1);
    // A prefix need not be a key, but it must not lead out of the directory.
    if (folder !== '') checkBlobKey(folder.slice(0, -1));
    yield* walk(this.#objects, { folder, start: prefix.slice(slash + 1), after });
  }

  /** Lists running writes of `put` and `putStream`, and files that killed processes left. */
  async *uploads(prefix: string): AsyncGenerator<UploadInfo> {
    for await (const { key: name } of walk(this.#temporary, { folder: '', start: '', after: '' })) {
      const upload = parseUploadName(name);
      if (upload?.key.startsWith(prefix)) yield upload;
    }
  }

  async abort(upload: UploadInfo): Promise<void> {
    await this.#discard(this.#temporaryPath(upload));
  }

  #path(key: string): string {
    return join(this.#objects, checkBlobKey(key));
  }

  #temporaryPath(upload: UploadInfo): string {
    return join(this.#temporary, formatUploadName(upload));
  }

  async #write(key: string, bytes: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    const path = this.#path(key);
    const temporary = this.#temporaryPath(newUpload(key));
    const forget = removeAtExit(temporary);
    try {
      await this.#writeWhole(await this.#within(dirname(temporary), () => open(temporary, 'wx')), bytes);
      await this.#within(dirname(path), () => rename(temporary, path)).catch((error: unknown) => {
        if (codeOf(error) !== 'ENOENT') throw error;
        throw new UploadAbortedError(`the upload of '${key}' was aborted`, { cause: error });
      });
    } catch (error) {
      await this.#discard(temporary);
      throw translateDiskFull(error, dirname(this.#objects));
    } finally {
      forget();
    }
    await this.#removeFolders(temporary);
    await this.#syncDirectory(dirname(path));
  }

  async #writeWhole(file: FileHandle, bytes: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    try {
      await file.writeFile(bytes);
      if (this.#fsync) await file.sync();
    } finally {
      await file.close();
    }
  }

  /** @returns whether the object is gone */
  async #deleteUnchanged(blob: BlobInfo): Promise<boolean> {
    const path = this.#path(blob.key);
    const before = await look(path);
    if (before === undefined) return true;
    if (!isSameWrite(blob, before)) return false;
    const away = this.#temporaryPath(newUpload(blob.key));
    await this.#makeDirectory(dirname(away));
    await undefinedIfMissing(rename(path, away));
    const taken = await look(away);
    const changed = taken !== undefined && !isSameWrite(blob, taken);
    if (changed) await this.#putBack(away, path);
    await this.#discard(away);
    return !changed;
  }

  async #putBack(away: string, path: string): Promise<void> {
    try {
      await link(away, path);
    } catch (error) {
      // Another process wrote the key after the move. Its file stays.
      if (codeOf(error) !== 'EEXIST') throw error;
    }
    await this.#syncDirectory(dirname(path));
  }

  async #discard(temporary: string): Promise<void> {
    await undefinedIfMissing(unlink(temporary));
    await this.#removeFolders(temporary);
  }

  /**
   * Removes the folders of a temporary name that is too long for one file. No other upload shares
   * them.
   */
  async #removeFolders(temporary: string): Promise<void> {
    for (let folder = dirname(temporary); folder !== this.#temporary; folder = dirname(folder)) {
      await undefinedIfMissing(rmdir(folder));
    }
  }

  /**
   * Makes a file in a directory, which nearly always exists. Otherwise makes the directory and the
   * file.
   */
  async #within<T>(directory: string, make: () => Promise<T>): Promise<T> {
    try {
      return await make();
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      await this.#makeDirectory(directory);
      return make();
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

interface Walk {
  /** Empty, or ends with a slash. */
  readonly folder: string;
  /** Prefix of the names in this folder. */
  readonly start: string;
  /** Keys up to and including this one are skipped. */
  readonly after: string;
}

async function* walk(root: string, { folder, start, after }: Walk): AsyncGenerator<BlobInfo> {
  const entries = (await undefinedIfMissing(readdir(join(root, folder), { withFileTypes: true }))) ?? [];
  for (const name of entries.map(keyPart).sort()) {
    if (!name.startsWith(start)) continue;
    const key = folder + name;
    if (name.endsWith('/')) {
      if (key > after || after.startsWith(key)) yield* walk(root, { folder: key, start: '', after });
      continue;
    }
    if (key <= after) continue;
    const seen = await look(join(root, key));
    // Undefined if the file was deleted after the directory was read.
    if (seen !== undefined) yield { key, ...seen };
  }
}

async function look(path: string): Promise<Omit<BlobInfo, 'key'> | undefined> {
  const stats = await undefinedIfMissing(stat(path, { bigint: true }));
  if (stats === undefined) return undefined;
  // Every write creates a new file, so the inode number tells apart two writes within one tick of
  // the clock.
  const version = `${stats.ino}-${stats.mtimeNs}`;
  return { bytes: Number(stats.size), modified: Number(stats.mtimeNs) / 1e6, version };
}

async function readRange(path: string, range: BlobRange): Promise<BlobPart | undefined> {
  const file = await open(path, 'r');
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return undefined;
    const { from, to } = clampRange(range, stats.size);
    const bytes = new Uint8Array(to - from);
    let filled = 0;
    while (filled < bytes.byteLength) {
      const { bytesRead } = await file.read(bytes, filled, bytes.byteLength - filled, from + filled);
      if (bytesRead === 0) throw new Error(`'${path}' became shorter while it was read`);
      filled += bytesRead;
    }
    return { bytes, size: stats.size };
  } finally {
    await file.close();
  }
}

/**
 * Adds a slash to a folder's name, so that it sorts among its neighbours as the keys inside it do.
 */
function keyPart(entry: Dirent): string {
  return entry.isDirectory() ? `${entry.name}/` : entry.name;
}

async function undefinedIfMissing<T>(attempt: Promise<T>): Promise<T | undefined> {
  try {
    return await attempt;
  } catch (error) {
    const code = codeOf(error);
    // EISDIR: the key is a folder of other keys and therefore not an object.
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR') return undefined;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** Longest part of a name, in bytes. Nearly all file systems allow 255 bytes. */
const MAX_PART = 250;
const NAME = /^((\d{1,15})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([^/]+)$/;

/** An upload to this key that starts now. */
export function newUpload(key: string): UploadInfo {
  const started = Date.now();
  return { key, id: `${started}-${randomUUID()}`, started };
}

/**
 * The file name of an upload: its id, which contains the time, then its key. Names that are too
 * long for one file are cut into folders, which no two uploads share. The keys of logs with UUIDs
 * are short enough.
 * @throws BlobKeyInvalidError if the key or the id is malformed
 */
export function formatUploadName({ key, id }: UploadInfo): string {
  // Dots are encoded, so that no part of the name is '..'.
  const name = `${id}.${encodeURIComponent(checkBlobKey(key)).replaceAll('.', '%2E')}`;
  if (!NAME.test(name)) throw new BlobKeyInvalidError(`'${id}' is not the id of an upload`);
  const parts = Array.from({ length: Math.ceil(name.length / MAX_PART) }, (_, i) =>
    name.slice(i * MAX_PART, (i + 1) * MAX_PART),
  );
  return parts.join('/');
}

/** The inverse of `formatUploadName`; undefined for every other name. */
export function parseUploadName(name: string): UploadInfo | undefined {
  const [, id, started, encoded] = NAME.exec(name.replaceAll('/', '')) ?? [];
  if (id === undefined || encoded === undefined) return undefined;
  try {
    const upload = { key: decodeURIComponent(encoded), id, started: Number(started) };
    return formatUploadName(upload) === name ? upload : undefined;
  } catch (error) {
    if (error instanceof URIError || error instanceof BlobKeyInvalidError) return undefined;
    throw error;
  }
}
