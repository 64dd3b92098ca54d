import type { ConsumedCapacity, QueryCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import { ItemInvalidError } from '../../errors.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { type ItemDecoder, ItemJson, ItemJsonError } from '../../log/item-json.ts';
import { exactAnswer, type Taken } from './exact-answer.ts';

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
interface PageOutput {
  readonly $metadata: { readonly attempts?: number | undefined };
  readonly Items?: readonly StoredItem[] | undefined;
  readonly ConsumedCapacity?: ConsumedCapacity | undefined;
}

/**
 * Makes a command decode the items of its answer straight from the bytes, so that the SDK's
 * deserializer gets the rest of the answer only. If the decoder does not understand an answer, or
 * finds an invalid item, the SDK decodes all of it, with {@link exactAnswer}.
 * @returns makes the page from the output of the command
 */
export function pageReader<T>(
  command: QueryCommand | ScanCommand,
  decoder: ItemDecoder<T>,
): (output: PageOutput) => ItemPage<T> {
  const { TableName = '', ConsistentRead = false } = command.input;
  const unitBytes = ConsistentRead ? UNIT_BYTES : 2 * UNIT_BYTES;
  const decoded = exactAnswer(command, `table '${TableName}'`, (bytes) => takeItems(bytes, decoder));
  return ({ $metadata, Items = [], ConsumedCapacity: { CapacityUnits } = {} }) => ({
    items: decoded() ?? Items.map((item) => decoder.fromItem(item)),
    bytes: CapacityUnits === undefined ? undefined : CapacityUnits * unitBytes,
    attempts: $metadata.attempts ?? 1,
  });
}

/**
 * Decodes the items of an answer.
 * @returns undefined if the SDK has to decode them
 */
function takeItems<T>(bytes: Uint8Array, decoder: ItemDecoder<T>): Taken<T[]> | undefined {
  const json = new ItemJson(bytes);
  let taken: Taken<T[]> | undefined;
  try {
    json.members((name) => {
      if (name !== 'Items') return json.skip();
      if (taken !== undefined) throw json.unknown();
      const start = json.at;
      const part = json.list(() => decoder.fromJson(json));
      taken = { part, rest: Buffer.concat([bytes.subarray(0, start), NO_ITEMS, bytes.subarray(json.at)]) };
    });
  } catch (error) {
    // Decoding the SDK's item throws the error of an invalid item again, when the request is over.
    if (error instanceof ItemJsonError || error instanceof ItemInvalidError) return undefined;
    throw error;
  }
  return taken;
}
