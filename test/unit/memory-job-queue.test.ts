import { expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';

/** Sends a message to a group. Each has its own deduplication id. */
async function send(queue: MemoryJobQueue, group: string, body = group): Promise<void> {
  await queue.send({ group, body, deduplicationId: `${group}/${body}` });
}

async function receive(queue: MemoryJobQueue) {
  const [message] = await queue.receive({ max: 1, visibilityMs: 1_000 });
  if (message === undefined) throw new Error('the queue returned no message');
  return message;
}

test('the oldest message is the first one that is neither deleted nor continued', async () => {
  const queue = new MemoryJobQueue();
  expect(queue.oldest).toBeUndefined();
  for (const group of ['a', 'b', 'c']) await send(queue, group);
  const [a, b, c] = [await receive(queue), await receive(queue), await receive(queue)];
  await queue.delete(b.receipt);
  expect([queue.oldest, queue.sent]).toEqual([1, 3]);
  // The work of `a` goes on as another message, and as one that follows from that.
  for (const [from, body] of [
    [a, 'second part'],
    [undefined, 'third part'],
  ] as const) {
    const message = from ?? (await receive(queue));
    await queue.sendFollowing(message.id, { group: 'a', body, deduplicationId: body });
    await queue.delete(message.receipt);
    expect(queue.oldest).toBe(1);
  }
  await queue.delete((await receive(queue)).receipt);
  expect(queue.oldest).toBe(3);
  await queue.delete(c.receipt);
  expect(queue.oldest).toBeUndefined();
});

test('a dead message stays the oldest until it is deleted from the dead-letter queue', async () => {
  const queue = new MemoryJobQueue({ maxReceives: 1 });
  await send(queue, 'bad');
  await send(queue, 'good');
  await queue.changeVisibility((await receive(queue)).receipt, 0);
  const good = await receive(queue);
  expect(await queue.receive({ max: 1, visibilityMs: 1_000 })).toEqual([]);
  const [dead] = (await queue.deadLetters?.receive({ max: 1, visibilityMs: 1_000 })) ?? [];
  expect(queue.oldest).toBe(1);
  await queue.deadLetters?.delete(dead?.receipt ?? '');
  expect(queue.oldest).toBe(2);
  await queue.delete(good.receipt);
  expect(queue.oldest).toBeUndefined();
});
