import { setTimeout as sleep } from 'node:timers/promises';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { SqsJobQueue } from '../../src/adapters/sqs/job-queue.ts';
import { CredentialsError, ReceiptExpiredError, ResourceMissingError } from '../../src/errors.ts';
import { DEDUPLICATION_MS, type JobQueue, type ReceivedMessage } from '../../src/store/job-queue.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';

const MAX_RECEIVES = 2;
const VISIBILITY_MS = 1000;

interface Queues {
  readonly queue: JobQueue;
  readonly deadLetters: JobQueue;
}

interface Backend {
  readonly name: string;
  open(): Promise<Queues>;
  close(): Promise<void>;
  /** Advances the queue's clock, in milliseconds. */
  elapse(ms: number): Promise<void>;
}

function memory(): Backend {
  let ahead = 0;
  return {
    name: 'memory',
    async open() {
      const queue = new MemoryJobQueue({ now: () => Date.now() + ahead, maxReceives: MAX_RECEIVES });
      if (queue.deadLetters === undefined) throw new Error('no dead-letter queue');
      return { queue, deadLetters: queue.deadLetters };
    },
    close: async () => {},
    async elapse(ms) {
      ahead += ms;
    },
  };
}

function sqs(): Backend {
  let aws: LocalAws;
  let queues = 0;
  return {
    // SQS accepts characters beyond U+FFFF too. There a waiting receive that finds its message
    // taken continues to wait.
    name: 'SQS (fauxqs; no characters beyond U+FFFF; a message ends all waiting receives)',
    async open() {
      aws ??= await startLocalAws();
      const name = `jobs-${++queues}`;
      const dead = aws.server.createQueue(`${name}-dead.fifo`, { attributes: { FifoQueue: 'true' } });
      const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: dead.queueArn, maxReceiveCount: MAX_RECEIVES });
      const live = aws.server.createQueue(`${name}.fifo`, { attributes: { FifoQueue: 'true', RedrivePolicy } });
      return {
        queue: new SqsJobQueue({ client: aws.sqs, queueUrl: live.queueUrl }),
        deadLetters: new SqsJobQueue({ client: aws.sqs, queueUrl: dead.queueUrl }),
      };
    },
    close: () => aws.stop(),
    elapse: (ms) => sleep(ms + 20),
  };
}

