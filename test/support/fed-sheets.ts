import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { Logs } from '../../src/client/logs.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { decodeJob, type Job } from '../../src/workers/jobs/job.ts';
import { fedEnds } from './feed.ts';
import { newLogId, recordRequests } from './logs.ts';
import { SheetLogs } from './sheet-logs.ts';
import { testDeployment } from './test-deployment.ts';

/** Logs of sheets and their feed in memory, with what the jobs and sweeps of both need. */
export class FedSheets {
  readonly sheets = new SheetLogs();
  /** Names of the requests to the tables, in order. Clear it with `length = 0`. */
  readonly requests: string[] = [];
  readonly tables = recordRequests(withFeed(this.sheets.tables, new MemoryLogStore()), this.requests);
  readonly store = testDeployment({ tables: this.tables, blobs: this.sheets.blobs }).store;
  readonly deps = { ...this.sheets.deps, tables: this.tables, store: this.store };
  readonly logs = new Logs({ ...this.deps, sleep: async () => undefined, newLogId });
  readonly writer = new FeedWriter({ logs: this.logs, sleep: async () => undefined, random: Math.random });
  readonly queue = new MemoryJobQueue({ now: () => this.sheets.nowMs });

  /** How far each log is fed. */
  fed(): Promise<Record<string, string>> {
    return fedEnds(this.store);
  }

  /** The jobs in the queue, each taken out. */
  async jobs(): Promise<Job[]> {
    const jobs: Job[] = [];
    for (;;) {
      const messages = await this.queue.receive({ max: 10, visibilityMs: 60_000 });
      if (messages.length === 0) return jobs;
      for (const { body, receipt } of messages) {
        jobs.push(decodeJob(body));
        await this.queue.delete(receipt);
      }
    }
  }
}
