import { describe, expect, test } from 'vitest';
import { PolicyInvalidError } from '../../src/errors.ts';
import type { Segment } from '../../src/log/segment.ts';
import {
  checkPolicy,
  DEFAULT_POLICY,
  dueSince,
  expiringUnarchived,
  isCovered,
  keepsSnapshot,
  planRetention,
  type RetentionPolicy,
} from '../../src/retention/retention-policy.ts';
import { LOG, NOON } from '../support/logs.ts';
import { expired, expiring, lastAt } from '../support/segments.ts';

const DAY = 24 * 3600;

/** Closes segment 0 on day 0, and every other one a day after the previous one. */
function segment(number: number, overrides: Partial<Segment> = {}): Segment {
  return {
    log: LOG,
    segment: number,
    created: NOON + (number - 1) * DAY,
    lastSnapshot: lastAt(number, 7),
    ...overrides,
  };
}

function policy(overrides: Partial<RetentionPolicy> = {}): RetentionPolicy {
  return { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, ...overrides };
}

const ARCHIVED = { archive: { key: 'an/archive', hash: new Uint8Array(32) } };
const LAST_DAY = 100;

interface Case {
  readonly name: string;
  readonly policy?: Partial<RetentionPolicy>;
  readonly segments: readonly Segment[];
  /** Days since segment 0 was closed; long after everything where it is left out. */
  readonly day?: number;
  readonly jobs: readonly string[];
}

function plan({ segments, policy: changes, day = LAST_DAY }: Case): string[] {
  const jobs = planRetention(segments, policy(changes), (NOON + day * DAY) * 1000);
  expect(jobs.every(({ log }) => log === LOG)).toBe(true);
  return jobs.map((job) => `${job.kind} ${job.segment}`);
}

/** Segment 0 as it is given, closed and covered. */
function old(overrides: Partial<Segment> = {}): Segment[] {
  return [segment(0, overrides), segment(1)];
}

describe('planRetention: segments that may expire', () => {
  const cases: Case[] = [
    { name: 'no segment', segments: [], jobs: [] },
    { name: 'the only segment, which is open', segments: [segment(0)], jobs: [] },
    {
      name: 'a closed segment while the next one has no snapshot',
      segments: [segment(0), segment(1, { lastSnapshot: undefined })],
      jobs: [],
    },
    {
      name: 'a covered segment, whether or not it has snapshots itself',
      segments: old({ lastSnapshot: undefined }),
      jobs: ['archive 0'],
    },
    {
      name: 'a segment covered by a snapshot at entry 0',
      segments: [segment(0), segment(1, { lastSnapshot: lastAt(1, 0) })],
      jobs: ['archive 0'],
    },
    {
      name: 'not before its days are over, though the client that closed it has a clock that is years behind',
      policy: { keepDays: 3, expire: 'delete', archive: false },
      segments: [segment(0), segment(1, { created: 0 })],
      day: 1,
      jobs: [],
    },
    {
      name: 'all covered segments, oldest first, past one that is not covered',
      segments: [segment(0), segment(1), segment(2, { lastSnapshot: undefined }), segment(3), segment(4)],
      jobs: ['archive 0', 'archive 2', 'archive 3'],
    },
    {
      name: 'not the last segment before a gap in the numbers: nothing covers it',
      segments: [segment(0), segment(1), segment(5), segment(6)],
      jobs: ['archive 0', 'archive 5'],
    },
    {
      name: 'only what is not among the newest segments, the open one included',
      policy: { keepSegments: 3 },
      segments: [segment(0), segment(1), segment(2), segment(3)],
      jobs: ['archive 0'],
    },
    {
      name: 'nothing of a log with no more segments than are kept',
      policy: { keepSegments: 2 },
      segments: old(),
      jobs: [],
    },
    {
      name: 'the newest segments that there are, not the highest numbers: a gap counts for nothing',
      policy: { keepSegments: 3 },
      segments: [segment(3), segment(4), segment(8), segment(9)],
      jobs: ['archive 3'],
    },
    {
      name: 'nothing where a gap leaves no more segments than are kept',
      policy: { keepSegments: 3 },
      segments: [segment(0), segment(1), segment(5)],
      jobs: [],
    },
    {
      name: 'only what was closed so many days ago, to the moment',
      policy: { keepDays: 7 },
      segments: [segment(0), segment(1), segment(2)],
      day: 7,
      jobs: ['archive 0'],
    },
    {
      name: 'nothing a second before that',
      policy: { keepDays: 7 },
      segments: [segment(0), segment(1), segment(2)],
      day: 7 - 1 / DAY,
      jobs: [],
    },
    {
      name: 'by when it was closed, not when it was created',
      policy: { keepDays: 7 },
      segments: [segment(0, { created: NOON - 50 * DAY }), segment(1)],
      day: 6,
      jobs: [],
    },
    {
      name: 'nothing that either setting holds back',
      policy: { keepDays: 7, keepSegments: 3 },
      segments: [segment(0), segment(1), segment(2), segment(3)],
      day: 6,
      jobs: [],
    },
    {
      name: 'part of a day where keepDays is not a whole number',
      policy: { keepDays: 0.5 },
      segments: old(),
      day: 0.5,
      jobs: ['archive 0'],
    },
  ];
  test.each(cases)('$name', (given) => {
    expect(plan(given)).toEqual(given.jobs);
  });
});

