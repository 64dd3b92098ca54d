import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BlobKeyInvalidError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { comparePositions, MAX_NUMBER } from '../../src/ids/position.ts';
import {
  archiveKey,
  archivePrefix,
  bodyKey,
  bodyPrefix,
  checkBlobKey,
  chunkKey,
  chunkPrefix,
  condemnedKey,
  formatKey,
  logPrefix,
  type ParsedKey,
  parseKey,
  progressKey,
  progressPrefix,
  rootKey,
  rootPrefix,
  stopKey,
} from '../../src/store/keys.ts';
import { propertyRuns } from '../support/property-runs.ts';

const LOG = parseLogId('0190b5a0-7e1c-7000-8000-0123456789ab');
const ID = '0123456789abcdef'.repeat(4);

const logs = fc.uuid().map(parseLogId);
const ids = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const uploads = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((random) => Buffer.from(random).toString('hex'));
const numbers = fc.oneof(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 0, max: MAX_NUMBER }));
const positions = fc.record({ segment: numbers, entry: numbers });
const times = fc.maxSafeNat();
const keys: fc.Arbitrary<ParsedKey> = fc.oneof(
  fc.record({ kind: fc.constant('chunk'), log: logs, id: ids }),
  fc.record({ kind: fc.constant('body'), log: logs, id: ids, upload: uploads(6) }),
  fc.record({ kind: fc.constant('archive'), log: logs, segment: numbers, upload: uploads(16) }),
  fc.record({ kind: fc.constantFrom('condemned', 'collected'), log: logs }),
  fc.record({ kind: fc.constant('root'), log: logs, position: positions, id: ids }),
  fc.record({
    kind: fc.constant('progress'),
    log: logs,
    target: positions,
    targetCreated: times,
    reached: positions,
    id: ids,
  }),
  fc.record({ kind: fc.constant('stop'), log: logs }),
);