describe.each([memory(), sqs()])('job queue: $name', (backend) => {
  let queue: JobQueue;
  let deadLetters: JobQueue;

  beforeEach(async () => {
    ({ queue, deadLetters } = await backend.open());
  });
  afterAll(() => backend.close());

  const send = (group: string, body: string): Promise<void> => {
    return queue.send({ group, body, deduplicationId: `${group}/${body}` });
  };
  const receive = (from: JobQueue = queue, max = 10): Promise<ReceivedMessage[]> => {
    return from.receive({ max, visibilityMs: VISIBILITY_MS });
  };
  const receiveOne = async (from: JobQueue = queue): Promise<ReceivedMessage> => {
    const [message, ...others] = await receive(from, 1);
    expect(others).toEqual([]);
    if (message === undefined) throw new Error('the queue gave out nothing');
    return message;
  };
  const bodies = (messages: readonly ReceivedMessage[]): string[] => messages.map((message) => message.body);

  test('a message arrives as it was sent', async () => {
    const before = Date.now();
    await send('g', '{"text":"ünï → 字"}');
    const message = await receiveOne();
    expect(message).toMatchObject({ group: 'g', body: '{"text":"ünï → 字"}', receiveCount: 1 });
    expect(message.sentMs).toBeGreaterThanOrEqual(before);
  });

  test('an empty queue returns nothing', async () => {
    expect(await receive()).toEqual([]);
  });

  test('a group arrives in order, and no message of it while another is in flight', async () => {
    for (const body of ['1', '2', '3']) await send('g', body);
    const seen: string[] = [];
    while (seen.length < 3) {
      const message = await receiveOne();
      expect(await receive()).toEqual([]);
      seen.push(message.body);
      await queue.delete(message.receipt);
    }
    expect(seen).toEqual(['1', '2', '3']);
    expect(await receive()).toEqual([]);
  });

  test('a group in flight holds up no other group', async () => {
    await send('a', '1');
    await send('a', '2');
    await receiveOne();
    await send('b', '1');
    await send('c', '1');
    expect((await receive()).map((message) => message.group).sort()).toEqual(['b', 'c']);
  });

  test('a receive returns at most the requested number of messages', async () => {
    for (const group of ['a', 'b', 'c']) await send(group, '1');
    expect(await receive(queue, 2)).toHaveLength(2);
    expect(await receive(queue, 2)).toHaveLength(1);
  });

  test('a receive returns a message once, even if it is visible again immediately', async () => {
    await send('a', '1');
    await send('b', '1');
    const messages = await queue.receive({ max: 10, visibilityMs: 0 });
    expect(messages.map((message) => message.group).sort()).toEqual(['a', 'b']);
    expect(await receive()).toMatchObject([{ receiveCount: 2 }, { receiveCount: 2 }]);
  });

  test('a message that is not deleted is delivered again, before the rest of its group, and is counted', async () => {
    await send('g', '1');
    await send('g', '2');
    const first = await receiveOne();
    await backend.elapse(VISIBILITY_MS);
    const again = await receiveOne();
    expect(again).toMatchObject({ id: first.id, body: '1', receiveCount: 2 });
    expect(again.receipt).not.toBe(first.receipt);
  });

  test('a receipt of an earlier delivery deletes nothing', async () => {
    await send('g', '1');
    const first = await receiveOne();
    await backend.elapse(VISIBILITY_MS);
    const again = await receiveOne();
    await queue.delete(first.receipt).catch((error: unknown) => expect(error).toBeInstanceOf(ReceiptExpiredError));
    await queue.changeVisibility(again.receipt, 0);
    await expect(queue.changeVisibility(first.receipt, 0)).rejects.toBeInstanceOf(ReceiptExpiredError);
    // The message still exists: this is its third delivery.
    expect(await receive()).toEqual([]);
    expect(bodies(await receive(deadLetters))).toEqual(['1']);
  });

  test('the depth counts waiting and delivered messages, and no dead letters', async () => {
    expect(await queue.depth()).toBe(0);
    for (const body of ['1', '2', '3']) await send('g', body);
    await send('h', '1');
    expect(await queue.depth()).toBe(4);
    const messages = await receive();
    expect(messages.length).toBeGreaterThan(0);
    expect(await queue.depth()).toBe(4);
    for (const { receipt } of messages) await queue.delete(receipt);
    expect(await queue.depth()).toBe(4 - messages.length);
    await send('dying', '1');
    const before = await queue.depth();
    for (let i = 0; i <= MAX_RECEIVES; i++) {
      for (const { receipt, group } of await receive()) {
        if (group === 'dying') await queue.changeVisibility(receipt, 0);
        else await queue.changeVisibility(receipt, VISIBILITY_MS * 60);
      }
    }
    expect(await receive(deadLetters)).toMatchObject([{ group: 'dying' }]);
    expect(await queue.depth()).toBe(before - 1);
  });

  test('a second deletion is not an error', async () => {
    await send('g', '1');
    const { receipt } = await receiveOne();
    await queue.delete(receipt);
    await queue.delete(receipt);
    await backend.elapse(VISIBILITY_MS);
    expect(await receive()).toEqual([]);
  });

  test('visibility can be extended', async () => {
    await send('g', '1');
    const { receipt } = await receiveOne();
    await queue.changeVisibility(receipt, VISIBILITY_MS * 60);
    await backend.elapse(VISIBILITY_MS);
    expect(await receive()).toEqual([]);
    await queue.delete(receipt);
  });

  test('a message can be made visible immediately', async () => {
    await send('g', '1');
    await send('g', '2');
    const { receipt } = await receiveOne();
    await queue.changeVisibility(receipt, 0);
    expect(await receiveOne()).toMatchObject({ body: '1', receiveCount: 2 });
  });

  test('a message that was received too often dies with its group and body, and its group goes on', async () => {
    await send('g', '1');
    await send('g', '2');
    const { id } = await receiveOne();
    for (let i = 1; i < MAX_RECEIVES; i++) {
      await backend.elapse(VISIBILITY_MS);
      expect((await receiveOne()).body).toBe('1');
    }
    expect(await receive(deadLetters)).toEqual([]);
    await backend.elapse(VISIBILITY_MS);
    expect(await receiveOne()).toMatchObject({ body: '2', receiveCount: 1 });
    const dead = await receiveOne(deadLetters);
    expect(dead).toMatchObject({ id, group: 'g', body: '1' });
    await deadLetters.delete(dead.receipt);
    await backend.elapse(VISIBILITY_MS);
    expect(await receive(deadLetters)).toEqual([]);
  });

  test('a deduplication id is accepted once, even after the message was deleted; another id is a new message', async () => {
    await queue.send({ group: 'g', body: 'job', deduplicationId: 'one' });
    await queue.send({ group: 'g', body: 'job', deduplicationId: 'one' });
    await queue.delete((await receiveOne()).receipt);
    expect(await receive()).toEqual([]);
    await queue.send({ group: 'g', body: 'job', deduplicationId: 'one' });
    expect(await receive()).toEqual([]);
    await queue.send({ group: 'g', body: 'job', deduplicationId: 'two' });
    expect(bodies(await receive())).toEqual(['job']);
  });

  test('a dead message keeps its deduplication id', async () => {
    await send('g', '1');
    for (let i = 0; i < MAX_RECEIVES; i++) await queue.changeVisibility((await receiveOne()).receipt, 0);
    expect(await receive()).toEqual([]);
    await send('g', '1');
    expect(await receive()).toEqual([]);
    expect(await receive(deadLetters)).toHaveLength(1);
  });

  describe('a waiting receive', () => {
    const wait = (signal?: AbortSignal): Promise<ReceivedMessage[]> => {
      return queue.receive({ max: 1, visibilityMs: VISIBILITY_MS, waitMs: 15_000, signal });
    };

    test('it wakes when a message is sent', async () => {
      const waiting = wait();
      await send('g', '1');
      expect(bodies(await waiting)).toEqual(['1']);
    });

    test('it wakes when the message that blocks its group is deleted', async () => {
      await send('g', '1');
      await send('g', '2');
      const { receipt } = await receiveOne();
      const waiting = wait();
      await queue.delete(receipt);
      expect(bodies(await waiting)).toEqual(['2']);
    });

    test('it wakes when a message becomes visible again', async () => {
      await send('g', '1');
      await receiveOne();
      expect(await wait()).toMatchObject([{ body: '1', receiveCount: 2 }]);
    });

    test('it returns nothing after its wait', async () => {
      expect(await queue.receive({ max: 1, visibilityMs: VISIBILITY_MS, waitMs: 1000 })).toEqual([]);
    });

    test('it ends when it is aborted, and takes nothing', async () => {
      const abort = new AbortController();
      const waiting = wait(abort.signal);
      abort.abort();
      expect(await waiting).toEqual([]);
    });

    test('each message goes to one of several', async () => {
      const waitLong = async (): Promise<ReceivedMessage[]> => {
        let messages: ReceivedMessage[] = [];
        while (messages.length === 0) messages = await wait();
        return messages;
      };
      const waiting = [waitLong(), waitLong()];
      await send('a', '1');
      await send('b', '1');
      const groups = (await Promise.all(waiting)).flat().map((message) => message.group);
      expect(groups.sort()).toEqual(['a', 'b']);
    });
  });
});

