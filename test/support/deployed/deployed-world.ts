import { randomUUID } from 'node:crypto';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { wireLogs } from '../../../src/adapters/platform/node-logs.ts';
import { openBucket } from '../../../src/adapters/platform/open-bucket.ts';
import { feedGroupsOf, type MappedLogs, openStores } from '../../../src/adapters/platform/open-stores.ts';
import type { ArchivedLogStore } from '../../../src/archive/archived-log-store.ts';
import type { Logs } from '../../../src/client/logs.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { LogClient } from '../../../src/log/client.ts';
import type { ReservedTypes } from '../../../src/log/entry.ts';
import type { LogStore } from '../../../src/log/log-store.ts';
import { parseMapping } from '../../../src/mapping/schema-mapping.ts';
import { loadState } from '../../../src/snapshot/load.ts';
import { sheetOf, spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../../src/state/spreadsheet/sheet.ts';
import type { BlobStore } from '../../../src/store/blob-store.ts';
import { LOGS_PREFIX } from '../../../src/store/keys.ts';
import { logStatus } from '../../../src/workers/audit/status.ts';
import { SheetModel } from '../models/sheet-model.ts';
import { startTestEngine, type TestEngine } from '../stores/engine.ts';
import { type LocalAws, startLocalAws } from '../stores/fauxqs.ts';
import { Deployment } from './deployment.ts';
import { type LogRecord, type MetricValue, parseOutput } from './function-output.ts';
import { MovedClock } from './moved-clock.ts';

/** Cells of a table that fills several chunks. */
const CELLS = Array.from({ length: 3_000 }, (_, i) => [100 + Math.floor(i / 10), i % 10] as const);

/** A stack on its own servers, with clients of its logs and of its bucket. */
export class DeployedWorld {
  readonly deployment: Deployment;
  readonly client: LogClient;
  readonly store: ArchivedLogStore;
  /** The tables of the logs and that of the feed, if there is one. */
  readonly tables: LogStore;
  /** The logs of an application's table; undefined without a mapping. */
  readonly mapped: MappedLogs | undefined;
  /** For applications: they read the feed. */
  readonly logs: Logs;
  readonly types: ReservedTypes;
  readonly blobs: BlobStore;
  readonly #stop: () => Promise<void>;

  constructor(deployment: Deployment, stop: () => Promise<void>) {
    const { EntryTableName: entryTable, SegmentTableName: segmentTable, BucketName: bucket } = deployment.stack.outputs;
    const { Mapping: text = '' } = deployment.stack.parameters;
    const mapping = text === '' ? undefined : parseMapping(JSON.parse(text));
    this.deployment = deployment;
    this.#stop = stop;
    const { FeedTableName: feedTable } = deployment.stack.outputs;
    const { dynamodb, s3 } = deployment.aws;
    const stores = openStores({
      ...{ entryTable: String(entryTable), segmentTable: String(segmentTable), dynamodb, mapping },
      feedTable: feedTable === undefined ? undefined : String(feedTable),
      blobs: openBucket(String(bucket), { s3 }),
    });
    this.tables = stores.tables;
    this.mapped = stores.mapped;
    this.store = stores.store;
    this.blobs = stores.blobs;
    this.types = stores.types;
    this.logs = wireLogs({ ...this, feedGroups: feedGroupsOf(stores) });
    this.client = this.logs.client;
  }

  /**
   * @param parametersOf returns the template's parameters; called after the resources outside the
   * stack exist
   */
  static async start(
    parametersOf: (engine: TestEngine, aws: LocalAws) => Promise<Readonly<Record<string, string>>>,
  ): Promise<DeployedWorld> {
    const engine = await startTestEngine();
    const aws = await startLocalAws();
    const clock = new MovedClock();
    const parameters = await parametersOf(engine, aws);
    const here = { dynamodb: engine.endpoint, others: aws.server.address };
    const deployment = await Deployment.start({ parameters, clock, ...here });
    return new DeployedWorld(deployment, async () => {
      await deployment.stop();
      clock.restore();
      await engine.stop();
      await aws.stop();
    });
  }

  /** Stops all servers. The recorded output stays readable. */
  stop(): Promise<void> {
    return this.#stop();
  }

  /**
   * Creates a log with some segments, the last one open. Each segment has a snapshot at its
   * beginning and one later.
   */
  async addLog(segments: number): Promise<{ readonly log: LogId; readonly sheet: SheetModel }> {
    const log = await this.client.createLog();
    const sheet = new SheetModel();
    await this.deployment.deliverAll();
    for (let segment = 0; segment < segments; segment++) {
      // Every round sets the same cells, so chunks of earlier snapshots become garbage. The
      // entries' bodies are too large for the table.
      await this.set(log, sheet, CELLS);
      await this.client.addSnapshot(log);
      await this.set(log, sheet, CELLS);
      for (let row = 0; row < 5; row++) await this.set(log, sheet, [[segment * 10 + row, 0]]);
      await this.client.addSnapshot(log);
      for (let row = 5; row < 10; row++) await this.set(log, sheet, [[segment * 10 + row, 0]]);
      if (segment < segments - 1) await this.client.startSegment(log);
      await this.deployment.deliverAll();
    }
    return { log, sheet };
  }

  /** Sets cells to new texts, in one entry. */
  async set(log: LogId, sheet: SheetModel, places: readonly (readonly [row: number, column: number])[]): Promise<void> {
    const cells = places.map(([row, column]) => [row, column, randomUUID()] as const);
    sheet.apply({ type: 'Set', cells });
    await this.client.addEntry(log, { type: 'Set', version: 1, body: cells.map((cell) => [...cell]) });
  }

  /** The rows that a client of the log reads. */
  async rows(log: LogId): Promise<string[][]> {
    const { draft } = await loadState({ ...this, platform: nativePlatform, reducer: spreadsheet }, log);
    return Array.fromAsync(sheetRows(sheetOf(draft)));
  }

  /** The status of a log. */
  status(log: LogId) {
    return logStatus({ ...this, platform: nativePlatform, now: Date.now }, log);
  }

  /** Lets a grace period pass, runs the schedules and processes all resulting work. */
  async sweepAfter(graceSeconds: number): Promise<void> {
    this.deployment.pass(graceSeconds + 60);
    await this.deployment.runSchedules();
    await this.deployment.deliverAll();
  }

  /** Keys of the objects in the bucket. */
  async keys(prefix: string = LOGS_PREFIX): Promise<string[]> {
    return (await Array.fromAsync(this.blobs.list(prefix))).map(({ key }) => key);
  }

  /** The output of all functions so far. */
  output(): { readonly log: LogRecord[]; readonly metrics: MetricValue[] } {
    const all = [...this.deployment.functions.keys()].map((id) => parseOutput(this.deployment.lines(id)));
    const log = all.flatMap((each) => each.log).sort((a, b) => Date.parse(a.timestamp) - Date.parse(b.timestamp));
    return { log, metrics: all.flatMap(({ metrics }) => metrics) };
  }
}
