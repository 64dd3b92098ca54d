import { Agent, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { entryKey } from '../../src/log/item-codec.ts';
import { CREDENTIALS, endOf, LOG, REGION, TABLES } from './engine-log.ts';
import type { ReadSystem } from './system.ts';

/** Attributes of an item as DynamoDB sends them, with binaries in base64. */
type JsonItem = Readonly<Record<string, { readonly S?: string; readonly N?: string; readonly B?: string }>>;

interface Page {
  readonly Items: readonly JsonItem[];
  readonly LastEvaluatedKey?: JsonItem;
  readonly ConsumedCapacity: { readonly CapacityUnits: number };
}

/**
 * Receives the same answers, parses the JSON and decodes the binaries. A reader that has no other
 * parser cannot do less.
 */
export const receivePages: ReadSystem = async ({ endpoint, workload }, clock) => {
  const agent = new Agent({ keepAlive: true });
  const { S, N } = entryKey(LOG, endOf(workload));
  const values = { ':s': { B: Buffer.from(S.B).toString('base64') }, ':end': N };
  const read = { entries: 0, requests: 0, readUnits: 0, objects: 0 };
  await clock.time(async () => {
    let start: JsonItem | undefined;
    do {
      const query = {
        TableName: TABLES.entryTable,
        KeyConditionExpression: 'S = :s AND N < :end',
        ExpressionAttributeValues: values,
        ExclusiveStartKey: start,
        ReturnConsumedCapacity: 'TOTAL',
      };
      const text = await post(agent, endpoint, JSON.stringify(query));
      const page: Page = JSON.parse(text);
      for (const item of page.Items) decodeBinaries(item);
      read.entries += page.Items.length;
      read.requests++;
      read.readUnits += page.ConsumedCapacity.CapacityUnits;
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
  });
  return { ...read, finish: async () => agent.destroy() };
};

function decodeBinaries(item: JsonItem): Uint8Array[] {
  const decoded: Uint8Array[] = [];
  for (const { B } of Object.values(item)) if (B !== undefined) decoded.push(Buffer.from(B, 'base64'));
  return decoded;
}

/** Sends a query. Engines on this machine do not check the signature, but want its form. */
async function post(agent: Agent, endpoint: string, body: string): Promise<string> {
  const date = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  const scope = `${CREDENTIALS.accessKeyId}/${date.slice(0, 8)}/${REGION}/dynamodb/aws4_request`;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  request(
    endpoint,
    {
      method: 'POST',
      agent,
      headers: {
        'content-type': 'application/x-amz-json-1.0',
        'content-length': Buffer.byteLength(body),
        'x-amz-target': 'DynamoDB_20120810.Query',
        'x-amz-date': date,
        authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host;x-amz-date;x-amz-target, Signature=${'0'.repeat(64)}`,
      },
    },
    resolve,
  )
    .on('error', reject)
    .end(body);
  const response = await promise;
  const text = (await buffer(response)).toString();
  if (response.statusCode !== 200) throw new Error(`the query failed with ${response.statusCode}: ${text}`);
  return text;
}
