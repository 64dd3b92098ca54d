/** Work of a queue in memory whose steps `test/unit/growth.test.ts` compares at two sizes. */

import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import type { GrowingWork } from '../support/steps.ts';

async function fill(size: number, groupOf: (i: number) => string): Promise<MemoryJobQueue> {
  const queue = new MemoryJobQueue({ maxReceives: 5 });
  for (let i = 0; i < size; i++) await queue.send({ group: groupOf(i), body: '', deduplicationId: `${i}` });
  return queue;
}

/** Receives and deletes each message, and looks at the queue as the pipeline does. */
async function drain(queue: MemoryJobQueue): Promise<void> {
  while (queue.oldest !== undefined) {
    for (const { receipt } of await queue.receive({ max: 1, visibilityMs: 60_000 })) await queue.delete(receipt);
  }
}

/** A queue with one message in each of its groups. */
export const groups: GrowingWork = async (size) => {
  const queue = await fill(size, (i) => `group ${i}`);
  return () => drain(queue);
};

/** A queue with all messages in one group. */
export const oneGroup: GrowingWork = async (size) => {
  const queue = await fill(size, () => 'group');
  return () => drain(queue);
};

/** Receives of a queue whose groups are all in flight. */
export const inFlight: GrowingWork = async (size) => {
  const queue = await fill(size, (i) => `group ${i}`);
  const receive = () => queue.receive({ max: 1, visibilityMs: 60_000 });
  for (let i = 0; i < size; i++) await receive();
  return async () => {
    for (let i = 0; i < size; i++) await receive();
  };
};
