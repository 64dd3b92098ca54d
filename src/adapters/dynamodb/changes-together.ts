import type { TransactWriteItem } from '@aws-sdk/client-dynamodb';
import type { Item } from '../../log/attribute.ts';
import { decodeSegment, expiryAttributes, segmentKey } from '../../log/item-codec.ts';
import type { SegmentPlace } from '../../log/log-store.ts';
import type { Expiring, Expiry } from '../../log/segment.ts';
import { isRetryable } from '../aws/dynamodb-error.ts';
import type { DynamoDbRequests } from './requests.ts';

/** A segment with the expiry that is the condition for changing its entries. */
export type ChangingSegment = SegmentPlace & {
  readonly expiry: Expiring | Extract<Expiry, { readonly state: 'on hold' }>;
};

export interface ChangedItem {
  readonly table: string;
  readonly key: Item;
  readonly write: TransactWriteItem;
}

/**
 * Changes items of a segment in one transaction that checks the segment's expiry. A missing item is
 * not an error.
 * @returns whether the segment has this expiry; if not, nothing was changed
 */
export async function changeTogether(
  requests: DynamoDbRequests,
  { segmentTable, segment }: { readonly segmentTable: string; readonly segment: ChangingSegment },
  changes: readonly ChangedItem[],
): Promise<boolean> {
  const { G } = expiryAttributes(segment.expiry);
  const key = segmentKey(segment.log, segment.segment);
  const stillExpires = {
    TableName: segmentTable,
    Key: key,
    ConditionExpression: 'G = :expiry',
    ExpressionAttributeValues: { ':expiry': G },
  };
  const failure = `Changing ${changes.length} entries of segment ${segment.segment} failed`;
  const transact = () => requests.transact([{ ConditionCheck: stillExpires }, ...changes.map(({ write }) => write)]);
  if (await requests.retry({ failure, retryable: isRetryable }, transact)) return true;
  const stored = await requests.get(segmentTable, key, true);
  const { expiry } = (stored && decodeSegment(stored)) ?? {};
  if (expiry === undefined || expiryAttributes(expiry).G.N !== G.N) return false;
  // One of the items is missing.
  const [change, ...others] = changes;
  if (change === undefined) return true;
  if (others.length === 0) return (await requests.get(change.table, change.key, true)) === undefined;
  for (const each of changes) {
    if (!(await changeTogether(requests, { segmentTable, segment }, [each]))) return false;
  }
  return true;
}
