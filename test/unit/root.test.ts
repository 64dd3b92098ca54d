import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { fromHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { chunkId, packChunk } from '../../src/codec/chunk.ts';
import type { Value } from '../../src/codec/value.ts';
import { ChunkCorruptError, ChunkMissingError, RootInvalidError } from '../../src/errors.ts';
import { logIdBytes, parseLogId } from '../../src/ids/log-id.ts';
import { decodeRoot, encodeRoot, type Root } from '../../src/snapshot/root.ts';
import { INLINE_ROOT_BYTES, loadRoot, saveRoot } from '../../src/snapshot/snapshots.ts';
import { EMPTY_STATE, hashFlushedState, type State, stateHash } from '../../src/state/state.ts';
import { rootKey } from '../../src/store/keys.ts';
import { withoutBuffer } from '../../src/tree/buffered-tree.ts';
import type { Leaf } from '../../src/tree/node.ts';
import { nodeStore } from '../support/chunks.ts';
import { bitFlips, damaged, truncations } from '../support/damage.ts';
import { LOG } from '../support/logs.ts';
import { SMALL_SHEET, savedSheet, sheetRows } from '../support/models/saved-sheet.ts';
import { propertyRuns } from '../support/property-runs.ts';

const OTHER_LOG = parseLogId('0190b5a0-7e1c-7000-8000-0123456789ab');
const POSITION = { segment: 2, entry: 7 };
const PLACE = { log: LOG, position: POSITION };

function rootOfState(state: State): Root {
  const hash = stateHash(nativePlatform, state);
  return { ...PLACE, reducer: { name: 'spreadsheet', version: 1 }, stateHash: hash, state };
}

const store = nodeStore();
const root = rootOfState(await savedSheet(store, SMALL_SHEET));
const { id, stored } = encodeRoot(nativePlatform, root);

/** The state hash that a reader finds in a root of this place, or 'refused'. */
function found(bytes: Uint8Array, expectedId?: string): string {
  try {
    const read = decodeRoot(nativePlatform, bytes, { ...PLACE, id: expectedId });
    expect(read).toMatchObject(PLACE);
    return read.stateHash ?? 'none';
  } catch (error) {
    if (error instanceof ChunkCorruptError || error instanceof RootInvalidError) return 'refused';
    throw error;
  }
}

/** The fields of a stored root, for roots that no writer makes. */
function fields(): Record<string, Value> {
  return {
    format: 1,
    log: logIdBytes(LOG),
    position: [POSITION.segment, POSITION.entry],
    reducer: ['spreadsheet', 1],
    hash: fromHex(hashFlushedState(nativePlatform, EMPTY_STATE)),
    meta: {},
    maps: [],
  };
}

function pack(value: Value): Uint8Array {
  return packChunk(nativePlatform, encodeValue(value));
}

/** A root with any map and the hash that fits it. */
function packWithMap(name: Value, kind: Value, top: Value): Uint8Array {
  const topId = top instanceof Uint8Array ? chunkId(nativePlatform, top) : top;
  const hash = nativePlatform.sha256(encodeValue([{}, [[name, kind, topId]]]));
  return pack({ ...fields(), hash: Uint8Array.from(hash), maps: [[name, kind, top]] });
}

describe('a root', () => {
  test('a root is read back with its sheet', async () => {
    const read = decodeRoot(nativePlatform, stored, { ...PLACE, id });
    expect(read).toEqual(root);
    expect(await sheetRows(store, read.state)).toEqual(await sheetRows(store, root.state));
    expect((await sheetRows(store, read.state))[4]?.[1]).toBe('large '.repeat(1000));
  });

  test('a root made by hand from the same fields has the same bytes', () => {
    expect(found(pack(fields()))).toBe(stateHash(nativePlatform, EMPTY_STATE));
    expect(pack(fields())).toEqual(encodeRoot(nativePlatform, rootOfState(EMPTY_STATE)).stored);
  });

  test('a truncated root is refused', () => {
    for (const beginning of truncations(stored)) {
      expect(found(beginning, id)).toBe('refused');
      expect(found(beginning)).toBe('refused');
    }
  });

  test('a root with a flipped bit is refused or has the same state, with and without a known id', () => {
    const results = new Set<string>();
    for (const altered of bitFlips(stored)) results.add(found(altered, id)).add(found(altered));
    expect([root.stateHash, 'refused']).toEqual(expect.arrayContaining([...results]));
  });

  test('a damaged root is refused or has the same state, compressed or not', () => {
    const hash = stateHash(nativePlatform, EMPTY_STATE);
    const plain = encodeValue(fields());
    fc.assert(
      fc.property(damaged(stored), damaged(plain), (altered, alteredPlain) => {
        expect(['refused', root.stateHash]).toContain(found(altered, id));
        expect(['refused', hash]).toContain(found(packChunk(nativePlatform, alteredPlain)));
      }),
      { numRuns: propertyRuns(2000) },
    );
  });

  test('a root of another log is refused with the place of its entry', () => {
    const read = () => decodeRoot(nativePlatform, stored, { log: OTHER_LOG, position: POSITION, id });
    expect(read).toThrow(RootInvalidError);
    expect(read).toThrow(`[log ${OTHER_LOG}, segment 2, entry 7]`);
  });

  test('a root of another position is refused', () => {
    for (const position of [
      { segment: 2, entry: 8 },
      { segment: 1, entry: 7 },
    ]) {
      expect(() => decodeRoot(nativePlatform, stored, { log: LOG, position, id })).toThrow(RootInvalidError);
    }
  });

  test('a root under the id of another root is refused', () => {
    const other = encodeRoot(nativePlatform, rootOfState(EMPTY_STATE)).id;
    expect(() => decodeRoot(nativePlatform, stored, { ...PLACE, id: other })).toThrow(ChunkCorruptError);
  });

  test('a root with a wrong state hash is refused', () => {
    const lying = packChunk(nativePlatform, encodeValue({ ...fields(), meta: { another: 1 } }));
    expect(() => decodeRoot(nativePlatform, lying, PLACE)).toThrow(RootInvalidError);
    expect(() => decodeRoot(nativePlatform, lying, PLACE)).toThrow(/does not have the hash/);
  });

  test.each<[string, Value]>([
    ['with a newer format', { ...fields(), format: 2 }],
    ['with an array instead of a record', [1, 2, 3]],
    ...Object.keys(fields()).map((name): [string, Value] => [`without ${name}`, { ...fields(), [name]: null }]),
    ['whose log id is too short', { ...fields(), log: Uint8Array.of(1, 2) }],
    ['whose log id is not a UUID', { ...fields(), log: new Uint8Array(16).fill(0x11) }],
    ['whose segment is not a number', { ...fields(), position: [Number.NaN, POSITION.entry] }],
    ['whose entry is not a whole number', { ...fields(), position: [POSITION.segment, POSITION.entry + 0.5] }],
    ['whose reducer has no version', { ...fields(), reducer: ['spreadsheet'] }],
    ['whose maps are not arrays', { ...fields(), maps: [1] }],
  ])('a root %s is refused', (_, value) => {
    expect(() => decodeRoot(nativePlatform, pack(value), PLACE)).toThrow(RootInvalidError);
  });

  test.each<[string, Value, Value, Value]>([
    ['without a name', 1, 'number', encodeValue([0, [1], [1]])],
    ['with an unknown kind', 'cells', 'date', encodeValue([0, [1], [1]])],
    ['whose top is not bytes', 'cells', 'number', 'top'],
    ['whose top is empty', 'cells', 'number', new Uint8Array()],
    ['whose top is not a node', 'cells', 'number', encodeValue([0, [], []])],
    ['with strings as number keys', 'cells', 'number', encodeValue([0, ['a'], [1]])],
    ['with numbers as string keys', 'rows', 'string', encodeValue([0, [1], [1]])],
  ])('a root with a map %s is refused although its hash is right', (_, name, kind, top) => {
    expect(found(packWithMap('cells', 'number', encodeValue([0, [1], [1]])))).not.toBe('refused');
    expect(found(packWithMap(name, kind, top))).toBe('refused');
  });
});

describe('an unreadable root', { tags: ['I2'] }, () => {
  const leaf = (weight: number, value: Uint8Array): Leaf => {
    const ends = new Uint32Array([value.length]);
    return { level: 0, keys: [1], bytes: value, ends, weights: [weight], count: 1, weight };
  };
  const stateOf = (top: Leaf, maps: number): State => {
    const map = withoutBuffer({ kind: 'number', top });
    return { meta: {}, maps: new Map(Array.from({ length: maps }, (_, i) => [String(1000 + i), map])) };
  };
  const refusal = { code: 'STATE_UNSUPPORTED', stopsLog: true, log: LOG, segment: 2, entry: 6 };

  test.each([-1, 1.5, 2 ** 60])('the encoder refuses a weight of %d', (weight) => {
    const rooted = { ...PLACE, reducer: root.reducer, state: stateOf(leaf(weight, encodeValue('x')), 1) };
    expect(() => encodeRoot(nativePlatform, rooted)).toThrow(expect.objectContaining(refusal));
  });

  test('the encoder refuses a reducer version that is not a number', () => {
    const rooted = { ...PLACE, reducer: { name: 'spreadsheet', version: Number.NaN }, state: EMPTY_STATE };
    expect(() => encodeRoot(nativePlatform, rooted)).toThrow(expect.objectContaining(refusal));
  });

  test('the encoder refuses a root above the limit of a chunk', () => {
    const state = stateOf(leaf(1, encodeValue(new Uint8Array(1024 * 1024))), 64);
    expect(() => encodeRoot(nativePlatform, { ...PLACE, reducer: root.reducer, state })).toThrow(
      expect.objectContaining({ ...refusal, message: expect.stringContaining('64 maps') }),
    );
  });
});

describe('a saved root', () => {
  const blobs = new MemoryBlobStore();
  const encoded = (bytes: number) => ({ id, stored: new Uint8Array(bytes) });

  test('a root is inline up to the limit, and an object above it', async () => {
    expect(await saveRoot(blobs, PLACE, encoded(INLINE_ROOT_BYTES))).toEqual({
      inline: new Uint8Array(INLINE_ROOT_BYTES),
    });
    const key = rootKey(LOG, POSITION, id);
    expect(await saveRoot(blobs, PLACE, encoded(INLINE_ROOT_BYTES + 1))).toEqual({ key });
    expect((await blobs.get(key))?.length).toBe(INLINE_ROOT_BYTES + 1);
  });

  test('a saved root is loaded, and a missing or wrong object is an error', async () => {
    const key = rootKey(LOG, POSITION, id);
    await blobs.put(key, stored);
    const stores = { blobs, platform: nativePlatform };
    expect(await loadRoot(stores, PLACE, { key })).toEqual(root);
    expect(await loadRoot(stores, PLACE, { inline: stored })).toEqual(root);
    await blobs.put(key, encodeRoot(nativePlatform, rootOfState(EMPTY_STATE)).stored);
    await expect(loadRoot(stores, PLACE, { key })).rejects.toThrow(ChunkCorruptError);
    await blobs.delete([key]);
    await expect(loadRoot(stores, PLACE, { key })).rejects.toThrow(ChunkMissingError);
  });
});