describe('dueSince: a job is due', () => {
  const minute = 60;
  const segments = [
    segment(0, { created: NOON }),
    segment(1, { created: NOON + 10 * DAY }),
    segment(2, { created: NOON + 20 * DAY }),
  ];
  const since = (of: readonly Segment[], changes: Partial<RetentionPolicy>, nowSeconds: number): number[] => {
    const jobs = planRetention(of, policy(changes), nowSeconds * 1000);
    return jobs.map((job) => dueSince(of, job, policy(changes)) / 1000);
  };

  test('it is due so many days after its segment was closed', () => {
    const changes = { keepSegments: 1, keepDays: 3 };
    expect(since(segments, changes, NOON + 13 * DAY - minute)).toEqual([]);
    expect(since(segments, changes, NOON + 13 * DAY)).toEqual([NOON + 13 * DAY]);
    expect(since(segments, changes, NOON + 99 * DAY)).toEqual([NOON + 13 * DAY, NOON + 23 * DAY]);
  });

  test('it is due after enough newer segments, if they came later', () => {
    expect(since(segments, { keepSegments: 2, keepDays: 3 }, NOON + 99 * DAY)).toEqual([NOON + 20 * DAY]);
  });

  test('it is due at the announced time if it deletes entries', () => {
    const leaving = segments.map((each) => ({ ...each, ...ARCHIVED, expiry: expiring(NOON + 30 * DAY) }));
    expect(since(leaving, { expire: 'delete' }, NOON + 99 * DAY)).toEqual([NOON + 30 * DAY, NOON + 30 * DAY]);
    expect(since(leaving, { expire: 'ttl' }, NOON + 99 * DAY)).toEqual([NOON + 10 * DAY, NOON + 20 * DAY]);
  });
});

