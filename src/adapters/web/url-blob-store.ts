import {
  AttemptsExhaustedError,
  BlobKeyInvalidError,
  CredentialsError,
  LogfoldError,
  StoreUnavailableError,
  textOf,
  UsageError,
} from '../../errors.ts';
import { type RetryLimits, retry } from '../../log/backoff.ts';
import { EXTERNAL_BODY_BYTES } from '../../log/body.ts';
import {
  type BlobInfo,
  type BlobPart,
  type BlobRange,
  type BlobStore,
  clampRange,
  rangeHeader,
} from '../../store/blob-store.ts';
import { isFileKey } from '../../store/keys.ts';

/** Up to three seconds of waiting in total. */
const RETRIES: RetryLimits = { attempts: 5, baseMs: 200, capMs: 2_000 };

export interface UrlBlobStoreOptions {
  /**
   * The URL of the object with this key: a presigned one, or one of the application's own server.
   * Called before every request, so a URL needs to live for seconds only.
   */
  readonly urlOf: (key: string) => string | Promise<string>;
  /** Sends the requests, for example with cookies or headers; the global `fetch` by default. */
  readonly fetch?: ((url: string, init: { readonly headers: Record<string, string> }) => Promise<Response>) | undefined;
  /** Retries after every failure except 401 and 403; 5 attempts by default. */
  readonly retries?: RetryLimits | undefined;
}

interface Answer {
  readonly status: number;
  readonly bytes: Uint8Array;
  /** The header of this name, if the server sends and exposes it. */
  readonly contentRange: string | null;
}

/**
 * Reads objects through URLs, in a page or another program without AWS credentials. It writes,
 * deletes and lists nothing: those methods throw UsageError.
 *
 * The status 404 means that there is no object. S3 answers 403 for a missing object if the signer
 * of the URL has no `s3:ListBucket`, so give it that permission.
 *
 * Reads throw CredentialsError after the statuses 401 and 403. They throw StoreUnavailableError if
 * every attempt gets another error or no answer, or has no URL.
 */
export class UrlBlobStore implements BlobStore {
  readonly #options: UrlBlobStoreOptions;

  constructor(options: UrlBlobStoreOptions) {
    this.#options = options;
  }

  /** @throws CredentialsError, StoreUnavailableError as the class says */
  async get(key: string): Promise<Uint8Array | undefined> {
    return (await this.#read(key, {}))?.bytes;
  }

  /**
   * A page sees the size of an object on another origin only if the server exposes the header
   * `Content-Range`. Otherwise this reads the whole object.
   * @throws CredentialsError, StoreUnavailableError as the class says
   */
  async getRange(key: string, range: BlobRange): Promise<BlobPart | undefined> {
    const header = rangeHeader(range);
    const answer = header === undefined ? undefined : await this.#read(key, { Range: header });
    const size = sizeIn(answer);
    if (answer !== undefined && size !== undefined) return { bytes: answer.bytes, size };
    const whole = answer?.status === 200 ? answer.bytes : await this.get(key);
    if (whole === undefined) return undefined;
    const { from, to } = clampRange(range, whole.length);
    return { bytes: whole.subarray(from, to), size: whole.length };
  }

  /** @throws UsageError; an application gets it for a large body, since that is an object */
  async put(key: string, bytes: Uint8Array): Promise<void> {
    if (!isFileKey(key)) throw readOnly(`the object '${key}' cannot be written`);
    throw onlyOnServer(`a body of ${bytes.length} bytes, over ${EXTERNAL_BODY_BYTES}, cannot be appended`);
  }

  /** @throws UsageError; an application gets it for a file */
  async putStream(): Promise<void> {
    throw onlyOnServer('a file cannot be saved');
  }

  async update(key: string): Promise<void> {
    throw readOnly(`the object '${key}' cannot be written`);
  }

  async delete(): Promise<void> {
    throw readOnly('objects cannot be deleted');
  }

  async deleteUnchanged(): Promise<number> {
    throw readOnly('objects cannot be deleted');
  }

  async abort(): Promise<void> {
    throw readOnly('uploads cannot be aborted');
  }

  list(): AsyncIterable<BlobInfo> {
    throw readOnly('objects cannot be listed');
  }

  uploads(): AsyncIterable<never> {
    throw readOnly('uploads cannot be listed');
  }

  /** Undefined if there is no object, or if the range begins after its end. */
  async #read(key: string, headers: Record<string, string>): Promise<Answer | undefined> {
    if (key === '') throw new BlobKeyInvalidError('the empty text is not a key for an object');
    const { retries = RETRIES } = this.#options;
    const retryable = (error: unknown): boolean => error instanceof StoreUnavailableError;
    const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
    try {
      return await retry({ ...retries, sleep, random: Math.random, retryable }, () => this.#attempt(key, headers));
    } catch (error) {
      throw error instanceof AttemptsExhaustedError ? error.cause : error;
    }
  }

  async #attempt(key: string, headers: Record<string, string>): Promise<Answer | undefined> {
    const url = await this.#urlOf(key);
    const { fetch = globalThis.fetch } = this.#options;
    try {
      const response = await fetch(url, { headers });
      if (response.status === 404) return undefined;
      // The range begins after the end of the object.
      if (response.status === 416 && 'Range' in headers) return undefined;
      if (!response.ok) throw await refusal(key, response);
      const bytes = new Uint8Array(await response.arrayBuffer());
      return { status: response.status, bytes, contentRange: response.headers.get('Content-Range') };
    } catch (cause) {
      if (cause instanceof LogfoldError) throw cause;
      throw new StoreUnavailableError(`'${key}' could not be fetched: ${textOf(cause)}`, {
        advice: "Check the network, the URL, and that the server allows the page's origin (CORS)",
        cause,
      });
    }
  }

  async #urlOf(key: string): Promise<string> {
    try {
      return await this.#options.urlOf(key);
    } catch (cause) {
      if (cause instanceof LogfoldError) throw cause;
      throw new StoreUnavailableError(`the URL of '${key}' could not be found: ${textOf(cause)}`, {
        advice: 'Try again later. If this repeats, check what `urlOf` returns',
        cause,
      });
    }
  }
}

/** The size of the whole object from `bytes 0-9/100`; undefined if the answer does not show it. */
function sizeIn(answer: Answer | undefined): number | undefined {
  const [, size] = /^bytes \d+-\d+\/(\d+)$/.exec(answer?.contentRange ?? '') ?? [];
  return answer?.status === 206 && size !== undefined ? Number(size) : undefined;
}

async function refusal(key: string, response: Response): Promise<LogfoldError> {
  const { status } = response;
  // S3 names the reason in XML. The rest of an answer may be a page of HTML.
  const text = await response.text().catch(() => '');
  const [, code = response.statusText] = /<Code>(\w+)<\/Code>/.exec(text) ?? [];
  const reason = `the server answered ${`${status} ${code}`.trim()} for '${key}'`;
  if (status === 401 || status === 403) {
    return new CredentialsError(reason, {
      advice:
        'Let `urlOf` return a URL that this user may read. If the object may be missing, give the signer of the URL s3:ListBucket, so that S3 says so',
    });
  }
  return new StoreUnavailableError(reason, { advice: 'Try again later. If this repeats, check what `urlOf` returns' });
}

function onlyOnServer(what: string): UsageError {
  return new UsageError(`${what} from a page`, { advice: 'Append entries with files or larger bodies on the server' });
}

function readOnly(what: string): UsageError {
  return new UsageError(`${what} from a page`, { advice: 'Do this on the server' });
}
