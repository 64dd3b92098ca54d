import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { backoffMs } from '../../src/log/backoff.ts';
import type { JobQueue, ReceivedMessage } from '../../src/store/job-queue.ts';
import { type ConsumeOutcome, consume, JOB_BACKOFF } from '../../src/workers/dispatch/consume-jobs.ts';

const VISIBILITY_MS = 60_000;

/** Consumes until `enough` says so of the outcomes so far, and gives them back. */
async function consumeUntil(
  enough: (outcomes: readonly ConsumeOutcome[]) => boolean,
  options: {
    readonly queue: JobQueue;
    readonly handle: (message: ReceivedMessage, signal: AbortSignal) => Promise<void>;
    readonly concurrency?: number;
    readonly visibilityMs?: number;
  },
): Promise<ConsumeOutcome[]> {
  const outcomes: ConsumeOutcome[] = [];
  const stop = new AbortController();
  await consume({
    concurrency: 1,
    visibilityMs: VISIBILITY_MS,
    backoff: { baseMs: 0, capMs: 0 },
    ...options,
    signal: stop.signal,
    report: (outcome) => {
      outcomes.push(outcome);
      if (enough(outcomes)) stop.abort();
    },
  });
  return outcomes;
}

async function send(queue: JobQueue, ...messages: readonly string[]): Promise<void> {
  for (const body of messages) await queue.send({ group: body.charAt(0), body, deduplicationId: body });
}

function summary(outcomes: readonly ConsumeOutcome[]): string[] {
  return outcomes.map(({ kind, message }) => `${kind} ${message.body} ${message.receiveCount}`);
}

