import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LogIdInvalidError } from '../../src/errors.ts';
import {
  decodeSegmentId,
  encodeSegmentId,
  type LogId,
  logIdBytes,
  logIdFromBytes,
  MAX_LOG_ID_BYTES,
  parseLogId,
  textLogId,
} from '../../src/ids/log-id.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import { anyLogs, textLogs, uuidLogs } from '../support/log-ids.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** The longest partition key that DynamoDB takes, in bytes. */
const MAX_PARTITION_KEY = 2048;

const segments = fc.oneof(
  fc.integer({ min: 0, max: MAX_NUMBER }),
  fc.constantFrom(0, 1, MAX_NUMBER, 0xffff_ff00, 0x6161_6161),
);
const numRuns = propertyRuns(1000);
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** Pairs of ids. The second often continues the first as the number of a segment would. */
const pairs = fc.oneof(
  fc.tuple(anyLogs, anyLogs),
  fc
    .tuple(anyLogs, fc.constantFrom('\0\0\0\0', '\0\0\0\x01', 'aaaa', '\0', '\x01', 'ÿ', '\uffff'))
    .map(([log, letters]): [LogId, LogId] => [log, textLogId(`${log.slice(0, 500)}${letters}`)]),
);

describe('chosen ids', () => {
  test('an id that is accepted is a UUID in lower case, or stays as it is and is not taken for a UUID', () => {
    const cased = anyLogs.map((log) => log.toUpperCase());
    const fromWords = fc.constantFrom('feed', '', ' ', '\0', '\ud800', '00000000-0000-9000-0000-000000000000', 'FEED');
    fc.assert(
      fc.property(fc.oneof(anyLogs, cased, fromWords), (text) => {
        const parsed = accepted(text);
        if (parsed === undefined) return;
        expect(accepted(parsed)).toBe(parsed);
        const bytes = logIdBytes(parsed);
        expect(logIdFromBytes(bytes)).toBe(parsed);
        if (parsed === text) return;
        expect(bytes).toHaveLength(16);
        expect(parsed).toBe(text.toLowerCase());
      }),
      { numRuns },
    );
  });

  test.each(['feed', '', '\ud800', 'x'.repeat(257), 'ä'.repeat(129), '0192F7A0-5b1c-0000-0000-2a3b4c5d6e7f'])(
    'no log has the id %j',
    (text) => expect(accepted(text)).toBeUndefined(),
  );

  test.each(['org-7/budget', '../..', 'Feed', '-x', 'a\0b', '__proto__', 'x'.repeat(256), 'é', 'e\u0301', '~', '=2f'])(
    'a log may have the id %j',
    (text) => expect(accepted(text)).toBe(text),
  );
});

/** The id that a text is read as; undefined if it is refused. */
function accepted(text: string): LogId | undefined {
  try {
    return parseLogId(text);
  } catch (error) {
    expect(error).toBeInstanceOf(LogIdInvalidError);
    return undefined;
  }
}