describe('planRetention: the next step of a segment', () => {
  const expires = NOON + 10 * DAY;
  const loose = { archive: false, keepDays: 1 };
  const cases: Case[] = [
    { name: 'archive', policy: { expire: 'never' }, segments: old(), jobs: ['archive 0'] },
    { name: 'archive before TTL', policy: { expire: 'ttl' }, segments: old(), jobs: ['archive 0'] },
    { name: 'archive before deletion', policy: { expire: 'delete' }, segments: old(), jobs: ['archive 0'] },
    { name: 'no archive, never expire', policy: { ...loose, expire: 'never' }, segments: old(), jobs: [] },
    { name: 'no archive, TTL', policy: { ...loose, expire: 'ttl' }, segments: old(), jobs: ['expire 0'] },
    { name: 'no archive, deletion', policy: { ...loose, expire: 'delete' }, segments: old(), jobs: ['expire 0'] },
    { name: 'archived, never expire', policy: { expire: 'never' }, segments: old(ARCHIVED), jobs: [] },
    { name: 'archived, then TTL', policy: { expire: 'ttl' }, segments: old(ARCHIVED), jobs: ['expire 0'] },
    { name: 'archived, then deletion', policy: { expire: 'delete' }, segments: old(ARCHIVED), jobs: ['expire 0'] },
    {
      name: 'archived, though the policy no longer archives',
      policy: { ...loose, expire: 'ttl' },
      segments: old(ARCHIVED),
      jobs: ['expire 0'],
    },
    {
      name: 'TTL goes on where it was begun, without waiting',
      policy: { expire: 'ttl' },
      segments: old({ ...ARCHIVED, expiry: expiring(expires) }),
      day: 5,
      jobs: ['expire 0'],
    },
    {
      name: 'deletion waits for its time',
      policy: { expire: 'delete' },
      segments: old({ ...ARCHIVED, expiry: expiring(expires) }),
      day: 10 - 1 / DAY,
      jobs: [],
    },
    {
      name: 'deletion goes on once its time has come',
      policy: { expire: 'delete' },
      segments: old({ ...ARCHIVED, expiry: expiring(expires) }),
      day: 10,
      jobs: ['expire 0'],
    },
    {
      name: 'nothing for a segment that is done',
      policy: { expire: 'delete' },
      segments: old({ ...ARCHIVED, expiry: expired(expires, 8) }),
      jobs: [],
    },
    {
      name: 'nothing for a segment that is done, with no entries',
      policy: { ...loose, expire: 'ttl' },
      segments: old({ expiry: expired(expires, 0) }),
      jobs: [],
    },
    {
      name: 'an archive cannot be had of what has begun to expire; nor does it expire any further',
      policy: { expire: 'ttl' },
      segments: old({ expiry: expiring(expires) }),
      jobs: [],
    },
    {
      name: 'nothing goes on where a changed policy lets nothing expire',
      policy: { expire: 'never' },
      segments: old({ ...ARCHIVED, expiry: expiring(expires) }),
      jobs: [],
    },
    {
      name: 'nothing for an archived segment that a changed policy keeps again',
      policy: { expire: 'ttl', keepSegments: 2 },
      segments: old(ARCHIVED),
      jobs: [],
    },
    {
      name: 'nothing goes on in a segment that a changed policy keeps again',
      policy: { expire: 'delete', keepDays: 365 },
      segments: old({ ...ARCHIVED, expiry: expiring(expires) }),
      jobs: [],
    },
    {
      name: 'one step for each segment, wherever it stands',
      policy: { expire: 'ttl' },
      segments: [
        segment(0, { ...ARCHIVED, expiry: expired(expires, 3) }),
        segment(1, ARCHIVED),
        segment(2),
        segment(3),
      ],
      jobs: ['expire 1', 'archive 2'],
    },
  ];
  test.each(cases)('$name', (given) => {
    expect(plan(given)).toEqual(given.jobs);
  });
});

describe('checkPolicy', () => {
  test.each<Partial<RetentionPolicy>>([
    {},
    { keepSegments: 1, keepDays: 0 },
    { keepDays: 0.5 },
    { graceSeconds: 0 },
    { keepSegments: 1_000_000, keepDays: 36_600, graceSeconds: 366 * DAY },
    { expire: 'delete', keepDays: 0 },
    { expire: 'never', archive: false, keepDays: 0 },
    { expire: 'ttl', archive: false, keepDays: 1 },
  ])('it accepts %o', (changes) => {
    const given = { ...DEFAULT_POLICY, ...changes };
    expect(checkPolicy(given)).toBe(given);
  });

  test.each<[Partial<RetentionPolicy>, string]>([
    [{ keepSegments: 0 }, 'keepSegments is 0'],
    [{ keepSegments: 1.5 }, 'keepSegments is 1.5'],
    [{ keepSegments: Number.NaN }, 'keepSegments is NaN'],
    [{ keepSegments: 1_000_001 }, 'keepSegments is 1000001'],
    [{ keepDays: -1 }, 'keepDays is -1'],
    [{ keepDays: 36_601 }, 'keepDays is 36601'],
    [{ keepDays: Number.POSITIVE_INFINITY }, 'keepDays is Infinity'],
    [{ keepDays: Number.NaN }, 'keepDays is NaN'],
    [{ graceSeconds: -1 }, 'graceSeconds is -1'],
    [{ graceSeconds: 0.5 }, 'graceSeconds is 0.5'],
    [{ graceSeconds: 366 * DAY + 1 }, 'graceSeconds is 31622401'],
    [{ expire: 'ttl', archive: false, keepDays: 0 }, 'without an archive'],
    [{ expire: 'delete', archive: false, keepDays: 0 }, 'without an archive'],
  ])('it refuses %o', (changes, reason) => {
    const check = () => checkPolicy({ ...DEFAULT_POLICY, ...changes });
    expect(check).toThrow(PolicyInvalidError);
    expect(check).toThrow(reason);
  });

  test('it names the log whose policy it is', () => {
    expect(() => checkPolicy({ ...DEFAULT_POLICY, keepDays: -1 }, LOG)).toThrow(`[log ${LOG}]`);
  });
});