describe('consume', () => {
  test('it handles every message once and each group in order, and leaves nothing behind', async () => {
    const queue = new MemoryJobQueue();
    await send(queue, 'a1', 'b1', 'a2', 'b2', 'a3', 'c1');
    const handled: string[] = [];
    const outcomes = await consumeUntil((all) => all.length === 6, {
      queue,
      concurrency: 2,
      handle: async (message) => {
        handled.push(message.body);
      },
    });
    expect(handled.filter((body) => body.startsWith('a'))).toEqual(['a1', 'a2', 'a3']);
    expect(handled.filter((body) => body.startsWith('b'))).toEqual(['b1', 'b2']);
    expect(new Set(outcomes.map((outcome) => outcome.kind))).toEqual(new Set(['done']));
    expect(queue.stats()).toEqual({ waiting: 0, inFlight: 0, dead: 0 });
  });

  test('it works on as many groups concurrently as allowed, and never on two messages of one', async () => {
    const queue = new MemoryJobQueue();
    await send(queue, 'a1', 'a2', 'b1', 'b2', 'c1', 'c2', 'd1', 'd2');
    const busy: string[] = [];
    let most = 0;
    await consumeUntil((all) => all.length === 8, {
      queue,
      concurrency: 3,
      handle: async ({ group }) => {
        expect(busy).not.toContain(group);
        busy.push(group);
        most = Math.max(most, busy.length);
        await new Promise((resolve) => setTimeout(resolve, 5));
        busy.splice(busy.indexOf(group), 1);
      },
    });
    expect(most).toBe(3);
  });

  test('a failing group delays no other, and its message moves to the dead letters after the last delivery', {
    tags: ['I6'],
  }, async () => {
    const queue = new MemoryJobQueue({ maxReceives: 3 });
    await send(queue, 'x1', 'x2', 'a1', 'b1', 'a2');
    const poison = new Error('cannot fold');
    const outcomes = await consumeUntil((all) => all.filter(({ kind }) => kind === 'done').length === 4, {
      queue,
      handle: async (message) => {
        if (message.body === 'x1') throw poison;
      },
    });
    const kinds = summary(outcomes);
    expect(kinds.filter((line) => line.startsWith('failed'))).toEqual(['failed x1 1', 'failed x1 2', 'failed x1 3']);
    // Messages after the failing message were not counted as received during its retries.
    expect(kinds).toContain('done x2 1');
    expect(outcomes.find(({ kind }) => kind === 'failed')).toMatchObject({ error: poison, retryMs: 0 });
    expect(queue.stats()).toEqual({ waiting: 0, inFlight: 0, dead: 1 });
    expect(await queue.deadLetters?.receive({ max: 1, visibilityMs: 1 })).toMatchObject([{ group: 'x', body: 'x1' }]);
  });

  test('other groups go on while a failed message waits for its next delivery', { tags: ['I6'] }, async () => {
    const queue = new MemoryJobQueue();
    await send(queue, 'x1', 'x2', 'a1', 'a2', 'a3');
    const stop = new AbortController();
    const done: string[] = [];
    const waits: number[] = [];
    await consume({
      queue,
      concurrency: 1,
      visibilityMs: VISIBILITY_MS,
      signal: stop.signal,
      handle: async (message) => {
        if (message.group === 'x') throw new Error('not now');
      },
      report: (outcome) => {
        if (outcome.kind === 'failed') waits.push(outcome.retryMs);
        if (outcome.kind === 'done') done.push(outcome.message.body);
        if (done.length === 3) stop.abort();
      },
    });
    expect(done).toEqual(['a1', 'a2', 'a3']);
    expect(waits).toEqual([JOB_BACKOFF.baseMs]);
    expect(queue.stats()).toEqual({ waiting: 1, inFlight: 1, dead: 0 });
  });

  test('the message of a consumer that died is delivered again', async () => {
    const clock = { now: 0 };
    const queue = new MemoryJobQueue({ now: () => clock.now });
    await send(queue, 'a1');
    await queue.receive({ max: 1, visibilityMs: VISIBILITY_MS });
    clock.now += VISIBILITY_MS;
    const outcomes = await consumeUntil((all) => all.length === 1, { queue, handle: async () => {} });
    expect(summary(outcomes)).toEqual(['done a1 2']);
  });

  test('a message stays invisible for as long as its handler runs', async () => {
    const clock = { now: 0 };
    const queue = new MemoryJobQueue({ now: () => clock.now });
    let renewals = 0;
    let enough = (): void => {};
    const renewedOften = new Promise<void>((resolve) => {
      enough = resolve;
    });
    const spied: JobQueue = {
      send: (message) => queue.send(message),
      depth: () => queue.depth(),
      receive: (options) => queue.receive(options),
      delete: (receipt) => queue.delete(receipt),
      async changeVisibility(receipt, visibilityMs) {
        await queue.changeVisibility(receipt, visibilityMs);
        // Six thirds: twice the visibility timeout.
        clock.now += visibilityMs / 3;
        if (++renewals === 6) enough();
      },
    };
    await send(queue, 'a1');
    const outcomes = await consumeUntil((all) => all.length === 1, {
      queue: spied,
      concurrency: 2,
      visibilityMs: 30,
      handle: () => renewedOften,
    });
    expect(summary(outcomes)).toEqual(['done a1 1']);
  });

  test('a message that was lost to another consumer aborts its handler, and is reported as late', async () => {
    const clock = { now: 0 };
    const queue = new MemoryJobQueue({ now: () => clock.now });
    await send(queue, 'a1');
    const outcomes = await consumeUntil((all) => all.length === 1, {
      queue,
      visibilityMs: 30,
      handle: async (_message, signal) => {
        clock.now += 30;
        await once(signal, 'abort');
      },
    });
    expect(summary(outcomes)).toEqual(['late a1 1']);
    expect(queue.stats()).toEqual({ waiting: 1, inFlight: 0, dead: 0 });
  });

  test('at shutdown, a handler that finishes is done and one that gives up releases its message immediately', async () => {
    const queue = new MemoryJobQueue();
    await send(queue, 'a1', 'b1', 'b2');
    const stop = new AbortController();
    const outcomes: ConsumeOutcome[] = [];
    const atWork = new Set<string>();
    await consume({
      queue,
      concurrency: 2,
      visibilityMs: VISIBILITY_MS,
      signal: stop.signal,
      report: (outcome) => outcomes.push(outcome),
      handle: async (message, signal) => {
        atWork.add(message.group);
        const aborted = once(signal, 'abort');
        if (atWork.size === 2) stop.abort();
        await aborted;
        if (message.group === 'b') signal.throwIfAborted();
      },
    });
    expect(summary(outcomes).sort()).toEqual(['done a1 1', 'released b1 1']);
    expect(queue.stats()).toEqual({ waiting: 2, inFlight: 0, dead: 0 });
  });

  test('if the queue fails, it ends with that error after the running handlers', async () => {
    const queue = new MemoryJobQueue();
    await send(queue, 'a1');
    const outage = new Error('queue unreachable');
    let calls = 0;
    const broken: JobQueue = {
      send: (message) => queue.send(message),
      depth: () => queue.depth(),
      receive: (options) => (++calls === 1 ? queue.receive(options) : Promise.reject(outage)),
      delete: (receipt) => queue.delete(receipt),
      changeVisibility: (receipt, visibilityMs) => queue.changeVisibility(receipt, visibilityMs),
    };
    await expect(consumeUntil(() => false, { queue: broken, concurrency: 3, handle: async () => {} })).rejects.toBe(
      outage,
    );
    expect(queue.stats().waiting + queue.stats().inFlight).toBe(0);
  });

  test('backoff doubles from a second to five minutes', () => {
    const pauses = [1, 2, 3, 9, 10, 1000].map((failures) => backoffMs(JOB_BACKOFF, failures));
    expect(pauses).toEqual([1000, 2000, 4000, 256_000, 300_000, 300_000]);
  });
});
