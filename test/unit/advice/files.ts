import { expect } from 'vitest';
import type { ByteSource } from '../../../src/codec/bytes.ts';
import type { NewEntry } from '../../../src/log/client.ts';
import { importBody } from '../../../src/state/spreadsheet/import.ts';
import { newLogId, testLogClient } from '../../support/logs.ts';
import { SheetLog } from '../../support/sheet-log.ts';
import { build, type Cases } from './case.ts';

const BYTES: ByteSource = async function* () {
  yield Uint8Array.of(1);
};

/** A client, and a log that takes entries with a file once the advice was followed. */
async function files() {
  const { client, blobs } = testLogClient();
  const log = await client.createLog();
  const file = await client.saveFile(log, BYTES);
  const append = (entry: Partial<NewEntry>) => client.addEntry(log, { type: 'Import', version: 1, body: {}, ...entry });
  return { client, blobs, log, file, append };
}

/** Advice for programs that append entries with files. */
export const FILES: Cases = {
  'Try again when nothing writes to the file': async (refused) => {
    const { client, log } = await files();
    let version = 0;
    await refused(() =>
      client.saveFile(log, async function* () {
        yield Uint8Array.of(++version);
      }),
    );
    await client.saveFile(log, async function* () {
      yield Uint8Array.of(version);
    });
  },
  'Give a function that returns an async iterable of Uint8Array, such as () => createReadStream(path)': async (
    refused,
  ) => {
    const { client, log } = await files();
    const texts = async function* () {
      yield 'text';
    };
    const noSources = [
      texts,
      'abc',
      Uint8Array.of(1),
      undefined,
      () => undefined,
      async () => [],
      () => 'abc',
      () => [1],
    ];
    for (const source of noSources) await refused(() => Reflect.apply(client.saveFile, client, [log, source]));
    await client.saveFile(log, BYTES);
  },
  'Give the key that `saveFile` returned for this log, or import the file into this log': async (refused) => {
    const { append, file, client } = await files();
    await refused(() => append({ file: 'table.csv' }));
    const other = newLogId();
    const elsewhere = await client.saveFile(other, BYTES);
    await refused(() => append({ file: elsewhere }));
    await append({ file });
  },
  'Give a body with the parameters of the file, such as an empty object': async (refused) => {
    const { append, file } = await files();
    await refused(() => append({ file, body: undefined }));
    await append({ file, body: {} });
  },
  'Keep only the parameters of the file in the body': async (refused) => {
    const { append, file } = await files();
    const body = (length: number) => ({ format: 'csv', title: 'x'.repeat(length) });
    await refused(() => append({ file, body: body(20_000) }));
    await append({ file, body: body(1_000) });
  },
  "Append such entries with 'logfold import', or give the fields of a `SheetImport` and a file": async (refused) => {
    const sheet = await SheetLog.create();
    const file = await sheet.saveFile(new TextEncoder().encode('Denver'));
    for (const wrong of [{ body: importBody({ format: 'csv' }) }, { body: ['csv'], file }, { body: {}, file }]) {
      const position = await sheet.append({ type: 'Import', version: 1, ...wrong });
      await refused(() => build(sheet, { ...position, entry: position.entry + 1 }));
    }
    const right = await SheetLog.create();
    const named = await right.saveFile(new TextEncoder().encode('Denver'));
    await right.append({ type: 'Import', version: 1, body: importBody({ format: 'csv' }), file: named });
    expect(await right.rows(await right.completed())).toEqual([['Denver']]);
  },
  'Save it again with `saveFile`': async (refused) => {
    const { append, file, blobs, client, log } = await files();
    await blobs.delete([file]);
    await refused(() => append({ file }));
    await append({ file: await client.saveFile(log, BYTES) });
  },
};
