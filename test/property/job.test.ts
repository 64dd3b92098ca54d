import fc from 'fast-check';
import { MAX, NIL } from 'uuid';
import { describe, expect, test } from 'vitest';
import { MessageInvalidError, MessageNewerError } from '../../src/errors.ts';
import { isUuid, type LogId, parseLogId, textLogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import {
  continuationDeduplicationId,
  decodeJob,
  dueDeduplicationId,
  encodeJob,
  type Job,
  jobMessage,
  MAX_ARCHIVE_PARTS,
  streamDeduplicationId,
  sweepDeduplicationId,
} from '../../src/workers/jobs/job.ts';
import { anyLogs } from '../support/log-ids.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** At most 128 characters of those that SQS allows in the ids of groups and of deduplication. */
const SQS_ID = /^[a-zA-Z0-9!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]{1,128}$/;
/** The characters of a message that SQS replaces. */
const NOT_IN_SQS = /[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;
const LOG = parseLogId('0190b5a0-7e1c-7000-8000-0123456789ab');
const numbers = fc.integer({ min: 0, max: MAX_NUMBER });
const place = {
  log: fc.oneof(anyLogs, fc.constantFrom(NIL, MAX).map(parseLogId)),
  position: fc.record({ segment: numbers, entry: numbers }),
};
const counts = fc.option(fc.integer({ min: 1, max: 1_000_000 }), { nil: undefined });
const hex = (digits: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: digits, maxLength: digits });
const part = fc.record({ upload: hex(32), hash: hex(64), to: fc.integer({ min: 1, max: MAX_NUMBER + 1 }) });
const parts = fc.option(fc.array(part, { minLength: 1, maxLength: 3 }), { nil: undefined });
const jobs: fc.Arbitrary<Job> = fc.oneof(
  fc.record({
    ...place,
    kind: fc.constant('snapshot'),
    continuation: counts,
    force: fc.constantFrom(undefined, true as const),
  }),
  fc.record({ ...place, kind: fc.constant('flush'), continuation: counts }),
  fc.record({ log: place.log, segment: numbers, kind: fc.constant('archive'), continuation: counts, parts }),
  fc.record({ log: place.log, segment: numbers, kind: fc.constant('expire'), from: counts, announced: counts }),
  fc.record({ log: place.log, kind: fc.constant('collect'), continuation: counts }),
  fc.record({ log: place.log, kind: fc.constant('divide') }),
  fc.record({
    log: place.log,
    kind: fc.constant('rebuild'),
    after: fc.option(place.position, { nil: undefined }),
    continuation: counts,
  }),
);
const PART = { upload: 'a'.repeat(32), hash: 'b'.repeat(64), to: 3 };
const GOOD = { format: 2, kind: 'snapshot', log: LOG, position: { segment: 1, entry: 2 } };

/** The message of a job as earlier releases wrote it. */
function inFormat1(job: Job): string {
  const { kind, log, ...rest } = job;
  const names = new Map([
    ['continuation', 'turn'],
    ['force', 'again'],
  ]);
  const fields = Object.entries(rest).flatMap(([name, value]): [string, unknown][] =>
    name === 'position' ? Object.entries(value) : [[names.get(name) ?? name, value]],
  );
  const fixed = { format: 1, kind: kind === 'flush' ? 'compact' : kind, log };
  return JSON.stringify({ ...fixed, ...Object.fromEntries(fields) });
}

describe('a job in a message', () => {
  test('each kind of job has this message', () => {
    const text = encodeJob({ kind: 'snapshot', log: LOG, position: { segment: 1, entry: 2 } });
    expect(JSON.parse(text)).toEqual(GOOD);
    const position = { segment: 1, entry: 2 };
    const continued = encodeJob({ kind: 'snapshot', log: LOG, position, continuation: 3, force: true });
    expect(JSON.parse(continued)).toEqual({ ...GOOD, continuation: 3, force: true });
    const flush = encodeJob({ kind: 'flush', log: LOG, position, continuation: 3 });
    expect(JSON.parse(flush)).toEqual({ ...GOOD, kind: 'flush', continuation: 3 });
    const archive = encodeJob({ kind: 'archive', log: LOG, segment: 1 });
    expect(JSON.parse(archive)).toEqual({ format: 2, kind: 'archive', log: LOG, segment: 1 });
    const rebuild = encodeJob({ kind: 'rebuild', log: LOG, after: { segment: 1, entry: 2 } });
    expect(JSON.parse(rebuild)).toEqual({ format: 2, kind: 'rebuild', log: LOG, after: { segment: 1, entry: 2 } });
    expect(JSON.parse(encodeJob({ kind: 'collect', log: LOG }))).toEqual({ format: 2, kind: 'collect', log: LOG });
    expect(JSON.parse(encodeJob({ kind: 'divide', log: LOG }))).toEqual({ format: 2, kind: 'divide', log: LOG });
  });

  test('an archive job with the most parts fits into an SQS message', () => {
    const job = { kind: 'archive' as const, log: LOG, segment: MAX_NUMBER, continuation: 1_000_000 };
    const parts = Array.from({ length: MAX_ARCHIVE_PARTS }, () => ({ ...PART, to: MAX_NUMBER + 1 }));
    const text = encodeJob({ ...job, parts });
    expect(decodeJob(text)).toEqual({ ...job, parts });
    expect(text.length).toBeLessThan(128 * 1024);
    expect(() => decodeJob(encodeJob({ ...job, parts: [...parts, PART] }))).toThrow('parts');
  });

  test('every job is read back', () => {
    fc.assert(
      fc.property(jobs, (job) => {
        expect(decodeJob(encodeJob(job))).toEqual(job);
      }),
    );
  });

  test('every job of format 1 is read', () => {
    fc.assert(
      fc.property(jobs, (job) => {
        expect(decodeJob(inFormat1(job))).toEqual(job);
      }),
    );
    const job = { kind: 'flush', log: LOG, position: { segment: 1, entry: 2 }, continuation: 3 } as const;
    expect(inFormat1(job)).toBe(`{"format":1,"kind":"compact","log":"${LOG}","segment":1,"entry":2,"turn":3}`);
  });

  test('SQS takes the message of every job unchanged', () => {
    fc.assert(
      fc.property(jobs, fc.uuid(), (job, run) => {
        const place = { segment: MAX_NUMBER, entry: MAX_NUMBER };
        for (const deduplicationId of [
          dueDeduplicationId(job),
          sweepDeduplicationId(run, job),
          continuationDeduplicationId(job, place),
          ...(job.kind === 'snapshot' ? [streamDeduplicationId(job)] : []),
        ]) {
          const message = jobMessage(job, deduplicationId);
          expect(message.group).toMatch(SQS_ID);
          expect(message.deduplicationId).toMatch(SQS_ID);
          expect(message.body).not.toMatch(NOT_IN_SQS);
        }
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('the group of a log is its UUID, or distinguishes it from other logs', () => {
    fc.assert(
      fc.property(anyLogs, anyLogs, (a, b) => {
        const group = (log: LogId) => jobMessage({ kind: 'collect', log }, 'id').group;
        expect(group(a) === group(b)).toBe(a === b);
        if (isUuid(a)) expect(group(a)).toBe(a);
      }),
    );
    expect(jobMessage({ kind: 'collect', log: textLogId('order-17') }, 'id').group).toBe('~order-17');
  });

  test('any text is a job or is refused with the right error', () => {
    const texts = fc.oneof(fc.string(), fc.json(), jobs.map(encodeJob));
    fc.assert(
      fc.property(texts, (text) => {
        try {
          expect(decodeJob(encodeJob(decodeJob(text)))).toEqual(decodeJob(text));
        } catch (error) {
          expect([MessageInvalidError, MessageNewerError]).toContain(Object(error).constructor);
        }
      }),
    );
  });

  test.each([
    ['', 'not JSON'],
    ['{"format":1', 'not JSON'],
    ['null', 'does not come from logfold'],
    ['[]', 'does not come from logfold'],
    ['{"Records":[]}', 'does not come from logfold'],
    [JSON.stringify({ ...GOOD, format: '1' }), 'does not come from logfold'],
    [JSON.stringify({ ...GOOD, format: 1, kind: 'compact', turn: 0 }), 'continuation'],
    [JSON.stringify({ format: 1, kind: 'snapshot', log: LOG, segment: 1 }), 'position'],
    [JSON.stringify({ ...GOOD, kind: 7 }), 'kind'],
    [JSON.stringify({ ...GOOD, kind: undefined }), 'kind'],
    [JSON.stringify({ ...GOOD, log: '' }), 'log'],
    [JSON.stringify({ ...GOOD, log: 'x'.repeat(2001) }), 'log'],
    [JSON.stringify({ ...GOOD, log: 'half \ud800' }), 'log'],
    [JSON.stringify({ ...GOOD, position: undefined }), 'position'],
    [JSON.stringify({ ...GOOD, position: { segment: -1, entry: 2 } }), 'segment'],
    [JSON.stringify({ ...GOOD, position: { segment: 1, entry: 1.5 } }), 'entry'],
    [JSON.stringify({ ...GOOD, position: { segment: 1, entry: MAX_NUMBER + 1 } }), 'entry'],
    [JSON.stringify({ ...GOOD, position: { segment: 1 } }), 'entry'],
    [JSON.stringify({ ...GOOD, continuation: 0 }), 'continuation'],
    [JSON.stringify({ ...GOOD, kind: 'flush', continuation: 0 }), 'continuation'],
    [JSON.stringify({ format: 2, kind: 'archive', log: LOG, segment: 1, continuation: 0 }), 'continuation'],
    [JSON.stringify({ format: 2, kind: 'archive', log: LOG, segment: 1, parts: [] }), 'parts'],
    [JSON.stringify({ format: 2, kind: 'archive', log: LOG, segment: 1, parts: [{ ...PART, to: 0 }] }), 'to'],
    [
      JSON.stringify({ format: 2, kind: 'archive', log: LOG, segment: 1, parts: [{ ...PART, upload: '../x' }] }),
      'upload',
    ],
    [JSON.stringify({ ...GOOD, force: false }), 'force'],
    [JSON.stringify({ format: 2, kind: 'expire', log: LOG, segment: 1, from: 0 }), 'from'],
    [JSON.stringify({ format: 2, kind: 'rebuild', log: LOG, after: 3 }), 'after'],
  ])('%s is refused', (text, reason) => {
    expect(() => decodeJob(text)).toThrow(MessageInvalidError);
    expect(() => decodeJob(text)).toThrow(reason);
  });

  test.each([
    [JSON.stringify({ ...GOOD, format: 3 }), 'format 3, and this version reads up to 2'],
    [JSON.stringify({ format: 7, kind: 'unheard of' }), 'format 7'],
    [JSON.stringify({ ...GOOD, kind: 'polish' }), "kind 'polish'"],
    [JSON.stringify({ ...GOOD, kind: 'toString' }), "kind 'toString'"],
  ])('%s belongs to a newer version', (text, reason) => {
    expect(() => decodeJob(text)).toThrow(MessageNewerError);
    expect(() => decodeJob(text)).toThrow(reason);
  });
});