describe('log ids', () => {
  test('the bytes of an id give the id back', () => {
    fc.assert(
      fc.property(anyLogs, (log) => {
        expect(logIdFromBytes(logIdBytes(log))).toBe(log);
      }),
      { numRuns },
    );
  });

  test('two ids have different bytes', () => {
    fc.assert(
      fc.property(pairs, ([a, b]) => {
        expect(hex(logIdBytes(a)) === hex(logIdBytes(b))).toBe(a === b);
      }),
      { numRuns },
    );
  });

  test('bytes that are read as an id are the bytes of that id', () => {
    const tail = fc.constantFrom([], [0xff], [0xff, 0xff, 0xff, 0xff], [0, 0, 0, 1], [0xfe]);
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 30 }),
      fc.tuple(anyLogs, tail).map(([log, more]) => Uint8Array.of(...logIdBytes(log), ...more)),
      fc.tuple(anyLogs, tail).map(([log, more]) => Uint8Array.of(...Buffer.from(log), ...more)),
    );
    fc.assert(
      fc.property(bytes, (given) => {
        let log: LogId | undefined;
        try {
          log = logIdFromBytes(given);
        } catch (error) {
          expect(error).toBeInstanceOf(LogIdInvalidError);
        }
        if (log !== undefined) expect(hex(logIdBytes(log))).toBe(hex(given));
      }),
      { numRuns },
    );
  });

  test('only a UUID in lower case takes 16 bytes', () => {
    fc.assert(
      fc.property(uuidLogs, textLogs, (uuid, text) => {
        expect(logIdBytes(uuid)).toHaveLength(16);
        expect(logIdBytes(text).length).toBeGreaterThan(20);
      }),
      { numRuns },
    );
  });

  test('a UUID in upper case is another id than the same in lower case, unless a user types it', () => {
    fc.assert(
      fc.property(
        uuidLogs.filter((log) => log !== log.toUpperCase()),
        (log) => {
          const upper = log.toUpperCase();
          expect(textLogId(upper)).toBe(upper);
          expect(parseLogId(upper)).toBe(log);
          expect(hex(logIdBytes(textLogId(upper)))).not.toBe(hex(logIdBytes(log)));
        },
      ),
    );
  });

  test.each([
    ['the empty text', ''],
    ['a lone surrogate', 'order \ud800'],
    ['2,001 letters', 'x'.repeat(MAX_LOG_ID_BYTES + 1)],
    ['1,001 letters of two bytes', 'ä'.repeat(1001)],
  ])('%s is not an id', (_, text) => {
    expect(() => textLogId(text)).toThrow(LogIdInvalidError);
  });

  test.each([
    ['no bytes', []],
    ['a byte order mark without an end', [0xef, 0xbb, 0xbf]],
    ['padding alone', Array.from({ length: 21 }, () => 0xff)],
    ['text without padding', [...Buffer.from('a text of more than 21 bytes')]],
    ['too little padding', [...Buffer.from('short'), 0xff]],
    ['too much padding', [...Buffer.from('a text of more than 21 bytes'), 0xff, 0xff]],
    ['half a character', [...Buffer.from('a text of more than 21 bytes'), 0xc3, 0xff]],
    ['the text of a UUID', [...Buffer.from('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f'), 0xff]],
    ['text of 2,001 bytes', [...Buffer.from('x'.repeat(2001)), 0xff]],
    ['text that is followed by more text', [...Buffer.from('a text of more than 21 bytes'), 0xff, 0x61]],
  ])('%s are not the bytes of an id', (_, bytes) => {
    expect(() => logIdFromBytes(Uint8Array.from(bytes))).toThrow(LogIdInvalidError);
  });

  test('a byte order mark is an ordinary character of an id', () => {
    const log = textLogId('\ufefforder');
    expect(logIdFromBytes(logIdBytes(log))).toBe(log);
  });
});

describe('segment ids', () => {
  test('a segment id gives the log and the segment back, also from the middle of a buffer', () => {
    fc.assert(
      fc.property(anyLogs, segments, fc.nat({ max: 9 }), (log, segment, before) => {
        const id = encodeSegmentId(log, segment);
        const within = new Uint8Array(before + id.length + 3);
        within.set(id, before);
        expect(decodeSegmentId(within.subarray(before, before + id.length))).toEqual({ log, segment });
      }),
      { numRuns },
    );
  });

  test('two segments have different ids, and none is the bytes of a log id', () => {
    fc.assert(
      fc.property(pairs, segments, segments, ([a, b], i, j) => {
        const one = hex(encodeSegmentId(a, i));
        expect(one === hex(encodeSegmentId(b, j))).toBe(a === b && i === j);
        for (const log of [a, b]) expect(one).not.toBe(hex(logIdBytes(log)));
        expect(() => logIdFromBytes(encodeSegmentId(a, i))).toThrow(LogIdInvalidError);
        expect(() => decodeSegmentId(logIdBytes(a))).toThrow(LogIdInvalidError);
      }),
      { numRuns },
    );
  });

  test('20 bytes are the segment id of a UUID, and every id fits into a partition key', () => {
    fc.assert(
      fc.property(uuidLogs, textLogs, segments, (uuid, text, segment) => {
        expect(encodeSegmentId(uuid, segment)).toHaveLength(20);
        expect(encodeSegmentId(text, segment).length).toBeGreaterThan(20);
        expect(encodeSegmentId(text, segment).length).toBeLessThanOrEqual(MAX_PARTITION_KEY);
      }),
      { numRuns },
    );
  });
});
