import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { zstdDecompressSync } from 'node:zlib';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { Unpackr } from 'msgpackr';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodeSegmentId } from '../../src/ids/log-id.ts';
import type { AttributeValue, Item } from '../../src/log/attribute.ts';
import { segmentItems, written } from '../support/archives.ts';
import { LOG } from '../support/logs.ts';

const run = promisify(execFile);

/** A native body with every type of DynamoDB, and attributes of other programs. */
const ODD: Item = {
  B: {
    M: {
      text: { S: 'Łódź "\u2028"\n\u0000' },
      number: { N: '-12.5' },
      digits: { N: '99999999999999999999999999999999999999' },
      bytes: { B: Uint8Array.of(0, 255, 128) },
      yes: { BOOL: true },
      no: { BOOL: false },
      nothing: { NULL: true },
      list: { L: [{ N: '1' }, { L: [] }, { M: {} }, { S: '' }] },
      '': { S: 'an empty key' },
      10: { S: 'a key of digits' },
    },
  },
  texts: { SS: ['b', 'a', 'ä'] },
  numbers: { NS: ['10', '9', '-1'] },
  binaries: { BS: [Uint8Array.of(2), Uint8Array.of(1, 2, 3), new Uint8Array()] },
  X: { N: '1732104000' },
};

const items = segmentItems(12, undefined, { body: { format: 'bytes', bytes: new Uint8Array(220_000).fill(9) } });
items[5] = { ...segmentItems(7)[5], ...ODD };
const expected = items.map(({ X: _, ...item }) => item);

let folder: string;
let file: string;
let hash: Uint8Array;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'logfold-archive-'));
  file = join(folder, 'archive.ndjson.zst');
  const { pieces, archive } = await written(items);
  expect(archive.frames).toBeGreaterThan(2);
  hash = archive.hash;
  await writeFile(file, Buffer.concat(pieces));
});

afterAll(() => rm(folder, { recursive: true }));

/** Decodes each line as DynamoDB's import from S3 does, and compares the items with the table. */
function expectImportable(text: string): void {
  const lines = text.split('\n');
  expect(lines.pop()).toBe('');
  const parsed = lines.map((line): Record<string, unknown> => JSON.parse(line));
  for (const line of parsed) expect(Object.keys(line)).toEqual(['Item']);
  const imported = parsed.map(({ Item }) => itemOf(Item));
  expect(imported.map(valuesOf)).toEqual(expected.map(valuesOf));
  expect(imported.map(typesOf)).toEqual(expected.map(typesOf));
}

function valuesOf(item: Item): Record<string, unknown> {
  // Numbers become text: they may have more digits than a number of JavaScript.
  return unmarshall(item, { wrapNumbers: true });
}

function typesOf(item: Item): string[] {
  return Object.entries(item)
    .flatMap(([name, attribute]) => Object.keys(attribute).map((type) => `${name} ${type}`))
    .sort();
}

/** Decodes an item from DynamoDB JSON: Base64 becomes bytes, other values stay. */
function itemOf(json: unknown): Item {
  return Object.fromEntries(entriesOf(json).map(([name, attribute]) => [name, attributeOf(attribute)]));
}

function attributeOf(json: unknown): AttributeValue {
  const [entry, ...more] = entriesOf(json);
  expect(more).toEqual([]);
  const [type, value] = entry ?? [];
  if (type === 'S' && typeof value === 'string') return { S: value };
  if (type === 'N' && typeof value === 'string') return { N: value };
  if (type === 'B') return { B: bytesOf(value) };
  if (type === 'BOOL' && typeof value === 'boolean') return { BOOL: value };
  if (type === 'NULL' && value === true) return { NULL: true };
  if (type === 'M') return { M: itemOf(value) };
  if (!Array.isArray(value)) throw new Error(`DynamoDB has no type '${type}'`);
  if (type === 'L') return { L: value.map(attributeOf) };
  if (type === 'SS') return { SS: value.map(String) };
  if (type === 'NS') return { NS: value.map(String) };
  if (type === 'BS') return { BS: value.map(bytesOf) };
  throw new Error(`DynamoDB has no type '${type}'`);
}

