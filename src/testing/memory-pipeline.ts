import type { MemoryLogStore } from '../adapters/memory/log-store.ts';
import type { Logs, LogsDeps } from '../client/logs.ts';
import { FoldFailedError, type LogfoldError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { DivisionPolicy } from '../log/division-policy.ts';
import type { ReservedTypes } from '../log/entry.ts';
import type { LogStore } from '../log/log-store.ts';
import type { RetentionPolicy } from '../retention/retention-policy.ts';
import type { Reducer } from '../state/reducer.ts';
import { describeJobResult } from '../workers/dispatch/run-job.ts';
import { SweepRunner } from '../workers/dispatch/sweep-runner.ts';
import { FeedWriter } from '../workers/feed/feed-writer.ts';

/** The stores and the policies of a pipeline in memory. */
export interface MemoryPipelineDeps extends LogsDeps {
  readonly tables: LogStore;
  readonly types: ReservedTypes;
  /** The tables that lose their expired entries. */
  readonly expiring: readonly MemoryLogStore[];
  readonly logs: Pick<Logs, 'open' | 'client'>;
  readonly reducer: Reducer | undefined;
  readonly division: DivisionPolicy;
  readonly retention: RetentionPolicy;
}

/** The pipeline of logs in memory. It runs only when a test calls {@link run}. */
export class MemoryPipeline {
  readonly #deps: MemoryPipelineDeps;
  readonly #feed: FeedWriter;

  constructor(deps: MemoryPipelineDeps) {
    this.#deps = deps;
    this.#feed = new FeedWriter(deps);
  }

  /**
   * Does everything that is due in all logs, with the code of a deployment. The division policy
   * makes Snapshot entries and segments due, and the retention policy archives and expiry. Pending
   * snapshots, the feed and garbage are always due. Then removes the entries whose time to live is
   * over.
   * @returns the jobs that had something to do, in words, for people
   * @throws UsageError if `openLogs` got no reducer
   * @throws FoldFailedError, or another error that stops a log, if the reducer cannot fold an entry
   * @throws LogsClosedError after `close`
   */
  async run(): Promise<readonly string[]> {
    const { logs, reducer, retention, expiring, now } = this.#deps;
    // Throws if the logs are closed.
    void logs.client;
    if (reducer === undefined) {
      throw new UsageError('the pipeline has no reducer', { advice: 'Give openLogs the option `reducer`' });
    }
    const done: string[] = [];
    const failures: LogfoldError[] = [];
    const stopped = new Map<LogId, string>();
    const runner = new SweepRunner({
      ...this.#deps,
      reducer,
      policyOf: () => retention,
      feed: this.#feed,
      dryRun: false,
      onDue: () => undefined,
      onResult: (job, result) => {
        if (result.outcome === 'stopped') stopped.set(job.log, result.stop.message);
        const text = describeJobResult(job, result);
        if (text !== undefined) done.push(text);
      },
      onFailure: (_, error) => void failures.push(error),
      onLogs: () => undefined,
      onFed: (spans) => {
        if (spans > 0) done.push(`feed: ${spans} added`);
      },
    });
    await runner.run({});
    for (const tables of expiring) tables.expireNow(now() / 1000);
    for (const [log, reason] of stopped) {
      // Throws the error itself, with what the reducer threw.
      (await logs.open(log, { reducer })).close();
      throw new FoldFailedError(reason, { log });
    }
    if (failures[0] !== undefined) throw failures[0];
    return done;
  }
}
