import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { Logs } from '../../src/client/logs.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { completeSnapshot, type SnapshotResult } from '../../src/workers/snapshot/build-snapshot.ts';
import { NOON } from './logs.ts';
import { Random } from './models/random.ts';
import { testDeployment } from './test-deployment.ts';

/** Logs on memory adapters, and a worker that folds them with a reducer when a test asks for it. */
export class FoldedLogs {
  readonly blobs = new MemoryBlobStore();
  readonly #deployment;
  #clients = 0;

  constructor(reducer: Reducer) {
    const { blobs } = this;
    this.#deployment = testDeployment({ tables: new MemoryLogStore(), blobs, reducer });
  }

  /** Another client, as in another process. */
  logs(): Logs {
    const random = new Random(++this.#clients);
    let nowMs = NOON * 1000;
    // Lets other work run, as a real wait does.
    const sleep = async (ms: number) => {
      nowMs += ms;
      await new Promise((resolve) => setImmediate(resolve));
    };
    return new Logs({ ...this.#deployment, sleep, now: () => nowMs, random: () => random.next() });
  }

  /** Asks for a snapshot of each log, and builds it. */
  async snapshotAll(): Promise<void> {
    for await (const { log } of this.logs().list()) await this.snapshot(log);
  }

  /** Asks for a snapshot of a log, and builds it. */
  async snapshot(log: LogId): Promise<SnapshotResult> {
    const { position } = await this.logs().client.addSnapshot(log);
    return completeSnapshot(this.#deployment, { kind: 'snapshot', log, position });
  }
}
