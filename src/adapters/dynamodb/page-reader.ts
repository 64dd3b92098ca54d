import { crc32 } from 'node:zlib';
import type { ConsumedCapacity, QueryCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import { ItemInvalidError, StoreUnavailableError } from '../../errors.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { type ItemDecoder, ItemJson, ItemJsonError } from '../../log/item-json.ts';

/** Bytes that one read unit pays for if the read is consistent. DynamoDB's KB has 1,024 bytes. */
const UNIT_BYTES = 4096;

const NO_ITEMS = Buffer.from('[]');

/** The items that one request returned. */
export interface ItemPage<T> {
  readonly items: T[];
  /**
   * Size by DynamoDB's rules of what the request read, at most 8 KB too large; undefined if the
   * server does not report it.
   */
  readonly bytes: number | undefined;
  /** Attempts that the request took. */
  readonly attempts: number;
}

/** The parts of the SDK's output of a Query or a Scan that a page is made from. */
interface Output {
  readonly $metadata: { readonly attempts?: number | undefined };
  readonly Items?: readonly StoredItem[] | undefined;
  readonly ConsumedCapacity?: ConsumedCapacity | undefined;
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
}

/**
 * Makes a command decode the items of its answer straight from the bytes, so that the SDK's
 * deserializer gets the rest of the answer only. If the decoder does not understand an answer, or
 * finds an invalid item, the SDK decodes all of it as usual.
 * @returns makes the page from the output of the command
 */
export function pageReader<T>(
  command: QueryCommand | ScanCommand,
  decoder: ItemDecoder<T>,
): (output: Output) => ItemPage<T> {
  const { TableName = '', ConsistentRead = false } = command.input;
  const unitBytes = ConsistentRead ? UNIT_BYTES : 2 * UNIT_BYTES;
  let decoded: T[] | undefined;
  command.middlewareStack.addRelativeTo(
    <Request, Result extends { readonly response: unknown }>(send: (request: Request) => Promise<Result>) =>
      async (request: Request): Promise<Result> => {
        decoded = undefined;
        const result = await send(request);
        decoded = await takeItems(result.response, TableName, decoder);
        return result;
      },
    { name: 'logfoldPageReader', relation: 'after', toMiddleware: 'deserializerMiddleware' },
  );
  return ({ $metadata, Items = [], ConsumedCapacity: { CapacityUnits } = {} }) => ({
    items: decoded ?? Items.map((item) => decoder.fromItem(item)),
    bytes: CapacityUnits === undefined ? undefined : CapacityUnits * unitBytes,
    attempts: $metadata.attempts ?? 1,
  });
}

/**
 * Takes the items out of a response.
 * @returns undefined if the items stay in the response
 * @throws DamagedAnswerError if the answer does not have its checksum
 */
async function takeItems<T>(response: unknown, table: string, decoder: ItemDecoder<T>): Promise<T[] | undefined> {
  if (!isResponse(response) || response.statusCode !== 200) return undefined;
  // The checksum of a compressed answer is that of its compressed bytes, and a handler may have
  // decompressed them.
  if (response.headers['content-encoding'] !== undefined || !isStream(response.body)) return undefined;
  const bytes = await bytesOf(response.body);
  response.body = bytes;
  checkBytes(bytes, response.headers['x-amz-crc32'], table);
  try {
    const { items, rest } = divide(bytes, decoder);
    response.body = rest;
    return items;
  } catch (error) {
    // Decoding the SDK's item throws the error of an invalid item again, when the request is over.
    if (error instanceof ItemJsonError || error instanceof ItemInvalidError) return undefined;
    throw error;
  }
}

/**
 * Decodes the items of an answer.
 * @returns them and the rest: the same JSON without items
 * @throws ItemJsonError if the answer has another form
 */
function divide<T>(bytes: Uint8Array, decoder: ItemDecoder<T>): { readonly items: T[]; readonly rest: Uint8Array } {
  const json = new ItemJson(bytes);
  let found: { readonly items: T[]; readonly rest: Uint8Array } | undefined;
  json.members((name) => {
    if (name !== 'Items') return json.skip();
    if (found !== undefined) throw json.unknown();
    const start = json.at;
    const items = json.list(() => decoder.fromJson(json));
    found = { items, rest: Buffer.concat([bytes.subarray(0, start), NO_ITEMS, bytes.subarray(json.at)]) };
  });
  if (found === undefined) throw json.unknown();
  return found;
}

function checkBytes(bytes: Uint8Array, expected: string | undefined, table: string): void {
  if (expected === undefined || Number(expected) === crc32(bytes)) return;
  throw new DamagedAnswerError(`an answer of table '${table}' was damaged on its way: its CRC-32 is not ${expected}`, {
    advice: 'Check the network and the server, then try again',
  });
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