// The emulator differs from SQS here, so only the reference can show the behaviour. The emulator
// delivers at most one message of a group per receive, and accepts a delete with an expired
// receipt. Its five minutes of deduplication cannot be shortened.
describe('job queue: memory, if the emulator differs from SQS', () => {
  function open(): { queue: MemoryJobQueue; clock: { now: number } } {
    const clock = { now: 1_000_000 };
    return { queue: new MemoryJobQueue({ now: () => clock.now, maxReceives: 5 }), clock };
  }

  async function sendAll(queue: JobQueue, messages: readonly string[]): Promise<void> {
    for (const message of messages) {
      const [group = ''] = message;
      await queue.send({ group, body: message, deduplicationId: message });
    }
  }

  test('one receive returns several messages of a group, in order, and fills up with other groups', async () => {
    const { queue } = open();
    await sendAll(queue, ['a1', 'b1', 'a2', 'b2', 'a3']);
    const messages = await queue.receive({ max: 4, visibilityMs: 1000 });
    expect(messages.map((message) => message.body)).toEqual(['a1', 'a2', 'a3', 'b1']);
    expect(await queue.receive({ max: 4, visibilityMs: 1000 })).toEqual([]);
  });

  test('a group stays closed until its last delivered message is deleted or visible', async () => {
    const { queue, clock } = open();
    await sendAll(queue, ['a1', 'a2', 'a3']);
    const [first, second] = await queue.receive({ max: 2, visibilityMs: 1000 });
    await queue.changeVisibility(first?.receipt ?? '', 0);
    expect(await queue.receive({ max: 10, visibilityMs: 1000 })).toEqual([]);
    await queue.changeVisibility(second?.receipt ?? '', 500);
    clock.now += 500;
    const bodies = (await queue.receive({ max: 10, visibilityMs: 1000 })).map((message) => message.body);
    expect(bodies).toEqual(['a1', 'a2', 'a3']);
  });

  test('a group with a backlog does not starve the others', async () => {
    const { queue } = open();
    await sendAll(queue, ['a1', 'a2', 'a3', 'b1']);
    const seen: string[] = [];
    for (let i = 0; i < 4; i++) {
      const [message] = await queue.receive({ max: 1, visibilityMs: 1000 });
      seen.push(message?.body ?? 'nothing');
      await queue.delete(message?.receipt ?? '');
    }
    expect(seen).toEqual(['a1', 'b1', 'a2', 'a3']);
  });

  test('an expired receipt neither deletes nor extends', async () => {
    const { queue, clock } = open();
    await sendAll(queue, ['a1']);
    const [message] = await queue.receive({ max: 1, visibilityMs: 1000 });
    clock.now += 1000;
    await expect(queue.delete(message?.receipt ?? '')).rejects.toBeInstanceOf(ReceiptExpiredError);
    await expect(queue.changeVisibility(message?.receipt ?? '', 1000)).rejects.toBeInstanceOf(ReceiptExpiredError);
    expect(queue.stats()).toEqual({ waiting: 1, inFlight: 0, dead: 0 });
  });

  test('a deduplication id is free again five minutes after it was accepted', async () => {
    const { queue, clock } = open();
    await sendAll(queue, ['a1']);
    clock.now += DEDUPLICATION_MS - 1;
    await sendAll(queue, ['a1']);
    expect(queue.stats().waiting).toBe(1);
    clock.now += 1;
    await sendAll(queue, ['a1']);
    expect(queue.stats().waiting).toBe(2);
  });

  test('stats count waiting, delivered and dead messages', async () => {
    const { queue, clock } = open();
    await sendAll(queue, ['a1', 'a2', 'b1']);
    await queue.receive({ max: 1, visibilityMs: 1000 });
    expect(queue.stats()).toEqual({ waiting: 2, inFlight: 1, dead: 0 });
    for (let i = 0; i < 5; i++) {
      clock.now += 1000;
      await queue.receive({ max: 10, visibilityMs: 1000 });
    }
    clock.now += 1000;
    await queue.receive({ max: 10, visibilityMs: 1000 });
    expect(queue.stats()).toEqual({ waiting: 0, inFlight: 0, dead: 3 });
  });
});

