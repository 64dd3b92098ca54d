import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatUploadName, newUpload } from '../../src/adapters/filesystem/blob-store.ts';
import { BlobKeyInvalidError } from '../../src/errors.ts';
import { type LogId, parseLogId, textLogId } from '../../src/ids/log-id.ts';
import { comparePositions, MAX_NUMBER } from '../../src/ids/position.ts';
import {
  archiveKey,
  archivePrefix,
  bodyKey,
  bodyPrefix,
  checkBlobKey,
  chunkKey,
  chunkPrefix,
  collectedKey,
  condemnedKey,
  listedIdKey,
  listedIdPrefix,
  logName,
  logOfName,
  logPrefix,
  type ParsedKey,
  parseKey,
  parseListedId,
  parseLogName,
  progressKey,
  progressPrefix,
  rootKey,
  rootPrefix,
  stopKey,
} from '../../src/store/keys.ts';
import { anyLogs, textLogs, uuidLogs } from '../support/log-ids.ts';
import { propertyRuns } from '../support/property-runs.ts';

const LOG = parseLogId('0190b5a0-7e1c-7000-8000-0123456789ab');
const ID = '0123456789abcdef'.repeat(4);
/** Bytes of UTF-8. */
const [MAX_S3_KEY, MAX_FILE_NAME] = [1024, 255];

const ids = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const uploads = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((random) => Buffer.from(random).toString('hex'));
const numbers = fc.oneof(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 0, max: MAX_NUMBER }));
const positions = fc.record({ segment: numbers, entry: numbers });
const times = fc.maxSafeNat();

/** The meaning of a key, with the id of the log instead of its name. */
type Meaning = ParsedKey extends infer K
  ? K extends ParsedKey
    ? Omit<K, 'name'> & { readonly log: LogId }
    : never
  : never;

function meanings(logs: fc.Arbitrary<LogId>): fc.Arbitrary<Meaning> {
  return fc.oneof(
    fc.record({ kind: fc.constant('chunk'), log: logs, id: ids }),
    fc.record({ kind: fc.constant('body'), log: logs, id: ids, upload: uploads(6) }),
    fc.record({ kind: fc.constant('archive'), log: logs, segment: numbers, upload: uploads(16) }),
    fc.record({ kind: fc.constantFrom('condemned', 'collected', 'stop'), log: logs }),
    fc.record({ kind: fc.constant('root'), log: logs, position: positions, id: ids }),
    fc.record({
      kind: fc.constant('progress'),
      log: logs,
      target: positions,
      targetCreated: times,
      reached: positions,
      id: ids,
    }),
  );
}

function keyOf(meaning: Meaning): string {
  const { log } = meaning;
  switch (meaning.kind) {
    case 'chunk':
      return chunkKey(log, meaning.id);
    case 'root':
      return rootKey(log, meaning.position, meaning.id);
    case 'progress':
      return progressKey(log, meaning);
    case 'body':
      return bodyKey(log, meaning.id, meaning.upload);
    case 'archive':
      return archiveKey(log, meaning.segment, meaning.upload);
    case 'stop':
      return stopKey(log);
    case 'collected':
      return collectedKey(log);
    case 'condemned':
      return condemnedKey(log);
  }
}

