import { SegmentStateError } from '../../../src/errors.ts';
import { isInjected } from './client.ts';
import type { Pipeline } from './pipeline.ts';
import type { Ports, World } from './world.ts';

/**
 * Far more than any history takes. Most take 20,000. The segments of a mapped log may have one item
 * each, and every expire job reads all segments, an operation each: the longest of 5,000 histories
 * took 189,000. So a history that passes this limit repeats something.
 */
const MAX_STEPS = 500_000;

/** The part of a world that processes need. */
type SimWorld<P> = Pick<World, 'scheduler' | 'random'> & { start(name: string): P };

/** The processes of one simulated history, and the pipeline that some of them share. */
export class SimProcesses<P extends Ports = Ports> {
  readonly pipeline: Pipeline = {
    inHand: [],
    draining: false,
    closing: false,
    spawn: (name, life) => this.live(name, life, 'once'),
  };
  readonly #world: SimWorld<P>;
  #living = 0;
  /** The first error that ended a process. */
  #failure: { readonly error: unknown } | undefined;

  constructor(world: SimWorld<P>) {
    this.#world = world;
  }

  /**
   * Steps until all processes and their requests have ended.
   * @throws the first error that ended a process
   */
  async run(afterStep: () => void | Promise<void>, maxSteps = MAX_STEPS): Promise<void> {
    const { scheduler } = this.#world;
    for (let steps = 0; this.#living > 0 && this.#failure === undefined; steps++) {
      if (steps > maxSteps) throw new Error(`the history does not end within ${maxSteps} steps`);
      if (!(await scheduler.step())) throw new Error('a process waits for an event that never comes');
      await afterStep();
    }
    // Requests that crashed or timed-out processes had sent may still arrive.
    while (this.#failure === undefined && (await scheduler.step())) await afterStep();
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /**
   * Runs a process that restarts after each crash. With `always` it also restarts after each normal
   * end, until the pipeline closes.
   */
  live(name: string, life: (ports: P) => Promise<void>, restart: 'once' | 'crashed' | 'always' = 'crashed'): void {
    const { scheduler, random } = this.#world;
    const lives = async (): Promise<void> => {
      for (;;) {
        const ports = this.#world.start(name);
        const lived = life(ports).then(
          () => 'over' as const,
          (error: unknown) => {
            // Two workers changed a segment at the same time. The later one ends, and its job is
            // delivered again.
            if (isInjected(error) || error instanceof SegmentStateError) return 'over' as const;
            throw error;
          },
        );
        const end = await Promise.race([lived, ports.process.crashed.then(() => 'crashed' as const)]);
        if (restart === 'once' || (end === 'over' && restart === 'crashed') || this.pipeline.closing) return;
        await scheduler.sleep(random.integer(0, end === 'crashed' ? 30_000 : 1_000));
      }
    };
    this.start(lives());
  }

  /** Counts a process until it ends. */
  start(process: Promise<void>): void {
    this.#living++;
    process
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        this.#living--;
      });
  }

  /** Ends the history with an error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
  }
}
