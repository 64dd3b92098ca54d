/** InfiniSheet's BlobStore on a blob store of logfold, for InfiniSheet's own worker. */
import type { BlobStore } from 'logfold';
import { err, ok, type Result, ResultAsync } from 'neverthrow';

/** The most names in the answer of a query. */
export const PAGE_NAMES = 100;
const MAX_NAME_LENGTH = 100;

type Failed<T extends string> = { type: T; message: string; statusCode?: number };
type StorageError = Failed<'StorageError'>;
type NameError = Failed<'InvalidBlobNameError'> | Failed<'BlobWrongKindError'> | StorageError;
type Blobs = Pick<BlobStore, 'get' | 'put' | 'delete' | 'list'>;
/** A query goes on with the keys after `after` of one directory. */
export type Continuation = { readonly directory: string; readonly after: string };
type Names = { blobs: string[]; dirs: string[]; continuation?: Continuation };

/** The directories and blobs under a prefix, which must end with a slash. */
export class PrefixBlobStore {
  readonly #root: PrefixBlobDir;

  constructor(blobs: Blobs, prefix = 'infinisheet/') {
    this.#root = new PrefixBlobDir(blobs, prefix);
  }

  getRootDir(): ResultAsync<PrefixBlobDir, StorageError> {
    return answer<PrefixBlobDir, never>(async () => ok(this.#root));
  }
}

/** The key of a blob is `NAME.blob`. All keys in a directory begin with `NAME.dir/`. */
class PrefixBlobDir {
  readonly #blobs: Blobs;
  readonly #prefix: string;

  constructor(blobs: Blobs, prefix: string) {
    this.#blobs = blobs;
    this.#prefix = prefix;
  }

  readBlob(name: string): ResultAsync<Uint8Array, NameError> {
    return this.#at(name, async (key) => {
      const bytes = await this.#blobs.get(`${key}.blob`);
      if (bytes !== undefined) return ok(bytes);
      if (await this.#has(`${key}.dir/`)) return wrongKind(name, 'directory');
      return err({ type: 'StorageError', message: `there is no blob '${name}'`, statusCode: 404 });
    });
  }

  writeBlob(name: string, content: Uint8Array): ResultAsync<void, NameError> {
    // The caller may change the bytes after the call.
    const bytes = Uint8Array.from(content);
    return this.#at(name, async (key) => {
      if (await this.#has(`${key}.dir/`)) return wrongKind(name, 'directory');
      return ok(await this.#blobs.put(`${key}.blob`, bytes));
    });
  }

  removeBlob(name: string): ResultAsync<void, NameError> {
    return this.#at(name, async (key) => {
      if (await this.#has(`${key}.dir/`)) return wrongKind(name, 'directory');
      return ok(await this.#blobs.delete([`${key}.blob`]));
    });
  }

  getDir(name: string): ResultAsync<PrefixBlobDir, NameError> {
    return this.#at(name, async (key) => {
      if (await this.#has(`${key}.blob`)) return wrongKind(name, 'blob');
      return ok(new PrefixBlobDir(this.#blobs, `${key}.dir/`));
    });
  }

  query(given?: Continuation): ResultAsync<Names, Failed<'NoContinuationError'> | StorageError> {
    return answer<Names, Failed<'NoContinuationError'>>(async () => {
      if (given !== undefined && given.directory !== this.#prefix) {
        return err({ type: 'NoContinuationError', message: 'the continuation belongs to another directory' });
      }
      const names: Names = { blobs: [], dirs: [] };
      let after: string | undefined;
      for await (const found of this.#names(given?.after)) {
        if (names.blobs.length + names.dirs.length === PAGE_NAMES && after !== undefined) {
          return ok({ ...names, continuation: { directory: this.#prefix, after } });
        }
        names[found.kind].push(found.name);
        after = found.after;
      }
      return ok(names);
    });
  }

  removeAll(): ResultAsync<void, StorageError> {
    return answer<void, never>(async () => {
      const keys = await Array.fromAsync(this.#blobs.list(this.#prefix), ({ key }) => key);
      return ok(await this.#blobs.delete(keys));
    });
  }

  /** The names in this directory. Skips the contents of others, which takes one list each. */
  async *#names(start: string | undefined): AsyncGenerator<{ kind: 'blobs' | 'dirs'; name: string; after: string }> {
    let after = start;
    for (let isDone = false; !isDone; ) {
      isDone = true;
      for await (const { key } of this.#blobs.list(this.#prefix, { after })) {
        const [file = '', ...rest] = key.slice(this.#prefix.length).split('/');
        const name = decodeURIComponent(file.slice(0, file.lastIndexOf('.')));
        if (rest.length === 0) yield { kind: 'blobs', name, after: key };
        else {
          // The first text after all texts that begin with this directory and a slash.
          after = `${this.#prefix}${file}0`;
          yield { kind: 'dirs', name, after };
          isDone = false;
          break;
        }
      }
    }
  }

  #at<T>(name: string, work: (key: string) => Promise<Result<T, NameError>>): ResultAsync<T, NameError> {
    return answer<T, NameError>(async () => {
      if (name.length === 0 || name.length > MAX_NAME_LENGTH || !name.isWellFormed()) {
        return err({ type: 'InvalidBlobNameError', message: `${JSON.stringify(name)} is not the name of a blob` });
      }
      return work(this.#prefix + encodeURIComponent(name));
    });
  }

  /** Whether there is an object with this key, or below it if it ends with a slash. */
  async #has(key: string): Promise<boolean> {
    for await (const found of this.#blobs.list(key)) return found.key === key || key.endsWith('/');
    return false;
  }
}

const wrongKind = (name: string, kind: string) =>
  err<never, NameError>({ type: 'BlobWrongKindError', message: `'${name}' is a ${kind}` });

function answer<T, E>(work: () => Promise<Result<T, E>>): ResultAsync<T, E | StorageError> {
  const failed = (error: unknown) => err<T, StorageError>({ type: 'StorageError', message: String(error) });
  return new ResultAsync<T, E | StorageError>(work().catch(failed));
}