describe('keepsSnapshot', () => {
  test.each([
    { entry: 7, archived: false, keep: 'all', kept: true },
    { entry: 7, archived: false, keep: 'last', kept: true },
    { entry: 7, archived: true, keep: 'all', kept: true },
    { entry: 7, archived: true, keep: 'last', kept: true },
    { entry: 3, archived: false, keep: 'all', kept: true },
    { entry: 3, archived: false, keep: 'last', kept: false },
    { entry: 3, archived: true, keep: 'all', kept: false },
    { entry: 3, archived: true, keep: 'last', kept: false },
    { entry: 9, archived: false, keep: 'last', kept: true },
    { entry: 9, archived: false, keep: 'all', kept: true },
    { entry: 9, archived: true, keep: 'last', kept: false },
  ] as const)('it decides on entry $entry, if 7 is the last: archived $archived, keep $keep: $kept', (given) => {
    const { entry, archived, keep, kept } = given;
    expect(keepsSnapshot(segment(0, archived ? ARCHIVED : {}), entry, keep)).toBe(kept);
  });
});

describe('isCovered', () => {
  test('a complete snapshot of the next segment covers it, even one at its entry 0', () => {
    expect(isCovered(segment(3), segment(4, { lastSnapshot: lastAt(4, 0) }))).toBe(true);
  });

  const LAYOUT = { schedule: { first: 0, items: 10, snapshotEvery: 10 } };
  const pending = { lastSnapshot: undefined };

  test('any later snapshot covers a closed segment of a mapped log, since its application starts segments', () => {
    expect(isCovered(segment(3, LAYOUT), segment(4, { ...LAYOUT, ...pending }), { segment: 6, entry: 0 })).toBe(true);
    const behind = [0, 1, 2].map((number) => segment(number, { ...LAYOUT, ...pending }));
    const jobs = plan({ name: 'behind', segments: [...behind, segment(3, LAYOUT)], jobs: [] });
    expect(jobs).toEqual(['archive 0', 'archive 1', 'archive 2']);
  });

  test('the segment with the newest item of a mapped log does not expire', () => {
    const archived = { ...LAYOUT, ...ARCHIVED };
    const of = (...segments: Segment[]) => plan({ name: 'expire', policy: { expire: 'ttl' }, segments, jobs: [] });
    expect(of(segment(0, archived), segment(1, { ...LAYOUT, lastSnapshot: lastAt(1, 0) }))).toEqual([]);
    expect(of(segment(0, archived), segment(1, { ...LAYOUT, lastSnapshot: lastAt(1, 11) }))).toEqual(['expire 0']);
    expect(
      of(segment(0, archived), segment(1, archived), segment(2, { ...LAYOUT, lastSnapshot: lastAt(2, 0) })),
    ).toEqual(['expire 0']);
  });

  test.each([
    { name: 'no next segment', next: undefined, newest: undefined },
    { name: 'a next segment without a snapshot', next: segment(4, pending), newest: { segment: 6, entry: 0 } },
    { name: 'a mapped log without a later snapshot', next: segment(4, { ...LAYOUT, ...pending }), newest: undefined },
    { name: 'its own snapshot', next: segment(4, { ...LAYOUT, ...pending }), newest: { segment: 3, entry: 9 } },
    { name: 'a later segment than the next', next: segment(5), newest: undefined },
    { name: 'itself', next: segment(3), newest: undefined },
  ])('a segment is not covered: $name', ({ next, newest }) => {
    expect(isCovered(segment(3), next, newest)).toBe(false);
  });
});

describe('expiringUnarchived', () => {
  const expires = NOON;
  const all = [
    segment(0, { expiry: expired(expires, 3) }),
    segment(1, { expiry: expiring(expires) }),
    segment(2, { ...ARCHIVED, expiry: expiring(expires) }),
    segment(3, ARCHIVED),
    segment(4, { expiry: expiring(expires) }),
    segment(5),
  ];

  test('it returns segments that are announced, not archived and not done while the policy archives', () => {
    expect(expiringUnarchived(all, policy()).map((each) => each.segment)).toEqual([1, 4]);
    expect(expiringUnarchived(all, policy({ expire: 'ttl' }))).toEqual([all[1], all[4]]);
  });

  test('it returns none if the policy does not archive', () => {
    expect(expiringUnarchived(all, policy({ archive: false, expire: 'ttl', keepDays: 1 }))).toEqual([]);
  });
});
