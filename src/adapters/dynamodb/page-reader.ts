import type { ConsumedCapacity, QueryCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import type { StoredItem } from '../../log/attribute.ts';
import type { ItemDecoder } from '../../log/item-json.ts';

/** Bytes that one read unit pays for if the read is consistent. DynamoDB's KB has 1,024 bytes. */
const UNIT_BYTES = 4096;

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

/** The parts of an answer to a Query or a Scan that a page is made from. */
interface Answer {
  readonly $metadata: { readonly attempts?: number | undefined };
  readonly Items?: readonly StoredItem[] | undefined;
  readonly ConsumedCapacity?: ConsumedCapacity | undefined;
}

/**
 * Prepares a command for reading its items with a decoder.
 * @returns makes the page from the output of the command
 */
export function pageReader<T>(
  command: QueryCommand | ScanCommand,
  decoder: ItemDecoder<T>,
): (answer: Answer) => ItemPage<T> {
  const unitBytes = command.input.ConsistentRead === true ? UNIT_BYTES : 2 * UNIT_BYTES;
  return ({ $metadata, Items = [], ConsumedCapacity }) => ({
    items: Items.map(decoder.fromItem),
    bytes: ConsumedCapacity?.CapacityUnits && ConsumedCapacity.CapacityUnits * unitBytes,
    attempts: $metadata.attempts ?? 1,
  });
}
