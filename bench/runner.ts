import { spawn } from 'node:child_process';
import { cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type Report, reportSchema, type Task } from './measured.ts';
import type { Phase, Result } from './phases.ts';
import { median } from './statistics.ts';

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));
/** The memory of idle processes differs a little. The result is a median. */
const IDLE_RUNS = 3;

export interface RunPlan {
  readonly phases: readonly Phase[];
  readonly systems: readonly string[];
  readonly repeat: number;
  /** Rows of the sheet at scale 1. */
  readonly rows: number;
  /** An empty directory for all files of the run. */
  readonly directory: string;
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
}

/**
 * Runs every phase with every system `repeat` times, each in a new process. Returns the medians.
 */
export async function runPhases(plan: RunPlan): Promise<Result[]> {
  const runner = new Runner(plan);
  const measured: Result[] = [];
  for (let repetition = 0; repetition < plan.repeat; repetition++) {
    for (const phase of plan.phases) {
      const systems = phase.systems.filter((system) => plan.systems.includes(system));
      // The systems alternate, and each is first at times, so that a busy machine slows down all of
      // them.
      for (const [i] of systems.entries()) {
        const system = systems[(i + repetition) % systems.length] ?? '';
        const results = await runner.run(phase, system);
        plan.onProgress(`${repetition + 1}/${plan.repeat} ${phase.name} ${describeRun(results)}`);
        measured.push(...results);
      }
    }
  }
  return plan.phases.flatMap(({ name }) => medians(measured.filter(({ phase }) => phase === name)));
}

/** The medians for each phase and system, in the order of their first results. */
export function medians(results: readonly Result[]): Result[] {
  const groups = Map.groupBy(results, ({ phase, system }) => `${phase} ${system}`);
  return Array.from(groups.values(), (group) => {
    const middle = (of: (result: Result) => number): number => median(group.map(of));
    const { phase = '', system = '' } = group[0] ?? {};
    return {
      phase,
      system,
      seconds: middle(({ seconds }) => seconds),
      cpuSeconds: middle(({ cpuSeconds }) => cpuSeconds),
      bytes: middle(({ bytes }) => bytes),
      objects: middle(({ objects }) => objects),
      requests: middle(({ requests }) => requests),
      peakMB: middle(({ peakMB }) => peakMB),
    };
  });
}

function describeRun(results: readonly Result[]): string {
  return results.map(({ system, seconds }) => `${system} ${seconds.toFixed(3)} s`).join(', ');
}

class Runner {
  readonly #plan: RunPlan;
  readonly #bases = new Set<string>();
  /** Peak memory of idle processes, in bytes. */
  readonly #idle = new Map<string, number>();

  constructor(plan: RunPlan) {
    this.#plan = plan;
  }

  async run(phase: Phase, system: string): Promise<Result[]> {
    const directory = join(this.#plan.directory, 'run');
    const base = await this.#base(phase, system);
    if (base === undefined) await mkdir(directory);
    else await cp(base, directory, { recursive: true });
    const idleBytes = await this.#idleBytes(phase, system);
    const { results, peakBytes } = await this.#work('run', phase, system, directory);
    await rm(directory, { recursive: true });
    // The difference of two processes may be slightly negative.
    const peakMB = Math.max(0, peakBytes - idleBytes) / 1e6;
    return results.map((result) => ({ phase: phase.name, ...result, peakMB }));
  }

  /**
   * The directory of a phase's base, which every run copies. Undefined if the phase has no base.
   */
  async #base({ base, ...phase }: Phase, system: string): Promise<string | undefined> {
    if (base === undefined) return undefined;
    const name = base.kind === 'log' ? 'log' : `${system}-${base.scale}-${base.edits}`;
    const directory = join(this.#plan.directory, name);
    if (!this.#bases.has(name)) {
      this.#plan.onProgress(`preparing ${name}`);
      await mkdir(directory);
      await this.#work('prepare', { ...phase, base }, system, directory);
      this.#bases.add(name);
    }
    return directory;
  }

  async #idleBytes(phase: Phase, system: string): Promise<number> {
    const name = `${phase.work.kind} ${system}`;
    const known = this.#idle.get(name);
    if (known !== undefined) return known;
    const peaks: number[] = [];
    for (let i = 0; i < IDLE_RUNS; i++) {
      peaks.push((await this.#work('idle', phase, system, this.#plan.directory)).peakBytes);
    }
    const bytes = median(peaks);
    this.#idle.set(name, bytes);
    return bytes;
  }

  async #work(kind: Task['kind'], phase: Phase, system: string, directory: string): Promise<Report> {
    const task: Task = { kind, phase: phase.name, system, rows: this.#plan.rows, directory };
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', WORKER, JSON.stringify(task)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      signal: this.#plan.signal,
    });
    const { promise: ended, resolve, reject } = Promise.withResolvers<number | null>();
    child.once('error', reject);
    child.once('close', resolve);
    const [code, printed] = await Promise.all([ended, text(child.stdout)]);
    if (code !== 0) throw new Error(`${kind} ${phase.name} ${system} ended with exit code ${code}`);
    return reportSchema.parse(JSON.parse(printed));
  }
}
