import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { marshall } from '@aws-sdk/util-dynamodb';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { type LogsSettings, sleep } from '../../../src/adapters/platform/node-logs.ts';
import type { ServerLogs } from '../../../src/adapters/web/server-logs.ts';
import type { Document } from '../../../src/client/document.ts';
import type { Logs, LogsDeps } from '../../../src/client/logs.ts';
import * as aws from '../../../src/exports/aws.ts';
import * as collections from '../../../src/exports/collections.ts';
import * as items from '../../../src/exports/items.ts';
import * as local from '../../../src/exports/local.ts';
import * as logfold from '../../../src/exports/logfold.ts';
import * as react from '../../../src/exports/react.ts';
import * as spreadsheet from '../../../src/exports/spreadsheet.ts';
import * as testing from '../../../src/exports/testing.ts';
import { type LogId, textLogId } from '../../../src/ids/log-id.ts';
import type { Position } from '../../../src/ids/position.ts';
import type { NewEntry } from '../../../src/log/client.ts';
import { RESERVED_TYPES } from '../../../src/log/entry.ts';
import type { CellEdit } from '../../../src/state/spreadsheet/reducer.ts';
import { CliPlace } from '../../support/cli-place.ts';
import { NOON, newLogId } from '../../support/logs.ts';
import { type LocalAws, startLocalAws } from '../../support/stores/fauxqs.ts';
import { createItemTable } from '../../support/stores/item-table.ts';
import { clientConfig } from '../../support/stores/shared-engine.ts';
import { CallRecorder } from './recorder.ts';

/** The entries of the package, by their names in `package.json`. */
export const ENTRIES = {
  '.': logfold,
  './aws': aws,
  './local': local,
  './collections': collections,
  './items': items,
  './spreadsheet': spreadsheet,
  './testing': testing,
  './react': react,
} as const;

const FEED = ['--feed-table', 'Feed'];
const EXPIRE_NOW = ['--keep-segments', '1', '--keep-days', '0', '--grace', '0s', '--expire', 'delete'];
const TABLES = { entryTable: 'Entry', segmentTable: 'Segment' };
/** The table of an application, whose items are entries. */
const MAPPED = { entryTable: 'Events', mapping: 'pk-sk' } as const;
const BUCKET = 'logs';
/** Segments that are archived and left the table. The segment after them is open. */
export const SEGMENTS = 3;
/** Entries of the application in each of them, after a Snapshot entry. */
export const EDITS = 5;
/** The number of the archived entry with a file. */
export const IMPORT = 10;
export const FILE = 'state\nColorado\n';
/** The number of the archived entry with a body in the bucket. */
export const LARGE = 15;
export const LARGE_VALUE = 'x'.repeat(20_000);
/** An entry of an archived segment: the fourth that the application appended. */
export const PAST: Position = { segment: 0, entry: 4 };
export const CORNER = { rows: { from: 0, to: 3 }, columns: { from: 0, to: 2 } };
export const CONSISTENT = { consistent: true };

/** A log as `openLogs` of an entry opens it, and all exported functions. */
export class World {
  readonly recorder = new CallRecorder();
  readonly logfold = this.recorder.exportsOf('logfold', logfold);
  readonly aws = this.recorder.exportsOf('logfold/aws', aws);
  readonly local = this.recorder.exportsOf('logfold/local', local);
  readonly collections = this.recorder.exportsOf('logfold/collections', collections);
  readonly items = this.recorder.exportsOf('logfold/items', items);
  readonly spreadsheet = this.recorder.exportsOf('logfold/spreadsheet', spreadsheet);
  readonly testing = this.recorder.exportsOf('logfold/testing', testing);
  readonly react = this.recorder.exportsOf('logfold/react', react);

  readonly place: CliPlace;
  readonly s3: LocalAws['s3'];
  readonly dynamodb: DynamoDBClient;
  /**
   * A fed log of a sheet: entry number N sets row `(N - 1) % 3` of the first column to `value N`.
   * Entry {@link IMPORT} imports a file instead, and the body of entry {@link LARGE} is in the
   * bucket. Its segments but the last are archived and left the table.
   */
  readonly log: LogId;
  /** On the embedded engine and a directory, with the feed. */
  readonly logs: ServerLogs;
  readonly document: Document;
  /** Opens the logs as another process would. */
  readonly others: ServerLogs;
  /** On the same tables, and a copy of the objects in S3. */
  readonly awsLogs: ServerLogs;
  readonly #aws: LocalAws;
  readonly #settings: LogsSettings & typeof TABLES;
  #edits = 0;

  private constructor(
    place: CliPlace,
    localAws: LocalAws,
    settings: LogsSettings & typeof TABLES,
    opened: Pick<World, 'log' | 'logs' | 'others' | 'awsLogs' | 'document' | 'dynamodb'>,
  ) {
    this.place = place;
    this.#aws = localAws;
    this.#settings = settings;
    this.s3 = localAws.s3;
    this.log = opened.log;
    this.logs = opened.logs;
    this.others = opened.others;
    this.awsLogs = opened.awsLogs;
    this.document = opened.document;
    this.dynamodb = opened.dynamodb;
  }

  /** @param schema whose items the log has: those of logfold, or those of an application */
  static async open(schema: 'own' | 'mapped' = 'own'): Promise<World> {
    const [place, localAws] = await Promise.all([CliPlace.open(), startLocalAws()]);
    const log = schema === 'own' ? await fill(place) : await fillMapped(place);
    const { s3 } = localAws;
    await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const bucket = new aws.S3BlobStore({ client: s3, bucket: BUCKET });
    for await (const { key } of place.blobs.list('')) await bucket.put(key, await place.read(key));
    const dynamodb = new DynamoDBClient(clientConfig(place.endpoint));
    const settings = { ...TABLES, feedTable: 'Feed', ...(schema === 'mapped' && MAPPED) };
    const { directory } = place;
    const logs = await local.openLogs({ directory, ...settings });
    return new World(place, localAws, settings, {
      log,
      logs,
      others: await local.openLogs({ directory, ...settings }),
      awsLogs: aws.openLogs({ ...settings, bucket: BUCKET, dynamodb, s3 }),
      document: await logs.open(log, { reducer: spreadsheet.spreadsheet }),
      dynamodb,
    });
  }

