import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BodyInvalidError, CheckpointInvalidError, TooLargeError } from '../../src/errors.ts';
import { checkpointOf, positionOfCheckpoint } from '../../src/feed/checkpoint.ts';
import { appendsEntry, groupSpans, RESTART, readSpans, type Span } from '../../src/feed/feed-entry.ts';
import { FEED_DIVISION, FEED_LOG, feedOr } from '../../src/feed/feed-log.ts';
import { fedPosition, feedReducer, restartPosition } from '../../src/feed/feed-reducer.ts';
import { type LogId, MAX_LOG_ID_BYTES, textLogId } from '../../src/ids/log-id.ts';
import { comparePositions, type Position } from '../../src/ids/position.ts';
import { EXTERNAL_BODY_BYTES, encodeBody } from '../../src/log/body.ts';
import type { NewEntry } from '../../src/log/new-entry.ts';
import { Draft } from '../../src/state/draft.ts';
import type { FoldEntry } from '../../src/state/reducer.ts';
import { nodeStore } from '../support/chunks.ts';
import { numberedLog } from '../support/feed.ts';
import { LOG } from '../support/logs.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { propertyRuns } from '../support/property-runs.ts';

const at = (segment: number, entry: number): Position => ({ segment, entry });
const LAST = at(2 ** 32 - 1, 2 ** 20 - 1);
const [log, other] = [numberedLog(1), numberedLog(2)];

describe('a checkpoint', () => {
  test('is a number that orders as positions do', { tags: ['I10'] }, () => {
    const positions = [at(0, 0), at(0, 1), at(0, 2 ** 20 - 1), at(1, 0), at(1, 9), LAST];
    const checkpoints = positions.map(checkpointOf);
    expect(checkpoints).toEqual([0, 1, 1_048_575, 1_048_576, 1_048_585, 2 ** 52 - 1]);
    expect(checkpoints.map(positionOfCheckpoint)).toEqual(positions);
  });

  test('continues with the next epoch after the last number of an epoch', () => {
    for (const entry of [2 ** 20, 2 ** 20 + 1, 2 ** 32 - 1]) {
      expect(positionOfCheckpoint(checkpointOf(at(3, entry)))).toEqual(at(4, 0));
    }
  });

  test.each([-1, 0.5, Number.NaN, 2 ** 52, Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY])('is not %d', (given) => {
    expect(() => positionOfCheckpoint(given)).toThrow(CheckpointInvalidError);
  });
});