describe('SQS job queue', () => {
  let aws: LocalAws;

  beforeEach(async () => {
    aws ??= await startLocalAws();
  });
  afterAll(() => aws.stop());

  test('every method names a missing queue', async () => {
    const queueUrl = `${aws.server.address}/000000000000/none.fifo`;
    const queue = new SqsJobQueue({ client: aws.sqs, queueUrl });
    const calls: (() => Promise<unknown>)[] = [
      () => queue.send({ group: 'g', body: 'b', deduplicationId: 'd' }),
      () => queue.receive({ max: 1, visibilityMs: 1000 }),
      () => queue.depth(),
      () => queue.delete('receipt'),
      () => queue.changeVisibility('receipt', 0),
    ];
    for (const call of calls) {
      const error = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ResourceMissingError);
      expect(error).toHaveProperty('message', expect.stringContaining(queueUrl));
    }
  });

  test('every method reports missing credentials', async () => {
    const client = new SQSClient({
      endpoint: aws.server.address,
      region: 'us-east-1',
      credentials: async () => {
        throw Object.assign(new Error('Could not load credentials'), { name: 'CredentialsProviderError' });
      },
    });
    const queue = new SqsJobQueue({ client, queueUrl: `${aws.server.address}/000000000000/any.fifo` });
    await expect(queue.receive({ max: 1, visibilityMs: 1000 })).rejects.toBeInstanceOf(CredentialsError);
  });
});