  async close(): Promise<void> {
    await this.logs.close();
    await this.others.close();
    await this.awsLogs.close();
    this.dynamodb.destroy();
    await this.#aws.stop();
    await this.place.close();
  }

  /** An object whose calls are recorded under the name of its class or interface. */
  record<T extends object>(name: string, target: T): T {
    return this.recorder.record(name, target);
  }

  /** Opens {@link awsLogs} once more. */
  openAws(): ServerLogs {
    const { dynamodb, s3 } = this;
    return aws.openLogs({ ...this.#settings, bucket: BUCKET, dynamodb, s3 });
  }

  /** A new value, and an entry that sets a cell of the second column to it. */
  edit(): { readonly value: string; readonly entry: NewEntry } {
    const value = `edit ${++this.#edits}`;
    return { value, entry: { type: 'Set', version: 1, body: [[0, 1, value]] } };
  }

  /** The stores of {@link awsLogs}, made of the exported classes. */
  stores() {
    const tables = new this.aws.DynamoDbLogStore({ client: this.dynamodb, ...TABLES });
    const blobs = new this.aws.S3BlobStore({ client: this.s3, bucket: BUCKET });
    const store = new this.logfold.ArchivedLogStore(tables, { blobs, platform: nativePlatform });
    const deps: LogsDeps = {
      store,
      tables,
      blobs,
      platform: nativePlatform,
      now: Date.now,
      random: Math.random,
      sleep,
      newLogId,
    };
    return { tables, blobs, store, types: RESERVED_TYPES, deps };
  }

  /** Settings with which a page asks {@link logs}. */
  page() {
    const allows = () => true;
    const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
    return {
      ...(this.#settings.mapping !== undefined && { types: logfold.VIRTUAL_TYPES, parseLog: textLogId }),
      platform: nativePlatform,
      urlOf: encodeURIComponent,
      fetch: async (url: string, { headers }: { readonly headers: Record<string, string> }) => {
        const answer = await this.logs.object(decodeURIComponent(url), { allows, range: headers.Range });
        return new Response(answer.body, { status: answer.status, headers: { ...answer.headers } });
      },
      send: async (request: unknown): Promise<unknown> => json(await this.logs.answer(json(request), { allows })),
    };
  }

  /** A new log with one entry, in the tables and S3. */
  async smallLog(logs: Logs = this.awsLogs): Promise<LogId> {
    const log = await logs.create();
    await logs.client.addEntry(log, this.edit().entry);
    return log;
  }
}

async function fill(place: CliPlace): Promise<LogId> {
  const log = await place.log();
  await place.json('work', '--until-idle', ...FEED);
  for (let number = 1; number <= SEGMENTS * EDITS; number++) {
    await place.client.addEntry(log, await entryOf(place, log, number));
    if (number % EDITS > 0) continue;
    await place.json('segment', log);
    await place.json('work', '--until-idle', ...FEED);
  }
  for (let pass = 0; pass < 3; pass++) await place.json('sweep', ...EXPIRE_NOW, ...FEED);
  return log;
}

/** As {@link fill}, but the last segment has an entry, and no entry has a file or an object. */
async function fillMapped(place: CliPlace): Promise<LogId> {
  const log = textLogId('sheet/1');
  const dynamodb = new DynamoDBClient(clientConfig(place.endpoint));
  await createItemTable(dynamodb, MAPPED.entryTable, { stream: 'NEW_IMAGE' });
  for (let number = 1; number <= SEGMENTS * EDITS + 1; number++) {
    const isShown = number !== IMPORT && number <= SEGMENTS * EDITS;
    const cell = isShown ? [(number - 1) % 3, 0, `value ${number}`] : [9, 9, 'other'];
    const key = { pk: log, sk: number - 1 };
    const item = { ...key, type: 'Set', ts: new Date(NOON * 1000).toISOString(), payload: [cell] };
    await dynamodb.send(new PutItemCommand({ TableName: MAPPED.entryTable, Item: marshall(item) }));
  }
  dynamodb.destroy();
  const division = ['--snapshot-every-entries', String(EDITS), '--segment-every-entries', String(EDITS)];
  const words = [
    '--reducer',
    'spreadsheet',
    '--entry-table',
    MAPPED.entryTable,
    '--mapping',
    MAPPED.mapping,
    ...division,
    ...FEED,
  ];
  await place.json('work', '--until-idle', ...words);
  for (let pass = 0; pass < 4; pass++) await place.json('sweep', ...words, ...EXPIRE_NOW);
  return log;
}

/** An entry of the log by its number. */
async function entryOf({ client }: CliPlace, log: LogId, number: number): Promise<NewEntry> {
  if (number === IMPORT) {
    const file = await client.saveFile(log, async function* () {
      yield new TextEncoder().encode(FILE);
    });
    const body = spreadsheet.importBody({ format: 'csv', row: 9, column: 9 });
    return { type: 'Import', version: 1, body, file };
  }
  const cell: CellEdit = [(number - 1) % 3, 0, `value ${number}`];
  const cells: readonly CellEdit[] = number === LARGE ? [cell, [20, 20, LARGE_VALUE]] : [cell];
  return { type: 'Set', version: 1, body: spreadsheet.sheetBody({ type: 'Set', cells }) };
}
