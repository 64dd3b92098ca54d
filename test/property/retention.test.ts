import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Expiry, expiresAt, mayLackEntries, type Segment } from '../../src/log/segment.ts';
import {
  isCovered,
  planRetention,
  type RetentionJob,
  type RetentionPolicy,
} from '../../src/retention/retention-policy.ts';
import { LOG, NOON } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { expired, expiring, lastAt, ON_HOLD } from '../support/segments.ts';

const DAY = 24 * 3600;
const HASH = new Uint8Array(32);

const time = fc.integer({ min: NOON - 60 * DAY, max: NOON + 60 * DAY });
const count = fc.nat({ max: 50 });
const toExpired = ([at, entries]: [number, number]): Expiry => expired(at, entries);

const segments: fc.Arbitrary<Segment[]> = fc
  .array(
    fc.record({
      step: fc.oneof(
        { weight: 5, arbitrary: fc.constant(1) },
        { weight: 1, arbitrary: fc.integer({ min: 2, max: 9 }) },
      ),
      created: fc.integer({ min: NOON - 60 * DAY, max: NOON }),
      last: fc.option(fc.nat({ max: 50 }), { nil: undefined, freq: 4 }),
      archived: fc.boolean(),
      expiry: fc.option(fc.oneof(time.map(expiring), fc.tuple(time, count).map(toExpired), fc.constant(ON_HOLD)), {
        nil: undefined,
      }),
    }),
    { maxLength: 10 },
  )
  .map((parts) => {
    let number = -1;
    return parts.map(({ step, created, last, archived, expiry }) => {
      number += step;
      const lastSnapshot = last === undefined ? undefined : lastAt(number, last);
      const archive = archived ? { key: `archive-${number}`, hash: HASH } : undefined;
      return { log: LOG, segment: number, created, lastSnapshot, archive, expiry };
    });
  });

const policies: fc.Arbitrary<RetentionPolicy> = fc.record({
  keepSegments: fc.integer({ min: 1, max: 5 }),
  keepDays: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 90 }), fc.double({ min: 0, max: 3, noNaN: true })),
  archive: fc.boolean(),
  expire: fc.constantFrom('never', 'ttl', 'delete'),
  graceSeconds: fc.constantFrom(0, 3600, DAY, 30 * DAY),
  keepSnapshots: fc.constantFrom('all', 'last'),
});

const moments = fc.integer({ min: (NOON - 70 * DAY) * 1000, max: (NOON + 200 * DAY) * 1000 });

/** Segments that may get a job: covered, and not among the newest `keepSegments`. */
function free(all: readonly Segment[], { keepSegments }: RetentionPolicy): Segment[] {
  const rest = all.slice(0, Math.max(0, all.length - keepSegments));
  return rest.filter((segment) => isCovered(segment, all[all.indexOf(segment) + 1]));
}

/** The segment after a worker has done a job. */
function done(segment: Segment, job: RetentionJob, { expire, graceSeconds }: RetentionPolicy, nowMs: number): Segment {
  if (job.kind === 'archive') return { ...segment, archive: { key: `archive-${segment.segment}`, hash: HASH } };
  const known = expiresAt(segment);
  const at = known ?? Math.ceil(nowMs / 1000) + graceSeconds;
  return { ...segment, expiry: expire === 'delete' && known === undefined ? expiring(at) : expired(at, 9) };
}

/** Does all planned jobs in rounds, each a grace period after the previous one. */
function carryOut(all: readonly Segment[], policy: RetentionPolicy, fromMs: number, rounds: number): Segment[] {
  let current = [...all];
  for (let round = 0; round < rounds; round++) {
    const nowMs = fromMs + round * (policy.graceSeconds + 1) * 1000;
    const jobs = new Map(planRetention(current, policy, nowMs).map((job) => [job.segment, job]));
    current = current.map((segment) => {
      const job = jobs.get(segment.segment);
      return job === undefined ? segment : done(segment, job, policy, nowMs);
    });
  }
  return current;
}

