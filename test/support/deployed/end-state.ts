import { createHash } from 'node:crypto';
import { type DynamoDBClient, paginateScan } from '@aws-sdk/client-dynamodb';
import type { S3BlobStore } from '../../../src/adapters/s3/blob-store.ts';
import { encodeItemLine } from '../../../src/archive/item-line.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { parseKey } from '../../../src/store/keys.ts';
import { type ReplayDeps, replay } from '../../../src/workers/inspect/replay.ts';
import { MemoryChunks } from '../chunks.ts';

/** Everything that is left of some logs, without parts that differ in each run. */
export interface EndState {
  readonly entries: readonly string[];
  /** All items of the Segment table, without the random part of archive keys. */
  readonly segments: readonly string[];
  /**
   * SHA-256 of each object. Archives have keys without the random part, and collection notes are
   * hashed without their times.
   */
  readonly objects: Readonly<Record<string, string>>;
  /** Number of entries and state hash, for each log. */
  readonly replayed: readonly string[];
}

/**
 * @throws Error if a replay differs from the newest snapshot, or if a segment has more than one
 * archive
 */
export async function endState(from: {
  readonly client: DynamoDBClient;
  readonly entryTable: string;
  readonly segmentTable: string;
  readonly blobs: S3BlobStore;
  readonly logs: readonly LogId[];
  readonly deps: Omit<ReplayDeps, 'scratch'>;
}): Promise<EndState> {
  const objects: Record<string, string> = {};
  for await (const { key } of from.blobs.list('')) {
    const kind = parseKey(key)?.kind;
    const name = withoutRandom(key);
    if (name in objects) throw new Error(`two objects have the name ${name}`);
    const bytes = (await from.blobs.get(key)) ?? new Uint8Array();
    const hash = createHash('sha256').update(bytes).digest('hex');
    objects[name] = kind === 'collected' || kind === 'condemned' ? '' : hash;
  }
  const replayed: string[] = [];
  for (const log of from.logs) {
    const result = await replay({ ...from.deps, scratch: new MemoryChunks() }, log);
    if (!result.equal) throw new Error(`a replay of ${log} differs from its newest snapshot`);
    replayed.push(`${result.entries} ${result.replayed}`);
  }
  const segments = await itemLines(from.client, from.segmentTable);
  return {
    entries: await itemLines(from.client, from.entryTable),
    segments: segments.map(withoutRandom),
    objects,
    replayed,
  };
}

async function itemLines(client: DynamoDBClient, TableName: string): Promise<string[]> {
  const lines: string[] = [];
  for await (const { Items = [] } of paginateScan({ client }, { TableName })) {
    lines.push(...Items.map((item) => encodeItemLine(item)));
  }
  return lines.sort();
}

/** Removes the random part of archive keys from a text. */
function withoutRandom(text: string): string {
  return text.replace(/(\/archives\/\d+)-[0-9a-f]{32}/g, '$1');
}
