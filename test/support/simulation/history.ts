import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { Item } from '../../../src/log/attribute.ts';
import { type Entry, rootOf } from '../../../src/log/entry.ts';
import { decodeEntry } from '../../../src/log/item-codec.ts';
import { isDamage } from '../../../src/snapshot/progress.ts';
import { readWhole } from '../../../src/snapshot/snapshots.ts';
import { clearStop } from '../../../src/snapshot/stop.ts';
import type { StreamRecord } from '../../../src/workers/dispatch/route-stream-records.ts';
import { Random } from '../models/random.ts';
import { sheetEdits } from '../models/sheet-model.ts';
import { anyLogId, fillBlock, liveApplication } from './application.ts';
import { anySchema } from './application-items.ts';
import { checkChangedSources } from './changed-source.ts';
import { type ClientPlan, liveClient, loadAndCheck } from './client.ts';
import { isHealthy, isUnwritten } from './log-truth.ts';
import { liveRouter, liveWorker, routeRecords } from './pipeline.ts';
import { NO_FAULTS } from './process.ts';
import { SimProcesses } from './processes.ts';
import {
  adoptOnce,
  anyDivision,
  anyPolicy,
  GRACE_MS,
  liveDivision,
  liveOperator,
  liveSweeper,
  liveTtl,
  type OperatorPlan,
  sweepOnce,
} from './retention.ts';
import { mostRivalEntries } from './rivals.ts';
import { type Ports, World } from './world.ts';
import { checkLogAtRest, checkObjects, checkRetention, type Repair, StepChecks } from './world-checks.ts';

/**
 * Sweeps until nothing is due: snapshot, archive, expiry, holds of up to three grace periods. Then
 * two collections a grace period apart, twice.
 */
const ROUNDS_TO_REST = 9;

/** One in so many seeds has mapped logs, and another one has a division policy. */
const KINDS = 10;

/** Longer than a queue remembers sent messages, in milliseconds. */
const FORGOTTEN_MS = 6 * 60_000;

/**
 * Runs one history from its seed. Clients edit some logs. A stream, a queue and workers with all
 * kinds of faults turn the edits into snapshots. Then the faults end, and one of the promised
 * repairs makes up for lost records: a later Snapshot entry in each log, or a second delivery of
 * all records.
 * @returns the trace, one line for each event
 * @throws Error with the seed and the last lines of the trace if a check fails
 */
export async function runHistory(seed: number): Promise<readonly string[]> {
  const isMapped = seed % KINDS === 0;
  const world = new World(new Random(seed), isMapped ? anySchema(new Random(seed)) : undefined);
  try {
    await new History(world, seed).run();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const last = world.lines
      .filter((line) => !line.endsWith(' receive'))
      .slice(-40)
      .join('\n');
    throw new Error(`seed ${seed}: ${reason}\nRun it again: npm run simulate -- --seed ${seed}\n${last}`, {
      cause,
    });
  }
  return world.lines;
}

class History {
  readonly #world: World;
  readonly #checks: StepChecks;
  readonly #plans: ClientPlan[] = [];
  readonly #processes: SimProcesses;
  readonly #seed: number;
  #editing = 0;

  constructor(world: World, seed: number) {
    this.#world = world;
    this.#processes = new SimProcesses(world);
    this.#seed = seed;
    this.#checks = new StepChecks(world);
  }