describe('an entry of the feed', () => {
  test('keeps its spans', () => {
    const number = fc.nat({ max: 2 ** 32 - 1 });
    const position = fc.record({ segment: number, entry: number });
    const ids = fc.oneof(fc.nat().map(numberedLog), fc.string({ minLength: 1 }).map(textLogId));
    const spans = fc.array(
      fc.record({ log: ids, after: fc.option(position, { nil: undefined }), to: position }).filter(isForward),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(spans, (given) => {
        expect(readSpans(appendsEntry(given).body ?? null)).toEqual(given);
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test('stays in the table, however long the ids of its logs are', () => {
    const longId = (i: number): LogId => textLogId(`${i}`.padStart(MAX_LOG_ID_BYTES, 'x'));
    for (const idOf of [numberedLog, longId]) {
      const spans = Array.from({ length: 1_000 }, (_, i) => ({ log: idOf(i), after: at(LAST.segment, 0), to: LAST }));
      const groups = groupSpans(spans);
      expect(groups.flat()).toEqual(spans);
      for (const group of groups) {
        expect(encodeBody(appendsEntry(group).body ?? null).length).toBeLessThanOrEqual(EXTERNAL_BODY_BYTES);
      }
    }
  });

  test.each([
    ['no list', {}],
    ['a span that is not a list', { spans: [1] }],
    ['a log id of another length', { spans: [[Uint8Array.of(1), 0, 1]] }],
    ['a text as the log id', { spans: [['a', 0, 1]] }],
    ['half a position', { spans: [[new Uint8Array(16), 0, 1, 0]] }],
    ['a negative number', { spans: [[new Uint8Array(16), 0, -1]] }],
    ['a fraction', { spans: [[new Uint8Array(16), 0, 0.5]] }],
    ['an end before its beginning', { spans: [[new Uint8Array(16), 0, 1, 0, 2]] }],
    ['no entry', { spans: [[new Uint8Array(16), 0, 1, 0, 1]] }],
  ])('with %s cannot be read', (_fault, body) => {
    expect(() => readSpans(body)).toThrow(BodyInvalidError);
  });
});

describe('the reducer of the feed', () => {
  test('knows how far each log is fed', async () => {
    const draft = await folded(
      [span(log, undefined, at(0, 3)), span(other, undefined, at(1, 0))],
      [span(log, at(0, 3), at(2, 1))],
    );
    expect(await fedPosition(draft, log)).toEqual(at(2, 1));
    expect(await fedPosition(draft, other)).toEqual(at(1, 0));
    expect(await fedPosition(draft, numberedLog(3))).toBeUndefined();
  });

  test('tells apart ids that are longer than a key', async () => {
    const ids = ['a', 'b'].map((end) => textLogId(`${'x'.repeat(MAX_LOG_ID_BYTES - 1)}${end}`));
    const draft = await folded(ids.map((id, i) => span(id, undefined, at(i, i))));
    expect(await Promise.all(ids.map((id) => fedPosition(draft, id)))).toEqual([at(0, 0), at(1, 1)]);
  });

  test('knows an id with a character at the place where its key is cut', async () => {
    const id = textLogId(`${'x'.repeat(959)}\u{1f600}`);
    expect(await fedPosition(await folded([span(id, undefined, at(0, 3))]), id)).toEqual(at(0, 3));
  });

  test('forgets every log at a restart', { tags: ['I10'] }, async () => {
    const ids = [log, textLogId('\uffff'.repeat(600)), textLogId('\u{10ffff}'.repeat(500)), textLogId('\0')];
    const draft = await folded(ids.map((id) => span(id, undefined, at(0, 3))));
    expect(restartPosition(draft)).toBeUndefined();
    await feedReducer.fold(draft, entryOf(RESTART, at(0, 7)));
    expect(restartPosition(draft)).toEqual(at(0, 7));
    expect(await Promise.all(ids.map((id) => fedPosition(draft, id)))).toEqual(ids.map(() => undefined));
    expect(await draft.state()).toMatchObject({ maps: new Map() });
  });

  test.each([
    ['leaves a gap', span(log, at(0, 4), at(0, 5))],
    ['has entries twice', span(log, at(0, 2), at(0, 5))],
    ['begins a log again', span(log, undefined, at(0, 5))],
    ['continues a log that the feed does not have', span(other, at(0, 3), at(0, 5))],
  ])('refuses a new span that %s', async (_fault, given) => {
    const draft = await folded([span(log, undefined, at(0, 3))]);
    const entry = entryOf(appendsEntry([given]), at(0, 2));
    await expect(feedReducer.validate?.(entry, draft)).rejects.toThrow(/the feed has the log up to/);
  });

  test('accepts spans that continue', async () => {
    const draft = await folded([span(log, undefined, at(0, 3))]);
    const spans = [span(log, at(0, 3), at(0, 4)), span(other, undefined, at(1, 0)), span(log, at(0, 4), at(1, 0))];
    await expect(feedReducer.validate?.(entryOf(appendsEntry(spans), at(0, 2)), draft)).resolves.toBeUndefined();
    const twice = [span(other, undefined, at(1, 0)), span(other, undefined, at(1, 1))];
    await expect(feedReducer.validate?.(entryOf(appendsEntry(twice), at(0, 2)), draft)).rejects.toThrow(/up to 1\/0/);
  });

  test('refuses an entry after the last number of an epoch', { tags: ['I10'] }, async () => {
    const draft = await folded();
    const isValid = async (given: NewEntry, entry: number) =>
      feedReducer.validate?.(entryOf(given, at(5, entry)), draft);
    const appends = appendsEntry([span(log, undefined, at(0, 3))]);
    await expect(isValid(appends, 2 ** 20 - 1)).resolves.toBeUndefined();
    for (const given of [appends, RESTART]) await expect(isValid(given, 2 ** 20)).rejects.toThrow(TooLargeError);
  });
});

test('the feed has fixed settings, and every other log has those of the deployment', () => {
  const settings = { reducer: versionedSheet(1), division: undefined, scheduler: {}, queue: 'jobs' };
  expect(feedOr(log, settings)).toBe(settings);
  expect(feedOr(FEED_LOG, settings)).toEqual({
    reducer: feedReducer,
    division: FEED_DIVISION,
    scheduler: undefined,
    otherReducer: undefined,
    queue: 'jobs',
  });
});

function span(of: LogId, after: Position | undefined, to: Position): Span {
  return { log: of, after, to };
}

function isForward({ after, to }: Span): boolean {
  return after === undefined || comparePositions(after, to) < 0;
}

function entryOf({ type, version, body = null }: NewEntry, position: Position): FoldEntry {
  return { position, log: LOG, created: 1, createdMs: 1000, type, version, body };
}

/** A draft of the feed with these entries. */
async function folded(...entries: readonly (readonly Span[])[]): Promise<Draft> {
  const draft = new Draft(nodeStore());
  for (const [i, spans] of entries.entries()) await feedReducer.fold(draft, entryOf(appendsEntry(spans), at(0, i + 1)));
  return draft;
}
