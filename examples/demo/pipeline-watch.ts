import type { Environment } from '../../src/cli/environment.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { PipelineEvent } from '../../src/local/pipeline.ts';
import { runPipeline } from '../../src/local/pipeline.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import type { SnapshotResult } from '../../src/workers/snapshot/build-snapshot.ts';

export type BuiltSnapshot = Extract<SnapshotResult, { outcome: 'built' }> & { readonly ms: number };

/** Runs the pipeline, which reads the stream by itself, and observes its results. */
export class PipelineWatch {
  /** The built snapshots, in order. */
  readonly built: BuiltSnapshot[] = [];
  /** Jobs that failed and were delivered again. A job that always fails makes the pipeline fail. */
  retries = 0;
  /** Aborted when the pipeline fails. */
  readonly failed: AbortSignal;
  readonly #failure = new AbortController();
  readonly #stop = new AbortController();
  readonly #done = new Set<string>();
  readonly #running: Promise<void>;
  #wake = Promise.withResolvers<void>();

  constructor(environment: Environment, streamArn: string) {
    this.failed = this.#failure.signal;
    this.#running = runPipeline({
      streams: environment.streams,
      streamArn,
      checkpoints: environment.checkpoints(streamArn),
      jobs: { ...environment.deps, policyOf: () => DEFAULT_POLICY },
      concurrency: 2,
      untilIdle: false,
      signal: this.#stop.signal,
      onEvent: (event) => this.#see(event),
    });
    this.#running.catch((error: unknown) => this.#fail(error));
  }

  /**
   * Waits until the snapshot at a position is complete.
   * @throws the pipeline's error if it fails, or the signal's reason
   */
  async completed(position: Position, signal: AbortSignal, onProgress: (snapshots: number) => void): Promise<void> {
    const any = AbortSignal.any([signal, this.failed]);
    const aborted = Promise.withResolvers<void>();
    any.addEventListener('abort', () => aborted.resolve(), { once: true });
    while (!this.#done.has(formatPosition(position))) {
      any.throwIfAborted();
      onProgress(this.#done.size);
      await Promise.race([this.#wake.promise, aborted.promise]);
    }
    onProgress(this.#done.size);
  }

  /** Ends the pipeline. */
  async stop(): Promise<void> {
    this.#stop.abort();
    // The signal `failed` has reported an error.
    await this.#running.catch(() => {});
  }

  #see(event: PipelineEvent): void {
    switch (event.kind) {
      case 'job':
        return this.#seeJob(event);
      case 'failed':
        this.retries++;
        return;
      case 'dead':
        return this.#fail(new Error(`a job was given up: ${event.message.body}`));
      case 'record':
        return this.#fail(event.error);
      case 'discarded':
      case 'trimmed':
        return this.#fail(new Error(`stream records were lost: ${JSON.stringify(event)}`));
    }
  }

  #seeJob({ result, ms }: Extract<PipelineEvent, { kind: 'job' }>): void {
    if (result.outcome === 'stopped') return this.#fail(new Error(result.stop.message));
    if (result.outcome === 'built') this.built.push({ ...result, ms });
    if (result.outcome === 'progress') return;
    if (!('position' in result)) return;
    this.#done.add(formatPosition(result.position));
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  #fail(error: unknown): void {
    this.#failure.abort(error);
  }
}