describe('keys of the bucket', () => {
  test('each kind of object has this key', () => {
    expect(chunkKey(LOG, ID)).toBe(`logs/${LOG}/chunks/${ID}`);
    expect(rootKey(LOG, { segment: 7, entry: MAX_NUMBER }, ID)).toBe(`logs/${LOG}/roots/0000000007-4294967295-${ID}`);
    expect(
      progressKey(LOG, {
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

  test('every key parses to its parts, and names its log', () => {
    fc.assert(
      fc.property(meanings(anyLogs), (meaning) => {
        const text = keyOf(meaning);
        const { log, ...rest } = meaning;
        expect(parseKey(text)).toEqual({ ...rest, name: logName(log) });
        expect(checkBlobKey(text)).toBe(text);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('a text parses only if it is the key of its parts', () => {
    const mutated = fc
      .tuple(meanings(anyLogs).map(keyOf), fc.nat(), fc.string({ minLength: 0, maxLength: 3 }), fc.nat({ max: 3 }))
      .map(([text, at, insert, remove]) => {
        const start = at % text.length;
        return text.slice(0, start) + insert + text.slice(start + remove);
      });
    fc.assert(
      fc.property(fc.oneof(mutated, fc.string()), (text) => {
        const parsed = parseKey(text);
        if (parsed === undefined) return;
        const { name, ...rest } = parsed;
        // A name that is a hash does not show the id. Another log with the same other parts has
        // the rest of the key.
        const log = logOfName(name) ?? LOG;
        expect(keyOf({ ...rest, log }).replace(logName(log), name)).toBe(text);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('the keys of a log with a UUID have not changed', () => {
    fc.assert(
      fc.property(meanings(uuidLogs), (meaning) => {
        const text = keyOf(meaning);
        const start = meaning.kind === 'condemned' ? `condemned/${meaning.log}` : `logs/${meaning.log}/`;
        expect(text.startsWith(start)).toBe(true);
        expect(logOfName(logName(meaning.log))).toBe(meaning.log);
      }),
    );
  });

  test('every store can hold the keys of every log', () => {
    fc.assert(
      fc.property(meanings(anyLogs), (meaning) => {
        const text = keyOf(meaning);
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_S3_KEY);
        for (const part of text.split('/')) expect(Buffer.byteLength(part)).toBeLessThanOrEqual(MAX_FILE_NAME);
        for (const part of formatUploadName(newUpload(text)).split('/')) {
          expect(Buffer.byteLength(part)).toBeLessThanOrEqual(MAX_FILE_NAME);
        }
        // A URL that contains the key unchanged means this key.
        expect(new URL(`https://bucket.example/${text}`).pathname).toBe(`/${text}`);
        expect(decodeURIComponent(text)).toBe(text);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('progress lists by the snapshot of its build', () => {
    fc.assert(
      fc.property(positions, times, positions, positions, (target, targetCreated, reached, other) => {
        const key = progressKey(LOG, { target, targetCreated, reached, id: ID });
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

describe('names of logs in keys', () => {
  test.each([
    ['0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f', '0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f'],
    ['0192F7A0-5B1C-7D3E-8F10-2A3B4C5D6E7F', '~0192=467=410-5=421=43-7=443=45-8=4610-2=413=424=435=446=457=46'],
    ['order-123', '~order-123'],
    ['order#123', '~order=23123'],
    ['Order_1', '~=4frder_1'],
    ['.', '~=2e'],
    ['..', '~=2e=2e'],
    ['a/b', '~a=2fb'],
    ['~', '~=7e'],
    ['=2f', '~=3d2f'],
    ['%2f', '~=252f'],
    ['é', '~=c3=a9'],
    ["(it's 5*6!)", '~=28it=27s=205=2a6=21=29'],
    ['x'.repeat(199), `~${'x'.repeat(199)}`],
    ['x'.repeat(200), `~~${createHash('sha256').update('x'.repeat(200)).digest('hex')}`],
    ['É'.repeat(40), `~~${createHash('sha256').update('É'.repeat(40)).digest('hex')}`],
  ])('the name of %s is %s', (log, name) => {
    expect(logName(textLogId(log))).toBe(name);
  });

  test('two logs have different names, also where upper case does not count', () => {
    fc.assert(
      fc.property(anyLogs, anyLogs, fc.nat(), (a, b, at) => {
        const [flipped] = [...a].slice(at % [...a].length);
        const other = textLogId(a.replace(flipped ?? '', flipped?.toUpperCase() ?? ''));
        for (const log of [b, other]) {
          expect(logName(a).toLowerCase() === logName(log).toLowerCase()).toBe(a === log);
        }
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('a name shows the id unless it is a hash, and only long ids have such names', () => {
    fc.assert(
      fc.property(textLogs, (log) => {
        const name = logName(log);
        expect(parseLogName(name)).toBe(name);
        expect(logOfName(name)).toBe(name.startsWith('~~') ? undefined : log);
        if (Buffer.byteLength(log) * 3 < 200) expect(name.startsWith('~~')).toBe(false);
        expect(name).toMatch(/^~~?[0-9a-z_=-]+$/);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test.each([
    '',
    '~',
    'order',
    '~Order',
    '~a.b',
    '~a/b',
    '~=4F',
    '~=6f',
    '~=2',
    '~=ff',
    '~=ed=a0=80',
    '~=c0=80',
    '~0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f',
    LOG.toUpperCase(),
    `~${'x'.repeat(200)}`,
    `~~${ID.slice(1)}`,
    `~~${ID.toUpperCase()}`,
    `~~~${ID}`,
  ])("'%s' is not a name", (text) => {
    expect(parseLogName(text)).toBeUndefined();
  });
});

describe('the keys of chosen ids', () => {
  /** Ids that logs may have, many of them with common beginnings and lengths near a part. */
  const chosen = fc
    .oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }),
      fc.tuple(
        fc.constantFrom('a', 'ä', '/', '\0', 'Z'),
        fc.integer({ min: 1, max: 250 }),
        fc.string({ maxLength: 5 }),
      ),
      fc.constantFrom('..', '.', '/', 'org-7/', 'org-7', 'org-7/a', 'org-70', '\uffff', '\u{10000}', '.id'),
    )
    .map((made) => (typeof made === 'string' ? made : `${made[0].repeat(made[1])}${made[2]}`))
    .filter((text) => isChosen(text));

  function isChosen(text: string): boolean {
    try {
      return parseLogId(text) === text && text !== text.toLowerCase().match(/^[0-9a-f-]{36}$/)?.[0];
    } catch {
      return false;
    }
  }

  const bytewise = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

  test('they give the ids back, have their order, and fit every store', () => {
    fc.assert(
      fc.property(fc.tuple(chosen, chosen), ([a, b]) => {
        const [first, second] = [listedIdKey(textLogId(a)), listedIdKey(textLogId(b))];
        expect(parseListedId(first)).toBe(a);
        expect(Math.sign(bytewise(first, second))).toBe(Math.sign(bytewise(a, b)));
        expect(checkBlobKey(first)).toBe(first);
        expect(Math.max(...first.split('/').map((part) => part.length))).toBeLessThan(MAX_FILE_NAME);
        // A file is not a folder.
        expect(second.startsWith(`${first}/`)).toBe(false);
        expect(parseKey(first)).toBeUndefined();
      }),
      { numRuns: propertyRuns(2000) },
    );
  });

  test('a text is the beginning of an id exactly if its prefix is that of the key', () => {
    const beginnings = chosen.chain((id) => fc.tuple(fc.constant(id), fc.nat({ max: id.length })));
    fc.assert(
      fc.property(beginnings, chosen, ([id, length], other) => {
        const prefix = id.slice(0, length);
        if (!prefix.isWellFormed()) return;
        for (const of of [id, other]) {
          expect(listedIdKey(textLogId(of)).startsWith(listedIdPrefix(prefix))).toBe(of.startsWith(prefix));
        }
      }),
      { numRuns: propertyRuns(2000) },
    );
  });

  test.each([
    'ids/',
    'ids/61',
    'ids/.id',
    'ids/6.id',
    'ids/6G.id',
    'ids/FF.id',
    'ids/ff.id',
    'ids/61/62.id',
    'ids//61.id',
  ])('no id has the key %j', (key) => expect(parseListedId(key)).toBeUndefined());
});