  async run(): Promise<void> {
    const { random } = this.#world;
    const repair = random.pick<Repair>(['late snapshot', 'redelivery', 'sweep']);
    await this.#begin();
    this.#processes.start(this.#recover(repair));
    await this.#processes.run(() => this.#checks.afterStep());
    this.#forgetUnwritten();
    for (const log of this.#world.logs) {
      await checkLogAtRest(this.#world, log, repair);
      await loadAndCheck(this.#world, this.#world, log);
    }
    await checkRetention(this.#world);
    await checkObjects(this.#world);
    if (this.#world.mapped !== undefined) await checkChangedSources(this.#world, this.#world.mapped);
  }

  /** Leaves out mapped logs without items. The checks then find any object of theirs. */
  #forgetUnwritten(): void {
    const { logs, registered } = this.#world;
    const written = logs.filter((log) => !isUnwritten(this.#world, log));
    const ghosts = registered.filter((log) => !written.includes(log));
    assert.deepEqual(ghosts, [], 'registered logs in which nobody ever wrote');
    logs.splice(0, logs.length, ...written);
  }

  async #begin(): Promise<void> {
    const { random, mapped } = this.#world;
    const creator = this.#world.client(this.#world);
    for (let logs = random.integer(1, 3); logs > 0; logs--) {
      if (mapped === undefined) await creator.createLog();
      else this.#world.logs.push(anyLogId(random, this.#world.logs.length));
    }
    const poisoned = random.chance(0.4) ? random.pick(this.#world.logs) : undefined;
    for (const log of this.#world.logs) {
      for (let clients = random.integer(1, 2); clients > 0; clients--) {
        const drawn = fc.sample(sheetEdits(30), { seed: this.#seed * 10 + this.#plans.length, numRuns: 2 }).flat();
        // Two logs with the same contents have chunks of the same names.
        const same = random.chance(0.3) ? (this.#plans[0]?.edits ?? drawn) : drawn;
        // Some mapped logs are shorter than a block.
        const edits = mapped !== undefined && random.chance(0.2) ? same.slice(0, random.integer(1, 4)) : same;
        const poisonAt = log === poisoned && clients === 1 ? random.integer(0, edits.length) : undefined;
        const client = random.chance(0.5) ? `client ${this.#plans.length}` : undefined;
        const mutations = client === undefined ? undefined : { client, newest: 0, sent: [], isAnswered: true };
        this.#plans.push({ log, edits, next: 0, poisonAt, mutations });
      }
    }
    const rate = random.pick([0, 0.005, 0.02]);
    this.#world.faults = {
      crashBefore: rate / 2,
      crashAfter: rate / 2,
      throttle: rate,
      timeout: rate,
      delay: rate,
      resend: rate,
    };
    this.#world.streamFaults = random.chance(0.7) ? { lost: 0.15, twice: 0.2 } : { lost: 0, twice: 0 };
    for (const plan of this.#plans) {
      this.#editing++;
      this.#processes.live('client', async (ports) => {
        if (mapped === undefined) await liveClient(this.#world, ports, plan);
        else await liveApplication(this.#world, ports, mapped, plan);
        this.#editing--;
      });
    }
    this.#keep();
    if (mapped !== undefined || this.#seed % KINDS === 3 || this.#seed % KINDS === 8) this.#divide();
    this.#rival();
    if (random.chance(poisoned === undefined ? 0.4 : 0.7)) this.#processes.start(this.#deploy());
    this.#processes.live('router', (ports) => liveRouter(this.#world, ports, this.#processes.pipeline), 'always');
    for (let workers = random.integer(1, 3); workers > 0; workers--) {
      this.#processes.live('worker', (ports) => liveWorker(this.#world, ports, this.#processes.pipeline), 'always');
    }
  }

  /** Starts retention in most histories. */
  #keep(): void {
    const { random } = this.#world;
    if (random.chance(0.1)) return;
    this.#world.policy = anyPolicy(this.#world);
    if (random.chance(0.5)) this.#world.clockErrorMs = GRACE_MS / 4;
    this.#processes.live('sweep', (ports) => liveSweeper(this.#world, ports, this.#processes.pipeline));
    this.#processes.start(liveTtl(this.#world, this.#processes.pipeline));
    if (!random.chance(0.5)) return;
    const plan: OperatorPlan = { unrestored: undefined };
    this.#processes.live('operator', (ports) =>
      liveOperator(this.#world, ports, { pipeline: this.#processes.pipeline, plan }),
    );
  }

  /** Divides logs by policies, which change in some histories. */
  #divide(): void {
    const world = this.#world;
    world.adopts = world.random.chance(0.5);
    world.division = anyDivision(world);
    if (world.random.chance(0.5)) this.#processes.start(liveDivision(world, this.#processes.pipeline));
  }

  /** Lets an application or an operator act between the requests of workers. */
  #rival(): void {
    const world = this.#world;
    const isRestless = this.#seed % KINDS === 8 || this.#seed % (2 * KINDS) === KINDS;
    const undoes = this.#seed % KINDS === 6 ? 2 : 0;
    if (undoes > 0) world.policy = { ...world.policy, archive: false, expire: 'ttl' };
    if (undoes > 0 || isRestless) world.rivals = { entries: isRestless ? mostRivalEntries(world) : 0, undoes };
  }

  async #deploy(): Promise<void> {
    await this.#world.scheduler.sleep(this.#world.random.integer(0, 60_000));
    // A log without its complete history cannot be rebuilt.
    const { archive, expire } = this.#world.policy;
    const whole = archive || expire === 'never';
    if (!this.#processes.pipeline.draining && whole) this.#world.version = 2;
  }

  async #recover(repair: Repair): Promise<void> {
    const world = this.#world;
    while (this.#editing > 0) await world.scheduler.sleep(1_000);
    this.#processes.pipeline.draining = true;
    if (world.rivals !== undefined) world.rivals.entries = 0;
    world.faults = NO_FAULTS;
    world.streamFaults = { lost: 0, twice: 0 };
    await this.#idle();
    await this.#mendDamagedRoots();
    world.trace(`${world.scheduler.now()} repair by ${repair === 'sweep' ? 'sweep since 0' : repair}`);
    // Also completes a scan whose process crashed.
    // The stream asks for nothing if the record of a log's first item is lost.
    const asksNobody = repair === 'late snapshot' && world.mapped !== undefined;
    if (world.adopts || repair === 'sweep' || asksNobody) await adoptOnce(world, this.#operator());
    if (repair === 'late snapshot') {
      for (const log of world.logs) await this.#addSnapshot(log);
    } else if (repair === 'sweep') {
      for (const log of world.logs) if (!isHealthy(world, log)) await clearStop(world.blobs, log);
      await sweepOnce(world, this.#operator(), { since: 0 });
    } else {
      await world.scheduler.sleep(FORGOTTEN_MS);
      // An operator looks at each stopped log and clears its stop. A log that is still broken stops
      // again.
      for (const log of world.logs) if (!isHealthy(world, log)) await clearStop(world.blobs, log);
      await routeRecords(world, { queue: world.queue, report: fail }, [...world.records]);
    }
    await this.#idle();
    await this.#comeToRest();
    this.#processes.pipeline.closing = true;
  }

  /** Makes one more snapshot of a log due. */
  async #addSnapshot(log: LogId): Promise<void> {
    const { mapped, random } = this.#world;
    if (mapped === undefined) await this.#world.client(this.#world).addSnapshot(log);
    else fillBlock(this.#world, mapped, log, random.integer(0, 3));
  }

  /** An operator follows the error's advice: deletes the damaged root and lets the log go on. */
  async #mendDamagedRoots(): Promise<void> {
    const { tables, damagedRoots, blobs, scheduler } = this.#world;
    if (damagedRoots.length === 0) return;
    // Slow workers may still stop the log because of an earlier read.
    await scheduler.sleep(FORGOTTEN_MS);
    for (const { log, position } of damagedRoots.splice(0)) {
      const { archive } = (await tables.getSegment(log, position.segment, { consistent: true })) ?? {};
      const range = { segment: position.segment, from: position.entry, to: position.entry + 1 };
      for await (const items of tables.items(log, range, { consistent: true })) {
        for (const item of items) {
          const { B: _, E: __, ...bare } = item;
          // A rebuild may have restored the right root.
          if (archive === undefined && !(await this.#isWhole(decodeEntry(item)))) await tables.putItems([bare as Item]);
        }
      }
      await clearStop(blobs, log);
    }
  }

  async #isWhole(entry: Entry): Promise<boolean> {
    const ref = rootOf(entry);
    if (ref === undefined) return entry.body === undefined;
    return readWhole(this.#world.deps(), entry, ref).then(
      () => true,
      (error: unknown) => {
        if (isDamage(error)) return false;
        throw error;
      },
    );
  }

  /** Sweeps, and lets grace periods and holds pass, until no work is left. */
  async #comeToRest(): Promise<void> {
    const { scheduler } = this.#world;
    for (let rounds = 0; rounds < ROUNDS_TO_REST; rounds++) {
      await sweepOnce(this.#world, this.#operator(), { collect: rounds >= ROUNDS_TO_REST - 4 });
      await this.#idle();
      await scheduler.sleep(GRACE_MS + 60_000);
      this.#world.fireTtl(1);
    }
  }

  /** The ports of an operator, without faults. */
  #operator(): Ports {
    return { ...this.#world.start('operator'), ...this.#world, now: this.#world.now };
  }

  async #idle(): Promise<void> {
    const { stream, queue, scheduler } = this.#world;
    const busy = (): boolean => {
      const { waiting, inFlight } = queue.stats();
      return waiting + inFlight + stream.length + this.#processes.pipeline.inHand.length > 0;
    };
    // Check twice in a row: a record may be on its way from the stream to the queue.
    for (let quiet = 0; quiet < 2; quiet = busy() ? 0 : quiet + 1) await scheduler.sleep(5_000);
  }
}

function fail(record: StreamRecord, error: unknown): void {
  throw new Error(`record ${record.sequenceNumber} was not routed`, { cause: error });
}