describe('planRetention', () => {
  test('a plan has at most one job per segment, in ascending order, and only for covered segments beyond the kept ones', {
    tags: ['I3'],
  }, () => {
    fc.assert(
      fc.property(segments, policies, moments, (all, policy, now) => {
        const numbers = planRetention(all, policy, now).map(({ segment }) => segment);
        expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
        const may = free(all, policy).map(({ segment }) => segment);
        expect(may).toEqual(expect.arrayContaining(numbers));
        expect(numbers).not.toContain(all.at(-1)?.segment);
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('a plan has no job for segments closed less than keepDays ago', () => {
    fc.assert(
      fc.property(segments, policies, moments, (all, policy, now) => {
        const jobs = new Set(planRetention(all, policy, now).map(({ segment }) => segment));
        for (const [i, { segment }] of all.entries()) {
          const closed = all[i + 1]?.created ?? Number.POSITIVE_INFINITY;
          if (now < closed * 1000 + policy.keepDays * DAY * 1000) expect(jobs).not.toContain(segment);
        }
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('a plan expires nothing before its archive, and archives nothing twice or too late', {
    tags: ['I3'],
  }, () => {
    fc.assert(
      fc.property(segments, policies, moments, (all, policy, now) => {
        for (const job of planRetention(all, policy, now)) {
          const segment = all.find(({ segment }) => segment === job.segment);
          if (job.kind === 'archive') {
            expect(policy.archive).toBe(true);
            expect([segment?.archive, segment?.expiry]).toEqual([undefined, undefined]);
          } else {
            expect(policy.expire).not.toBe('never');
            expect(segment?.expiry?.state).not.toBe('expired');
            if (policy.archive) expect(segment?.archive).toBeDefined();
            if (policy.expire === 'delete')
              expect(now).toBeGreaterThanOrEqual(((segment && expiresAt(segment)) ?? 0) * 1000);
          }
        }
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('planned jobs stay planned while nothing changes', () => {
    fc.assert(
      fc.property(segments, policies, moments, fc.nat({ max: 400 * DAY * 1000 }), (all, policy, now, later) => {
        const jobs = planRetention(all, policy, now);
        expect(planRetention(all, policy, now + later)).toEqual(expect.arrayContaining(jobs));
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('rounds of planned jobs bring every segment to the state of the policy, and then the plan is empty', () => {
    fc.assert(
      fc.property(segments, policies, (all, policy) => {
        const fromMs = (NOON + (60 + policy.keepDays) * DAY) * 1000;
        const end = carryOut(all, policy, fromMs, 4);
        expect(planRetention(end, policy, fromMs + 1e12)).toEqual([]);

        const may = new Set(free(all, policy));
        for (const [i, before] of all.entries()) {
          const after = end[i];
          // It is too late for an archive. Only a person or another policy changes this segment.
          const stuck = policy.archive && mayLackEntries(before);
          if (!may.has(before) || stuck) {
            expect(after).toEqual(before);
            continue;
          }
          expect(after?.archive !== undefined).toBe(policy.archive || before.archive !== undefined);
          if (policy.expire === 'never') expect(after?.expiry).toEqual(before.expiry);
          else expect(after?.expiry?.state).toBe('expired');
        }
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('an interruption after any round does not change the final state', () => {
    fc.assert(
      fc.property(segments, policies, fc.nat({ max: 3 }), (all, policy, rounds) => {
        const fromMs = (NOON + (60 + policy.keepDays) * DAY) * 1000;
        const stopped = carryOut(all, policy, fromMs, rounds);
        const stateOf = ({ segment, archive, expiry }: Segment) => {
          const entries = expiry?.state === 'expired' ? expiry.entries : undefined;
          return { segment, archive, entries };
        };
        const later = fromMs + 1e10;
        expect(carryOut(stopped, policy, later, 4).map(stateOf)).toEqual(carryOut(all, policy, fromMs, 4).map(stateOf));
      }),
      { numRuns: propertyRuns(200) },
    );
  });
});
