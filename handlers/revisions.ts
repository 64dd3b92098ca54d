import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { checkSource, requireCurrentStream } from '../src/adapters/dynamodb/source-check.ts';
import { DynamoDbSourceItems } from '../src/adapters/dynamodb/source-items.ts';
import { sleep, wireLogs } from '../src/adapters/platform/node-logs.ts';
import { revisionsFunction } from '../src/functions/revisions-function.ts';
import { compareTable } from '../src/workers/revisions/compare-table.ts';
import { RevisionLogs } from '../src/workers/revisions/revision-logs.ts';
import { readEnvironment, revisionsEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { once } from './once.ts';
import { wireReducer, wireStores } from './wire.ts';

const settings = readEnvironment(revisionsEnvironment, process.env);
const { stores, checkAll: check } = wireStores(settings, { ttl: false, readsSizes: false });
const reducer = await wireReducer(settings);
const client = new DynamoDBClient(sdkConfig());

/** The documents of recent logs stay open from one event to the next. */
const logs = once(async () => {
  const source = await checkSource({
    dynamodb: client,
    streamArn: settings.revisionsStreamArn,
    ownTables: [settings.entryTable, settings.segmentTable],
    per: settings.revisionsPer,
    actor: settings.revisionsActor === '' ? undefined : settings.revisionsActor,
  });
  return new RevisionLogs({ logs: wireLogs(stores), source, platform: stores.platform, reducer });
});

/** Records the changes of a plain table as revisions, and compares the table with them. */
export const handler = instrumented(
  (report) =>
    revisionsFunction({
      logs,
      checkStream: () => requireCurrentStream(client, settings.revisionsStreamArn),
      compare: (of, { onFailure, ...options }) => {
        const items = new DynamoDbSourceItems({ client, ...of.source });
        return compareTable({ ...stores, logs: of, items, now: Date.now, sleep, onFailure }, options);
      },
      now: Date.now,
      report,
    }),
  check,
);
