import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import {
  checkGroupName,
  type FeedGroup,
  type GroupLease,
  type GroupProgress,
  type GroupStore,
  type SpanPlace,
} from '../../feed/group-store.ts';
import { formatPosition, parsePosition } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { PrimaryKey } from '../../log/item-codec.ts';
import { storedItems } from '../../log/item-json.ts';
import { ItemReader } from '../../log/item-reader.ts';
import { DynamoDbRequests, type Meter } from './requests.ts';

export interface DynamoDbGroupStoreOptions {
  readonly client: DynamoDBClient;
  readonly feedTable: string;
  readonly meter?: Meter;
}

/** The partition of all groups. No log and no segment has a key of that few bytes. */
const PARTITION = new TextEncoder().encode('groups');
/** Bytes of the hash of a name that make its sort key. DynamoDB's numbers hold 15 bytes. */
const NAME_HASH_BYTES = 12;

/**
 * The groups of a feed, in the feed's table. An item has the key `S`, `N`: the text `groups`, and a
 * number from the SHA-256 of the name. `G` is the name, `K` the checkpoint, `P` the place within
 * the entry of the feed, and `C` the time of the save. While a member has the lease, `O` is its
 * owner and `U` its end in epoch milliseconds by that member's clock.
 *
 * Every method throws ResourceMissingError if the table does not exist, and CredentialsError if
 * there are no credentials or AWS refuses them.
 */
export class DynamoDbGroupStore implements GroupStore {
  readonly #requests: DynamoDbRequests;
  readonly #table: string;

  constructor({ feedTable, ...options }: DynamoDbGroupStoreOptions) {
    this.#requests = new DynamoDbRequests(options);
    this.#table = feedTable;
  }

  async get(name: string): Promise<FeedGroup | undefined> {
    const item = await this.#requests.get(this.#table, groupKey(name), true);
    return item && decodeGroup(item);
  }

  async *list(): AsyncGenerator<FeedGroup> {
    const input = {
      TableName: this.#table,
      KeyConditionExpression: 'S = :s',
      ExpressionAttributeValues: { ':s': { B: PARTITION } },
    };
    for await (const { items } of this.#requests.queryPages(input, storedItems)) yield* items.map(decodeGroup);
  }

  async take(name: string, lease: GroupLease, first: GroupProgress, over?: GroupLease): Promise<FeedGroup> {
    checkGroupName(name);
    const item = await this.#requests.change({
      TableName: this.#table,
      Key: groupKey(name),
      UpdateExpression:
        'SET G = :name, O = :owner, U = :until, K = if_not_exists(K, :checkpoint), C = if_not_exists(C, :saved)',
      ConditionExpression: `attribute_not_exists(O) OR O = :owner${over ? ' OR (O = :other AND U = :over)' : ''}`,
      ExpressionAttributeValues: {
        ':name': { S: name },
        ':owner': { S: lease.owner },
        ':until': { N: String(lease.until) },
        ':checkpoint': { N: String(first.checkpoint) },
        ':saved': { N: String(first.saved) },
        ...(over && { ':other': { S: over.owner }, ':over': { N: String(over.until) } }),
      },
    });
    return decodeGroup(item);
  }

  save(name: string, { owner, until }: GroupLease, progress: GroupProgress): Promise<boolean> {
    return this.#save(name, owner, progress, until);
  }

  async release(name: string, owner: string, progress: GroupProgress): Promise<void> {
    await this.#save(name, owner, progress, undefined);
  }

  /** @param until the new end of the lease; undefined to remove the lease */
  #save(name: string, owner: string, progress: GroupProgress, until: number | undefined): Promise<boolean> {
    const { checkpoint, saved, within } = progress;
    const sets = ['K = :checkpoint', 'C = :saved'];
    const removes: string[] = [];
    if (within === undefined) removes.push('P');
    else sets.push('P = :place');
    if (until === undefined) removes.push('O', 'U');
    else sets.push('U = :until');
    return this.#requests.update({
      TableName: this.#table,
      Key: groupKey(name),
      UpdateExpression: `SET ${sets.join(', ')}${removes.length === 0 ? '' : ` REMOVE ${removes.join(', ')}`}`,
      ConditionExpression: 'O = :owner AND K <= :checkpoint',
      ExpressionAttributeValues: {
        ':checkpoint': { N: String(checkpoint) },
        ':saved': { N: String(saved) },
        ':owner': { S: owner },
        ...(within !== undefined && { ':place': { S: `${within.span}:${formatPosition(within.to)}` } }),
        ...(until !== undefined && { ':until': { N: String(until) } }),
      },
    });
  }
}

function groupKey(name: string): PrimaryKey {
  const hash = sha256(new TextEncoder().encode(name)).subarray(0, NAME_HASH_BYTES);
  return { S: { B: PARTITION }, N: { N: String(BigInt(`0x${bytesToHex(hash)}`)) } };
}

function parsePlace(text: string): SpanPlace {
  const [span = '', to = ''] = text.split(':');
  return { span: Number(span), to: parsePosition(to) };
}

function decodeGroup(item: StoredItem): FeedGroup {
  const reader = new ItemReader(item);
  return {
    name: reader.string('G'),
    checkpoint: reader.integer('K'),
    saved: reader.integer('C'),
    ...(item.P !== undefined && { within: reader.parsed('P', () => parsePlace(reader.string('P'))) }),
    ...(item.O !== undefined && { lease: { owner: reader.string('O'), until: reader.integer('U') } }),
  };
}
