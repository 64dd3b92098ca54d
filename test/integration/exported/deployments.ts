import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { expect } from 'vitest';
import type { FilesystemBlobStore } from '../../../src/adapters/filesystem/blob-store.ts';
import { UploadAbortedError } from '../../../src/errors.ts';
import type * as awsEntry from '../../../src/exports/aws.ts';
import type * as localEntry from '../../../src/exports/local.ts';
import type { Engine } from '../../../src/local/engine.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import type { UploadInfo } from '../../../src/store/blob-store.ts';
import { clientConfig } from '../../support/stores/shared-engine.ts';
import type { CallsOf, MemberCalls } from './recorder.ts';
import { blobStoreCalls, DYNAMODB_LOG_STORE, platformCalls, serverLogsCalls } from './stores.ts';
import { CORNER, type World } from './world.ts';

const TABLES = { entryTable: 'Entry', segmentTable: 'Segment' };

export const AWS: CallsOf<typeof awsEntry> = {
  openLogs: async (world) => {
    const { dynamodb, s3 } = world;
    const logs = world.aws.openLogs({ ...TABLES, bucket: 'logs', dynamodb, s3 });
    const document = await logs.open(world.log, { reducer: spreadsheet });
    expect((await (await document.at({ number: 4 })).view(CORNER))[0]?.[0]).toBe('value 1');
    await logs.close();
  },
  sdkConfig: async (world) => {
    const dynamodb = new DynamoDBClient({ ...clientConfig(world.place.endpoint), ...world.aws.sdkConfig() });
    const logs = world.aws.openLogs({ ...TABLES, bucket: 'logs', dynamodb, s3: world.s3 });
    expect((await logs.open(world.log, { reducer: spreadsheet })).log).toBe(world.log);
    dynamodb.destroy();
  },
  DynamoDbLogStore: DYNAMODB_LOG_STORE,
  S3BlobStore: blobStoreCalls((world) => world.record('S3BlobStore', world.stores().blobs)),
  ServerLogs: serverLogsCalls((world) => world.record('ServerLogs', world.openAws())),
  nativePlatform: platformCalls((world) => world.aws.nativePlatform),
};

async function join(world: World): Promise<Engine> {
  return world.record('Engine', await world.local.joinEngine(world.place.directory, { creates: false }));
}

/** The other exports of the entry are those of `logfold/aws`. */
export const LOCAL: CallsOf<Omit<typeof localEntry, Exclude<keyof typeof awsEntry, 'openLogs'>>> = {
  openLogs: async (world) => {
    const logs = await world.local.openLogs({ directory: world.place.directory });
    const document = await logs.open(world.log, { reducer: spreadsheet });
    expect((await (await document.at({ number: 4 })).view(CORNER))[0]?.[0]).toBe('value 1');
    await logs.close();
  },
  joinEngine: async (world) => {
    const engine = await world.local.joinEngine(world.place.directory, { creates: false });
    expect(engine.endpoint).toBe(world.place.endpoint);
    await engine.leave();
  },
  ensureTables: async (world) =>
    expect(await world.local.ensureTables(world.dynamodb, TABLES)).toContain('table/Entry/stream/'),
  FilesystemBlobStore: {
    ...blobStoreCalls(filesOf),
    uploads: (world) =>
      duringUpload(world, async (upload) => expect(upload).toMatchObject({ started: expect.any(Number) })),
    abort: async (world) => {
      const upload = duringUpload(world, (found) => filesOf(world).abort(found));
      await expect(upload).rejects.toThrow(UploadAbortedError);
    },
  },
};

function filesOf(world: World): FilesystemBlobStore {
  const directory = `${world.place.directory}/blobs`;
  return world.record('FilesystemBlobStore', new world.local.FilesystemBlobStore(directory, { fsync: false }));
}

/** Runs while a file is written. @throws the error of the write */
async function duringUpload(world: World, run: (upload: UploadInfo) => Promise<unknown>): Promise<void> {
  const { promise: end, resolve } = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const written = filesOf(world).putStream('calls/upload', slowly(begun.resolve, end));
  await begun.promise;
  const [upload] = await Array.fromAsync(filesOf(world).uploads('calls/upload'));
  if (upload === undefined) throw new Error('the upload is not listed');
  await run(upload);
  resolve();
  await written;
}

async function* slowly(onBegin: () => void, end: Promise<void>): AsyncGenerator<Uint8Array> {
  yield Uint8Array.of(1);
  onBegin();
  await end;
  yield Uint8Array.of(2);
}

export const ENGINE: MemberCalls<Engine> = {
  endpoint: async (world) => {
    const engine = await join(world);
    expect(engine.endpoint).toBe(world.place.endpoint);
    await engine.leave();
  },
  lost: async (world) => {
    const engine = await join(world);
    expect(engine.lost.aborted).toBe(false);
    await engine.leave();
  },
  leave: async (world) => {
    await (await join(world)).leave();
    expect((await world.logs.open(world.log, { reducer: spreadsheet })).log).toBe(world.log);
  },
};
