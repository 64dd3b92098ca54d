import { type LogfoldError, SegmentStateError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { type DivisionPolicy, divisionOf, MIN_DIVISION_BYTES } from '../../../src/log/division-policy.ts';
import { mappedDivisionOf, segmentSizes } from '../../../src/mapping/item-division.ts';
import { DEFAULT_POLICY, planRetention, type RetentionPolicy } from '../../../src/retention/retention-policy.ts';
import { adoptLogs } from '../../../src/workers/adopt/adopt-logs.ts';
import { describeJob, encodeJob, type Job } from '../../../src/workers/jobs/job.ts';
import { restoreSegment } from '../../../src/workers/retention/restore-segment.ts';
import { undoExpiry } from '../../../src/workers/retention/undo-expiry.ts';
import { type SweepOptions, sweep } from '../../../src/workers/sweep/sweep.ts';
import { isInjected } from './client.ts';
import { isHealthy } from './log-truth.ts';
import type { Pipeline } from './pipeline.ts';
import type { Ports, World } from './world.ts';

const MINUTE = 60_000;

/** Items of a mapped log's block if the policy counts only bytes or minutes. */
const MAPPED_SNAPSHOT_EVERY = 10;

/** Longer than any build or load in a history, in seconds: requests rarely take minutes. */
const GRACE_SECONDS = 3600;

/** The grace period of every history, in milliseconds. */
export const GRACE_MS = GRACE_SECONDS * 1000;

/** A random policy, strict enough that a history of a few hours carries it out. */
export function anyPolicy({ random, mapped }: Pick<World, 'random' | 'mapped'>): RetentionPolicy {
  // An application numbers its next item by its last one, so the last one must stay.
  const keepSegments = mapped === undefined ? random.integer(1, 2) : random.integer(2, 3);
  const base = { ...DEFAULT_POLICY, graceSeconds: GRACE_SECONDS, keepSegments };
  const keepSnapshots = random.pick(['all', 'last'] as const);
  const archive = random.chance(0.8);
  const drawn = random.pick(['never', 'ttl', 'ttl', 'delete', 'delete'] as const);
  const expire = drawn === 'ttl' && mapped !== undefined && mapped.mapping.ttl === undefined ? 'delete' : drawn;
  return { ...base, keepSnapshots, archive, expire, keepDays: archive && random.chance(0.8) ? 0 : 0.01 };
}

/** A random division policy, under which the logs of a history get several segments. */
export function anyDivision({ random, mapped }: Pick<World, 'random' | 'mapped'>): DivisionPolicy {
  const maybe = (from: number, to: number): number | undefined =>
    random.chance(0.5) ? random.integer(from, to) : undefined;
  const bytes = maybe(MIN_DIVISION_BYTES, 3_000);
  const minutes = maybe(1, 60);
  if (mapped === undefined) {
    return divisionOf({
      ...{ snapshotEveryEntries: maybe(2, 6), snapshotEveryBytes: bytes, snapshotEveryMinutes: minutes },
      ...{ segmentEveryEntries: maybe(4, 20), segmentEveryBytes: maybe(2_000, 20_000) },
    });
  }
  const entries = random.integer(1, 5);
  const settings = random.chance(0.8)
    ? { snapshotEveryEntries: entries, snapshotEveryBytes: bytes }
    : { snapshotEveryBytes: bytes ?? MIN_DIVISION_BYTES };
  const blocks = random.integer(1, 4);
  const items = (settings.snapshotEveryEntries ?? MAPPED_SNAPSHOT_EVERY) * blocks;
  return mappedDivisionOf({ ...settings, snapshotEveryMinutes: minutes, segmentEveryEntries: items });
}

/** A deployment changes its division policy from time to time. */
export async function liveDivision(world: World, pipeline: Pipeline): Promise<void> {
  const { random, scheduler } = world;
  while (!pipeline.draining) {
    await scheduler.sleep(random.chance(0.5) ? random.integer(1, 30_000) : random.integer(1, 60) * MINUTE);
    if (!pipeline.draining) world.division = anyDivision(world);
  }
}

/**
 * Sends the jobs of a sweep, like the deployed sweep. The queue never deduplicates them against
 * older jobs.
 */
export async function sweepOnce(world: World, ports: Ports, options: SweepOptions = {}): Promise<number> {
  const { tables, blobs, now, queue } = ports;
  const { types, division } = world;
  const run = world.nextSerial();
  const send = (job: Job): Promise<void> =>
    queue.send({ group: job.log, deduplicationId: `sweep:${run}:${describeJob(job)}`, body: encodeJob(job) });
  const policyOf = (): RetentionPolicy => world.policy;
  const onFailure = (log: LogId | undefined, error: LogfoldError): void => {
    if (log === undefined || isHealthy(world, log)) throw error;
  };
  const { jobs } = await sweep({ tables, blobs, types, division, now, policyOf, send, onFailure }, options);
  world.trace(`${world.scheduler.now()} ${ports.process.name} sweep sends ${jobs} jobs`);
  return jobs;
}

/** Registers the mapped logs of a world that the stream missed, like the deployed sweep. */
export async function adoptOnce(world: World, { mapped, blobs, now }: Ports): Promise<void> {
  if (mapped === undefined) return;
  const register = (log: LogId): Promise<number> => mapped.register(log, segmentSizes(world.division));
  const onFailure = (error: LogfoldError): void => {
    throw error;
  };
  const { registered } = await adoptLogs(
    { items: mapped.application, register, blobs, now, onFailure },
    { source: 'sim' },
  );
  world.trace(`${world.scheduler.now()} ${registered} logs adopted`);
}

/** One life of the sweeper: it sweeps all logs from time to time. */
export async function liveSweeper(world: World, ports: Ports, pipeline: Pipeline): Promise<void> {
  const { random, scheduler } = world;
  while (!pipeline.draining) {
    await scheduler.sleep(random.integer(5, 60) * MINUTE);
    if (pipeline.draining) return;
    const collect = random.chance(0.3);
    const since = random.chance(0.2) ? 0 : undefined;
    if (world.adopts && random.chance(0.3)) await adoptOnce(world, ports);
    await sweepOnce(world, ports, { collect, since, youngSeconds: random.pick([0, 60]) });
  }
}

/**
 * DynamoDB's own deletions of expired items: immediately or hours later, of all due items or of
 * some.
 */
export async function liveTtl(world: World, pipeline: Pipeline): Promise<void> {
  const { random, scheduler } = world;
  while (!pipeline.draining) {
    await scheduler.sleep(random.chance(0.2) ? random.integer(1, 30_000) : random.integer(1, 40) * MINUTE);
    world.fireTtl(random.pick([0.1, 0.5, 1]));
  }
}

interface SegmentPlace {
  readonly log: LogId;
  readonly segment: number;
}

/** The remaining work of an operator. It survives crashes of their commands. */
export interface OperatorPlan {
  /**
   * A segment whose restore died or was refused. The operator restores it again, as the error
   * advises.
   */
  unrestored: SegmentPlace | undefined;
}

/** An operator who undoes retention by hand, or requests jobs before they are due. */
export async function liveOperator(
  world: World,
  ports: Ports,
  { pipeline, plan }: { readonly pipeline: Pipeline; readonly plan: OperatorPlan },
): Promise<void> {
  const { random, scheduler } = world;
  while (!pipeline.draining || plan.unrestored !== undefined) {
    await scheduler.sleep(plan.unrestored === undefined ? random.integer(2, 40) * MINUTE : random.integer(1, 60_000));
    try {
      if (plan.unrestored !== undefined) await restore(world, ports, { plan, place: plan.unrestored });
      else if (!pipeline.draining) await actByHand(world, ports, plan);
    } catch (error) {
      // Another process is changing the segment or has changed it, which is not a fault.
      if (!isInjected(error) && !(error instanceof SegmentStateError)) throw error;
    }
  }
}

async function actByHand(world: World, ports: Ports, plan: OperatorPlan): Promise<void> {
  const { random } = world;
  const log = random.pick(world.registered);
  if (log === undefined) return;
  const choice = random.next();
  if (choice < 0.8) await undoRetention(world, ports, { log, plan });
  else if (choice < 0.9) await sendByHand(world, ports, { kind: 'rebuild', log });
  else await sendByHand(world, ports, { kind: 'collect', log });
}

/** Restores a segment or undoes its expiry, sometimes while its entries expire. */
async function undoRetention(
  world: World,
  ports: Ports,
  { log, plan }: { readonly log: LogId; readonly plan: OperatorPlan },
): Promise<void> {
  const { random, scheduler, policy } = world;
  const segments = await Array.fromAsync(ports.tables.segments(log));
  const due = planRetention(segments, policy, scheduler.now()).filter(({ kind }) => kind === 'expire');
  const { segment } = random.pick([...due, ...segments.filter(({ expiry }) => expiry !== undefined)]) ?? {};
  if (segment === undefined) return;
  const place = { log, segment };
  const look = () => ports.tables.getSegment(log, segment, { consistent: true });
  if (random.chance(0.7)) {
    await sendByHand(world, ports, { kind: 'expire', ...place });
    for (let times = 0; times < 50 && (await look())?.expiry === undefined; times++) await scheduler.sleep(20);
    await scheduler.sleep(random.integer(0, random.pick([10, 100, 1_000])));
  }
  const { archive, expiry } = (await look()) ?? {};
  if (archive !== undefined && random.chance(0.6)) return restore(world, ports, { plan, place });
  if (expiry === undefined) return;
  const { entries } = await undoExpiry(world.deps(ports), place);
  world.trace(`${scheduler.now()} unexpired ${entries} of ${log} ${segment}`);
}

async function restore(
  world: World,
  ports: Ports,
  { plan, place }: { readonly plan: OperatorPlan; readonly place: SegmentPlace },
): Promise<void> {
  plan.unrestored = place;
  const holdSeconds = world.random.integer(1, 3) * 3600;
  const { restored, unexpired } = await restoreSegment(world.deps(ports), place, { holdSeconds });
  plan.unrestored = undefined;
  world.trace(`${world.scheduler.now()} restored ${restored} and ${unexpired} of ${place.log} ${place.segment}`);
}
async function sendByHand(world: World, ports: Ports, job: Job): Promise<void> {
  await ports.queue.send({ group: job.log, deduplicationId: `hand:${world.nextSerial()}`, body: encodeJob(job) });
}
