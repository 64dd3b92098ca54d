import fc from 'fast-check';
import { describe, test } from 'vitest';
import { Document } from '../../src/client/document.ts';
import { toHex } from '../../src/codec/bytes.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { Random } from '../support/models/random.ts';
import { sheetEdits } from '../support/models/sheet-model.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { type EditorPlan, type EditorTools, liveEditor } from '../support/simulation/editor.ts';
import { liveRouter, liveWorker } from '../support/simulation/pipeline.ts';
import { NO_FAULTS } from '../support/simulation/process.ts';
import { SimProcesses } from '../support/simulation/processes.ts';
import { anyPolicy, liveSweeper, liveTtl } from '../support/simulation/retention.ts';
import {
  applicationEntries,
  CLAIMING,
  claim,
  foldEdits,
  rowsOf,
  type WatchedDocument,
} from '../support/simulation/watched-document.ts';
import { World } from '../support/simulation/world.ts';

/**
 * Runs one history of documents from its seed: editors with live documents work on one log, beside
 * the whole pipeline with snapshots, segments, archives, expiry and garbage collection. All stores
 * are slow, fail and lose answers.
 * @throws Error with the seed and the last lines of the trace if a check fails
 */
async function runDocumentHistory(seed: number): Promise<void> {
  const world = new World(new Random(seed));
  try {
    await new DocumentHistory(world, seed).run();
  } catch (cause) {
    const last = world.lines.filter((line) => !line.endsWith(' receive')).slice(-40);
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`seed ${seed}: ${reason}\n${last.join('\n')}`, { cause });
  }
}

class DocumentHistory {
  readonly #world: World;
  readonly #seed: number;
  readonly #plans: EditorPlan[] = [];
  readonly #watched: WatchedDocument[] = [];
  readonly #processes: SimProcesses;
  #editing = 0;

  constructor(world: World, seed: number) {
    this.#world = world;
    this.#processes = new SimProcesses(world);
    this.#seed = seed;
  }

  async run(): Promise<void> {
    const log = await this.#begin();
    this.#processes.start(this.#end());
    await this.#processes.run(() => {
      for (const watched of this.#watched) watched.afterStep();
    });
    this.#checkLog(log);
    await this.#checkFresh(log);
  }

  async #begin(): Promise<LogId> {
    const world = this.#world;
    const { random } = world;
    const log = await world.client(world).createLog();
    const rate = random.pick([0, 0.01, 0.03]);
    const crash = random.pick([0, 0.002]);
    world.faults = { crashBefore: crash, crashAfter: crash, throttle: rate, timeout: rate, delay: rate, resend: rate };
    world.policy = anyPolicy(world);
    const fail = (error: unknown): void => this.#processes.fail(error);
    // Some histories have a cache that holds a few chunks only.
    const tools: EditorTools = { fail, watched: this.#watched, cacheBytes: random.chance(0.8) ? 64e6 : 5_000 };
    for (let editors = random.integer(1, 3); editors > 0; editors--) {
      const [drawn = []] = fc.sample(sheetEdits(30), { seed: this.#seed * 10 + editors, numRuns: 1 });
      const name = `editor ${editors}`;
      const edits = drawn.flatMap((edit) =>
        random.chance(0.2) ? [claim(random.integer(0, 4), random.integer(0, 3), name), edit] : [edit],
      );
      const plan: EditorPlan = {
        name,
        log,
        edits,
        next: 0,
        mutation: 0,
        entries: [],
        unanswered: new Set(),
      };
      this.#plans.push(plan);
      this.#editing++;
      this.#processes.live(name, async (ports) => {
        await liveEditor(world, ports, plan, tools);
        this.#editing--;
      });
    }
    this.#processes.live('sweep', (ports) => liveSweeper(world, ports, this.#processes.pipeline));
    this.#processes.start(liveTtl(world, this.#processes.pipeline));
    this.#processes.live('router', (ports) => liveRouter(world, ports, this.#processes.pipeline), 'always');
    this.#processes.live('worker', (ports) => liveWorker(world, ports, this.#processes.pipeline), 'always');
    return log;
  }

  async #end(): Promise<void> {
    const { scheduler } = this.#world;
    while (this.#editing > 0) await scheduler.sleep(1_000);
    this.#world.faults = NO_FAULTS;
    this.#processes.pipeline.draining = true;
    this.#processes.pipeline.closing = true;
  }

  /** Checks that confirmed entries are in the log once and in order, and failed ones are not. */
  #checkLog(log: LogId): void {
    const entries = applicationEntries(this.#world.tables.history(log));
    const ids = entries.flatMap(({ id }) => (id === undefined ? [] : [toHex(id)]));
    if (new Set(ids).size < ids.length) throw new Error('two entries of the log have the same id');
    const mutations = entries.flatMap(({ once }) => (once === undefined ? [] : [`${once.client} ${once.mutation}`]));
    if (new Set(mutations).size < mutations.length) throw new Error('a numbered mutation is in the log twice');
    for (const plan of this.#plans) {
      const places = plan.entries.map(({ entry }) => entries.findIndex(({ created }) => created === entry.created));
      for (const [i, { entry, outcome }] of plan.entries.entries()) {
        const times = entries.filter(({ created }) => created === entry.created).length;
        if (outcome === 'stored' ? times !== 1 : outcome === 'failed' ? times !== 0 : times > 1) {
          throw new Error(`entry ${entry.created} of ${plan.name} is ${outcome}, and ${times} times in the log`);
        }
        const { mutatedBy } = plan.entries[i] ?? {};
        const later = plan.entries.findIndex((each, j) => {
          const isBefore = (places[j] ?? -1) >= 0 && (places[j] ?? -1) < (places[i] ?? -1);
          return j > i && mutatedBy !== undefined && each.mutatedBy === mutatedBy && isBefore;
        });
        if (later !== -1) throw new Error(`entry ${entry.created} of ${plan.name} comes after a later one`);
      }
    }
  }

  async #checkFresh(log: LogId): Promise<void> {
    const world = this.#world;
    const deps = { ...world.deps(), client: world.client(world), sleep: world.scheduler.sleep };
    const document = await Document.open(deps, log, { reducer: CLAIMING });
    const expected = foldEdits(world, applicationEntries(world.tables.history(log)));
    const rows = await rowsOf(document.state);
    if (JSON.stringify(rows) !== JSON.stringify(expected))
      throw new Error('a fresh document differs from the plain fold');
  }
}

const HISTORIES = propertyRuns(400);
const GROUP = 20;

/** A failed history prints its seed. SEED=17 repeats it. */
const { SEED } = process.env;
const groups =
  SEED === undefined
    ? Array.from({ length: Math.ceil(HISTORIES / GROUP) }, (_, i) => ({ from: i * GROUP + 1, to: (i + 1) * GROUP }))
    : [{ from: Number(SEED), to: Number(SEED) }];

describe('documents beside a running pipeline', () => {
  test.each(groups)(
    'histories $from to $to show plain folds of their logs, and store each entry once',
    async ({ from, to }) => {
      for (let seed = from; seed <= to; seed++) await runDocumentHistory(seed);
    },
  );
});
