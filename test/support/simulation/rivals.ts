import { SegmentStateError, SegmentWithoutSnapshotError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { RESERVED_TYPES } from '../../../src/log/entry.ts';
import type { JobResult } from '../../../src/workers/dispatch/run-job.ts';
import type { Job } from '../../../src/workers/jobs/job.ts';
import { undoExpiry } from '../../../src/workers/retention/undo-expiry.ts';
import { putNext } from './application.ts';
import { newEntry } from './client.ts';
import type { Ports, World } from './world.ts';

/** Who acts between the requests of workers, without faults and without delay. */
export interface Rivals {
  /** Entries that an application still appends there. */
  entries: number;
  /** Expiries that an operator still undoes there, also after the faults. */
  undoes: number;
}

/**
 * Entries that the application of a restless history appends between requests. Segments of a mapped
 * log may have a single item, and each one takes many requests.
 */
export function mostRivalEntries({ mapped }: Pick<World, 'mapped'>): number {
  return mapped === undefined ? 120 : 30;
}

/** Entries that the application appends alongside one job of another kind than `divide`. */
const BESIDE_OTHER_JOBS = 8;

/** Writes of a divide job, of which it makes at most {@link MAX_DIVIDE_WRITES}. */
const DIVIDE_WRITES = ['putEntries', 'startSegment', 'putAhead'];
const MAX_DIVIDE_WRITES = 20;

/**
 * Runs a job of a worker alongside its rivals, if the history has any: before each of its requests,
 * the application appends, or starts a segment once; or the operator undoes the expiry once.
 * @throws Error if a divide job takes too many requests, or loses every race
 */
export async function besideRivals(
  world: World,
  { process }: Ports,
  job: Job,
  run: () => Promise<JobResult>,
): Promise<JobResult> {
  const act = rivalOf(world, job);
  if (act === undefined) return run();
  let writes = 0;
  process.beside = (operation) => {
    if (job.kind === 'divide' && DIVIDE_WRITES.includes(operation)) writes++;
    return act(operation);
  };
  const result = await run().finally(() => {
    process.beside = undefined;
  });
  if (writes > MAX_DIVIDE_WRITES) throw new Error(`a divide job of ${job.log} sent ${writes} writes`);
  if (result.outcome === 'undivided' && result.reason === 'busy') {
    throw new Error(`a divide job of ${job.log} lost every race with a steady application`);
  }
  return result;
}

type Act = (operation: string) => Promise<void>;

function rivalOf(world: World, job: Job): Act | undefined {
  const { rivals, random } = world;
  if (rivals === undefined) return undefined;
  if (rivals.undoes > 0 && job.kind === 'expire') return undoOnce(world, job);
  if (rivals.entries === 0) return undefined;
  if (job.kind !== 'divide' && random.chance(0.8)) return undefined;
  if (world.mapped === undefined && random.chance(0.3)) return startOnce(world, job.log);
  return appendSteadily(world, job);
}

function appendSteadily(world: World, { kind, log }: Job): Act {
  const perRequest = world.random.pick([1, 1, 2, 3]);
  let left = kind === 'divide' ? Number.POSITIVE_INFINITY : BESIDE_OTHER_JOBS;
  // Most divide jobs end after two reads, because nothing is due.
  let spared = kind === 'divide' ? 2 : 0;
  return async () => {
    if (spared-- > 0) return;
    for (let i = 0; i < perRequest && left > 0 && (world.rivals?.entries ?? 0) > 0; i++) {
      left--;
      if (world.rivals !== undefined) world.rivals.entries--;
      await appendOne(world, log);
    }
  };
}

async function appendOne(world: World, log: LogId): Promise<void> {
  const { mapped, random } = world;
  if (mapped !== undefined) return putNext(world, mapped, log);
  const edit = { type: 'Set', cells: [[random.integer(0, 3), random.integer(0, 3), random.text(10)]] } as const;
  const entries = [newEntry(world, edit, undefined)];
  const { first } = await world.client(world).addEntries(log, entries);
  world.tell('rival', log, first, entries);
}

/** Starts a segment before one of the first requests of a job, as often between its two reads. */
function startOnce(world: World, log: LogId): Act {
  let before = world.random.integer(1, 4);
  return async () => {
    before--;
    if (before !== 0 || (world.rivals?.entries ?? 0) === 0) return;
    try {
      const { position } = await world.client(world).startSegment(log);
      world.tell('rival', log, position, [{ type: RESERVED_TYPES.snapshot }]);
      world.trace(`${world.scheduler.now()} a rival starts segment ${position.segment} of ${log}`);
    } catch (error) {
      if (!(error instanceof SegmentWithoutSnapshotError)) throw error;
    }
  };
}

const STAMPS = ['setEntryExpiry', 'expireEntries', 'setItemExpiry', 'expireItems'];

/** Undoes the expiry before one of the first requests that stamp or delete entries. */
function undoOnce(world: World, { log, segment }: Extract<Job, { readonly kind: 'expire' }>): Act {
  let before = world.random.integer(1, 3);
  return async (operation) => {
    if (!STAMPS.includes(operation) || (world.rivals?.undoes ?? 0) === 0) return;
    before--;
    if (before !== 0) return;
    if (world.rivals !== undefined) world.rivals.undoes--;
    try {
      const { entries } = await undoExpiry(world.deps(), { log, segment });
      world.trace(`${world.scheduler.now()} a rival unexpired ${entries} of ${log} ${segment}`);
    } catch (error) {
      // Entries are gone already.
      if (!(error instanceof SegmentStateError)) throw error;
    }
  };
}
