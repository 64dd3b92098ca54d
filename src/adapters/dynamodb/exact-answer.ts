import { crc32 } from 'node:zlib';
import { markNames, restoreNames } from '../../codec/json.ts';
import { StoreUnavailableError } from '../../errors.ts';

/** A handler of the SDK around its deserializer, which reads `output` from `response`. */
type Middleware = <Request, Result extends { readonly response: unknown; readonly output: unknown }>(
  next: (request: Request) => Promise<Result>,
) => (request: Request) => Promise<Result>;

interface Command {
  readonly middlewareStack: {
    addRelativeTo(
      middleware: Middleware,
      place: { readonly name: string; readonly relation: 'before' | 'after'; readonly toMiddleware: string },
    ): void;
  };
}

/** A part of an answer, and the JSON of the answer without it. */
export interface Taken<T> {
  readonly part: T;
  readonly rest: Uint8Array;
}

/** The parts of an HTTP response of the SDK that hold the answer. */
interface Response {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  body: unknown;
}

/**
 * The bytes of an answer are not those that DynamoDB sent. The SDK sends the request again, because
 * the error has a property `$retryable`.
 */
class DamagedAnswerError extends StoreUnavailableError {
  readonly $retryable = {};

  constructor(reason: string, cause?: unknown) {
    super(reason, { advice: 'Check the network and the server, then try again', cause });
  }
}

/**
 * Lets the SDK read the answer to a command exactly. By itself, the SDK gives attributes the names
 * of others (see `parseJson`), and an attribute with the name `__proto__` no value. The
 * command then also checks that the answer has its checksum and is JSON; if not, the SDK sends the
 * request again, and in the end throws StoreUnavailableError.
 * @param source of the answer in errors, such as `table 'orders'`
 * @param take takes a part out of the bytes of an answer, so that the SDK does not read it;
 * undefined if it takes none
 * @returns the part that was taken from the last answer
 */
export function exactAnswer<T>(
  { middlewareStack: stack }: Command,
  source: string,
  take: (bytes: Uint8Array) => Taken<T> | undefined = () => undefined,
): () => T | undefined {
  let isMarked = false;
  let taken: Taken<T> | undefined;
  stack.addRelativeTo(
    (send) => async (request) => {
      isMarked = false;
      taken = undefined;
      const result = await send(request);
      const { response } = result;
      if (!isResponse(response) || !isStream(response.body)) return result;
      const bytes = await bytesOf(response.body);
      // The SDK would read it as an answer without items.
      if (bytes.length === 0) throw cutAnswer(source);
      if (isPlain(response)) {
        checkSum(bytes, response, source);
        if (response.statusCode === 200) taken = take(bytes);
      }
      const rest = taken?.rest ?? bytes;
      const marked = withMarkedNames(rest);
      isMarked = marked !== undefined;
      response.body = marked ?? rest;
      return result;
    },
    { name: 'logfoldAnswerBytes', relation: 'after', toMiddleware: 'deserializerMiddleware' },
  );
  stack.addRelativeTo(
    (read) => async (request) => {
      try {
        const result = await read(request);
        if (isMarked) restoreNames(result.output);
        return result;
      } catch (error) {
        if (error instanceof SyntaxError) throw cutAnswer(source, error);
        // The error of a failed condition holds the item.
        throw isMarked ? restoreNames(error) : error;
      }
    },
    { name: 'logfoldAnswerNames', relation: 'before', toMiddleware: 'deserializerMiddleware' },
  );
  return () => taken?.part;
}

/**
 * The checksum of a compressed answer is that of its compressed bytes, and a handler may have
 * decompressed them.
 */
function isPlain({ headers }: Response): boolean {
  return headers['content-encoding'] === undefined;
}

function cutAnswer(source: string, cause?: SyntaxError): DamagedAnswerError {
  return new DamagedAnswerError(`an answer of ${source} is not JSON, or was cut on its way`, cause);
}

/** @throws DamagedAnswerError if the answer does not have its checksum */
function checkSum(bytes: Uint8Array, { headers }: Response, source: string): void {
  const expected = headers['x-amz-crc32'];
  if (expected === undefined || Number(expected) === crc32(bytes)) return;
  throw new DamagedAnswerError(`an answer of ${source} was damaged on its way: its CRC-32 is not ${expected}`);
}

const BACKSLASH = 0x5c;
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** @returns undefined if the SDK reads all names correctly */
function withMarkedNames(bytes: Uint8Array): Uint8Array | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!view.includes(BACKSLASH) && !view.includes('__proto__')) return undefined;
  const text = utf8.decode(bytes);
  const marked = markNames(text);
  return marked === text ? undefined : Buffer.from(marked);
}

/** The body of a response of Node's HTTP client or of `fetch`. */
async function bytesOf(body: AsyncIterable<Uint8Array | string>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
  return Buffer.concat(chunks);
}

function isResponse(response: unknown): response is Response {
  return typeof response === 'object' && response !== null && 'statusCode' in response && 'headers' in response;
}

function isStream(body: unknown): body is AsyncIterable<Uint8Array | string> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