describe('keys of the bucket', () => {
  test('each kind of object has this key', () => {
    expect(chunkKey(LOG, ID)).toBe(`logs/${LOG}/chunks/${ID}`);
    expect(rootKey(LOG, { segment: 7, entry: MAX_NUMBER }, ID)).toBe(`logs/${LOG}/roots/0000000007-4294967295-${ID}`);
    expect(
      progressKey({
        log: LOG,
        target: { segment: 7, entry: 9 },
        targetCreated: 1_732_104_000,
        reached: { segment: 6, entry: 1 },
        id: ID,
      }),
    ).toBe(`logs/${LOG}/progress/0000000007-0000000009-1732104000-0000000006-0000000001-${ID}`);
    expect(bodyKey(LOG, ID, '0123456789ab')).toBe(`logs/${LOG}/bodies/${ID}-0123456789ab`);
    expect(archiveKey(LOG, 7, ID.slice(32))).toBe(`logs/${LOG}/archives/0000000007-${ID.slice(32)}.ndjson.zst`);
    expect(condemnedKey(LOG)).toBe(`condemned/${LOG}`);
    expect(stopKey(LOG)).toBe(`logs/${LOG}/stopped.json`);
    for (const prefix of [chunkPrefix(LOG), rootPrefix(LOG), bodyPrefix(LOG), archivePrefix(LOG)]) {
      expect(prefix.startsWith(logPrefix(LOG))).toBe(true);
    }
  });

  test('every key parses to its parts', () => {
    fc.assert(
      fc.property(keys, (key) => {
        const text = formatKey(key);
        expect(parseKey(text)).toEqual(key);
        expect(checkBlobKey(text)).toBe(text);
      }),
    );
  });

  test('a text parses only if it is the key of its parts', () => {
    const mutated = fc
      .tuple(keys.map(formatKey), fc.nat(), fc.string({ minLength: 0, maxLength: 3 }), fc.nat({ max: 3 }))
      .map(([text, at, insert, remove]) => {
        const start = at % text.length;
        return text.slice(0, start) + insert + text.slice(start + remove);
      });
    fc.assert(
      fc.property(fc.oneof(mutated, fc.string()), (text) => {
        const parsed = parseKey(text);
        if (parsed !== undefined) expect(formatKey(parsed)).toBe(text);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('progress lists by the snapshot of its build', () => {
    fc.assert(
      fc.property(positions, times, positions, positions, (target, targetCreated, reached, other) => {
        const key = progressKey({ log: LOG, target, targetCreated, reached, id: ID });
        expect(key.startsWith(progressPrefix(LOG))).toBe(true);
        expect(key.startsWith(progressPrefix(LOG, other))).toBe(comparePositions(target, other) === 0);
      }),
    );
  });

  test('keys of roots have the order of their positions', () => {
    fc.assert(
      fc.property(positions, positions, (a, b) => {
        const order = comparePositions(a, b);
        fc.pre(order !== 0);
        expect(rootKey(LOG, a, ID) < rootKey(LOG, b, ID)).toBe(order < 0);
      }),
    );
  });

  test.each([
    '',
    'logs/',
    `logs/${LOG}`,
    `logs/${LOG}/`,
    `logs/${LOG}/chunks/`,
    `logs/${LOG}/chunks/${ID}0`,
    `logs/${LOG}/chunks/${ID.slice(1)}`,
    `logs/${LOG}/chunks/${ID.toUpperCase()}`,
    `logs/${LOG}/chunks/x/${ID}`,
    `logs/${LOG}/bodies/${ID}`,
    `logs/${LOG}/bodies/${ID}-0123456789ab.json`,
    `logs/${LOG}/archives/0000000007-${ID}.ndjson.zst`,
    `logs/${LOG}/archives/4294967296-${ID.slice(32)}.ndjson.zst`,
    `condemned/${LOG.toUpperCase()}`,
    'condemned/',
    `logs/${LOG}/roots/${ID}`,
    `logs/${LOG}/roots/7-9-${ID}`,
    `logs/${LOG}/roots/0000000007-4294967296-${ID}`,
    `logs/${LOG}/roots/0000000007-0000000009`,
    `logs/${LOG}/progress/0000000007-0000000009-${ID}`,
    `logs/${LOG}/progress/0000000007-0000000009-1-0000000007-4294967296-${ID}`,
    `logs/${LOG}/progress/0000000007-0000000009-01-0000000007-0000000001-${ID}`,
    `logs/${LOG}/progress/0000000007-0000000009-9007199254740992-0000000007-0000000001-${ID}`,
    `logs/${LOG}/stopped.json/`,
    `logs/${LOG}/stopped`,
    `logs/${LOG}/archives/${ID}`,
    `logs/${LOG.toUpperCase()}/stopped.json`,
    'logs/not-a-uuid/stopped.json',
    'logs/ffffffffffffffffffffffffffffffffffff/stopped.json',
    `prefix/logs/${LOG}/stopped.json`,
    `/logs/${LOG}/stopped.json`,
    `logs/${LOG}/stopped.json\n`,
  ])('%j is a foreign key', (text) => {
    expect(parseKey(text)).toBeUndefined();
  });

  test('ids and numbers of the wrong form are refused', () => {
    expect(() => chunkKey(LOG, 'abc')).toThrow(BlobKeyInvalidError);
    expect(() => bodyKey(LOG, `${ID}/..`, '0123456789ab')).toThrow(BlobKeyInvalidError);
    expect(() => archiveKey(LOG, 0, '../x')).toThrow(BlobKeyInvalidError);
    expect(() => archiveKey(LOG, -1, ID.slice(32))).toThrow(BlobKeyInvalidError);
    expect(() => rootKey(LOG, { segment: -1, entry: 0 }, ID)).toThrow(BlobKeyInvalidError);
    expect(() => rootKey(LOG, { segment: 0, entry: 0.5 }, ID)).toThrow(BlobKeyInvalidError);
    expect(() => rootKey(LOG, { segment: MAX_NUMBER + 1, entry: 0 }, ID)).toThrow(BlobKeyInvalidError);
  });
});