function bytesOf(value: unknown): Uint8Array {
  return Uint8Array.from(Buffer.from(String(value), 'base64'));
}

function entriesOf(json: unknown): [string, unknown][] {
  if (typeof json !== 'object' || json === null) throw new Error('DynamoDB JSON is made of objects');
  return Object.entries(json);
}

async function onPath(command: string): Promise<boolean> {
  for (const place of (process.env.PATH ?? '').split(delimiter)) {
    const found = await access(join(place, command)).then(
      () => true,
      () => false,
    );
    if (found) return true;
  }
  return false;
}

const zstdcat = await onPath('zstdcat');

test.skipIf(!zstdcat)('zstdcat prints the lines that DynamoDB imports', async () => {
  const { stdout } = await run('zstdcat', [file], { maxBuffer: 64 * 1024 * 1024 });
  expectImportable(stdout);
});

test.skipIf(!zstdcat)('zstd finds no error in the file', async () => {
  await run('zstdcat', ['--test', file]);
});

/** Reads a file from its end by docs/format.md, without logfold's code, and checks each hash. */
function readByFormat(bytes: Buffer): { readonly text: string; readonly index: Record<string, unknown> } {
  const frames = bytes.readUInt32LE(bytes.length - 9);
  expect(bytes[bytes.length - 5]).toBe(0);
  expect(bytes.readUInt32LE(bytes.length - 4)).toBe(0x8f92eab1);
  const table = bytes.length - (8 + frames * 8 + 9);
  expect(bytes.readUInt32LE(table)).toBe(0x184d2a5e);
  expect(bytes.readUInt32LE(table + 4)).toBe(frames * 8 + 9);
  const sizes = Array.from({ length: frames }, (_, i) => ({
    stored: bytes.readUInt32LE(table + 8 + i * 8),
    content: bytes.readUInt32LE(table + 12 + i * 8),
  }));
  const indexStart = table - (sizes.at(-1)?.stored ?? 0);
  expect(bytes.readUInt32LE(indexStart)).toBe(0x184d2a5a);
  const encoded = bytes.subarray(indexStart + 8, indexStart + 8 + bytes.readUInt32LE(indexStart + 4));
  expect(createHash('sha256').update(encoded).digest()).toEqual(Buffer.from(hash));
  const index: Record<string, unknown> = new Unpackr({ useRecords: false }).unpack(encoded);
  const { hashes } = index;
  if (!(hashes instanceof Uint8Array)) throw new Error('the index has no hashes');

  let at = 0;
  let text = '';
  for (const [i, { stored, content }] of sizes.slice(0, -1).entries()) {
    const frame = zstdDecompressSync(bytes.subarray(at, at + stored));
    expect(frame.length).toBe(content);
    const expectedHash = Buffer.from(hashes.subarray(i * 32, (i + 1) * 32));
    expect(createHash('sha256').update(frame).digest()).toEqual(expectedHash);
    text += frame.toString('utf8');
    at += stored;
  }
  expect(at).toBe(indexStart);
  return { text, index };
}

test('another reader, written from docs/format.md, prints the lines that DynamoDB imports', async () => {
  const { text, index } = readByFormat(await readFile(file));
  expectImportable(text);
  expect(Object.keys(index)).toEqual(['bytes', 'entries', 'firsts', 'format', 'hashes', 'log', 'segment']);
  expect(index).toMatchObject({ format: 1, segment: 0, entries: 12, bytes: Buffer.byteLength(text) });
  const log: unknown = index.log;
  expect(Buffer.from(encodeSegmentId(LOG, 0).subarray(0, 16))).toEqual(log);
});
