import { ReceiptExpiredError, SegmentStateError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { Position } from '../../../src/ids/position.ts';
import { backoffMs } from '../../../src/log/backoff.ts';
import type { JobQueue, ReceivedMessage } from '../../../src/store/job-queue.ts';
import { JOB_BACKOFF } from '../../../src/workers/dispatch/consume-jobs.ts';
import {
  type RouteDeps,
  route,
  type StreamBatchResponse,
  type StreamRecord,
} from '../../../src/workers/dispatch/route-stream-records.ts';
import { runJob } from '../../../src/workers/dispatch/run-job.ts';
import { decodeJob, describeJob, encodeJob, type Job } from '../../../src/workers/jobs/job.ts';
import { versionedSheet } from '../models/versioned-sheet.ts';
import { isInjected } from './client.ts';
import { besideRivals } from './rivals.ts';
import type { Ports, World } from './world.ts';

/** Visibility timeout of a job, in milliseconds. It is far shorter than the longest delay. */
const VISIBILITY_MS = 30_000;

/** State that survives the crashes of router and workers. */
export interface Pipeline {
  /** Records that the router has received and not answered yet. */
  inHand: StreamRecord[];
  /** True after faults have ended. From then on all workers run the newest version. */
  draining: boolean;
  /** Tells router and workers to end. */
  closing: boolean;
  /** Starts a process. The history waits for it at the end. */
  readonly spawn: (name: string, life: (ports: Ports) => Promise<void>) => void;
}

/**
 * One life of the router. It receives records in batches. Records of one item keep their order; all
 * others come in any order.
 */
export async function liveRouter(world: World, ports: Ports, pipeline: Pipeline): Promise<void> {
  world.stream.unshift(...pipeline.inHand);
  pipeline.inHand = [];
  for (let quiet = 0; !pipeline.closing; quiet = pipeline.inHand.length + world.stream.length > 0 ? 0 : quiet + 1) {
    await world.scheduler.sleep(world.random.integer(50, 1_500) * patience(quiet));
    pipeline.inHand = takeBatch(world);
    const report = (_: StreamRecord, error: unknown): void => {
      if (!isInjected(error)) throw error;
    };
    const { batchItemFailures } = await routeRecords(world, { queue: ports.queue, report }, pipeline.inHand);
    const failed = pipeline.inHand.findIndex(
      ({ sequenceNumber }) => sequenceNumber === batchItemFailures[0]?.itemIdentifier,
    );
    if (failed >= 0) world.stream.unshift(...pipeline.inHand.slice(failed));
    pipeline.inHand = [];
  }
}

/** Routes stream records as the deployed function of this world does. */
export function routeRecords(
  world: World,
  { queue, report }: Pick<RouteDeps, 'report'> & { readonly queue: JobQueue },
  records: readonly StreamRecord[],
): Promise<StreamBatchResponse> {
  const { mapped, types, division } = world;
  return route({ queue, types, division, mapping: mapped?.mapping, report }, records);
}

/** Factor by which an idle process polls less often, so that idle hours pass in few steps. */
function patience(quiet: number): number {
  return Math.min(2 ** Math.max(0, quiet - 3), 60);
}

/**
 * Takes some records from the stream. The records of one item keep their order; all others
 * come in any order.
 */
export function takeBatch(world: World, most = 8): StreamRecord[] {
  const batch: StreamRecord[] = [];
  for (let size = world.random.integer(0, most); size > 0 && world.stream.length > 0; size--) {
    const item = JSON.stringify(world.random.pick(world.stream)?.keys);
    const first = world.stream.findIndex(({ keys }) => JSON.stringify(keys) === item);
    batch.push(...world.stream.splice(first, 1));
  }
  return batch;
}

/**
 * One life of a worker. It runs one job at a time until its version is old or the pipeline closes.
 */
export async function liveWorker(world: World, ports: Ports, pipeline: Pipeline): Promise<void> {
  const { random, scheduler } = world;
  const { version } = world;
  for (let quiet = 0; !pipeline.closing; ) {
    if (version !== world.version && (pipeline.draining || random.chance(0.3))) return;
    try {
      const [message] = await ports.queue.receive({ max: 1, visibilityMs: VISIBILITY_MS });
      if (message === undefined) await scheduler.sleep(random.integer(100, 3_000) * patience(quiet++));
      else {
        quiet = 0;
        await handle(world, ports, { message, version, pipeline });
      }
    } catch (error) {
      // Two workers changed a segment at the same time. The job of the later one is delivered
      // again.
      const passes = error instanceof ReceiptExpiredError || error instanceof SegmentStateError;
      if (!isInjected(error) && !passes) throw error;
    }
  }
}

async function handle(
  world: World,
  ports: Ports,
  delivery: { readonly message: ReceivedMessage; readonly version: number; readonly pipeline: Pipeline },
): Promise<void> {
  const { message, version, pipeline } = delivery;
  const job = decodeJob(message.body);
  if (!pipeline.draining && world.random.chance(0.1)) {
    pipeline.spawn('duplicate', (others) =>
      work(world, others, { job, version: world.random.integer(1, world.version) }),
    );
  }
  try {
    await work(world, ports, { job, version });
  } catch (error) {
    await ports.queue.changeVisibility(message.receipt, backoffMs(JOB_BACKOFF, message.receiveCount));
    throw error;
  }
  await ports.queue.delete(message.receipt);
}

async function work(world: World, ports: Ports, { job, version }: { job: Job; version: number }): Promise<void> {
  // Most builds take longer than this, even without faults.
  const deadline = world.random.chance(0.4) ? world.scheduler.now() + world.random.integer(0, 1_500) : undefined;
  const deps = {
    ...world.deps(ports, versionedSheet(version)),
    queue: ports.queue,
    deadline,
    // A history has few objects and entries, so each run collects and archives only a few.
    atLeast: { objects: 5, marks: 10_000 },
    frames: { bytes: 500, atLeast: 64 },
  };
  const result = await besideRivals(world, ports, job, () => runJob(deps, job));
  const due = 'flushDue' in result && result.flushDue !== undefined ? ` due: ${result.flushDue.reason}` : '';
  world.trace(`${world.scheduler.now()} ${ports.process.name} ${describeJob(job)}: ${result.outcome}${due}`);
  if (result.outcome === 'built' && world.random.chance(0.3)) await flushByHand(world, ports, job.log, result);
}

/** An operator requests the flush of a snapshot, due or not. */
async function flushByHand(
  world: World,
  ports: Ports,
  log: LogId,
  { position }: { readonly position: Position },
): Promise<void> {
  const deduplicationId = `hand:${world.nextSerial()}`;
  await ports.queue.send({ group: log, deduplicationId, body: encodeJob({ kind: 'flush', log, position }) });
}
