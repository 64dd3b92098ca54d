import { setTimeout as sleep } from 'node:timers/promises';
import { ReceiptExpiredError } from '../../errors.ts';
import type { JobQueue, ReceivedMessage } from '../../store/job-queue.ts';

/** What became of one delivery of a message. */
export type ConsumeOutcome =
  /** Handled and deleted. */
  | { readonly kind: 'done'; readonly message: ReceivedMessage }
  /** The handler failed. The message comes again after `retryMs`, or ends in the dead-letter queue. */
  | { readonly kind: 'failed'; readonly message: ReceivedMessage; readonly error: unknown; readonly retryMs: number }
  /** Handled, but too late to be deleted: the message comes again. */
  | { readonly kind: 'late'; readonly message: ReceivedMessage; readonly error: ReceiptExpiredError }
  /** The handler gave up because of the shutdown. The message is visible to other consumers at once. */
  | { readonly kind: 'released'; readonly message: ReceivedMessage };

export interface ConsumeOptions {
  readonly queue: JobQueue;
  /**
   * Does the work; rejecting means that the message shall come again. The signal is aborted at shutdown and when the
   * message may have gone to another consumer meanwhile: a handler that takes long does well to watch it.
   */
  readonly handle: (message: ReceivedMessage, signal: AbortSignal) => Promise<void>;
  /** How many messages, and so how many groups, are handled at once. */
  readonly concurrency: number;
  /** For how long a message stays invisible after this process has died, in milliseconds. */
  readonly visibilityMs: number;
  /** Stops receiving; `consume` resolves when the handlers at work have finished. */
  readonly signal: AbortSignal;
  readonly report: (outcome: ConsumeOutcome) => void;
  /** Longest wait of one receive, in milliseconds; 20 seconds by default. */
  readonly waitMs?: number | undefined;
  /** Pause before the next delivery of a message that failed, in milliseconds; `backoffMs` by default. */
  readonly backoffMs?: ((receiveCount: number) => number) | undefined;
}

/**
 * Exponential backoff: 1 second after the first failure, doubling up to 5 minutes. Without jitter, since the messages
 * of one group cannot collide and those of different groups do not compete for anything.
 */
export function backoffMs(receiveCount: number): number {
  return Math.min(1000 * 2 ** (receiveCount - 1), 300_000);
}

/**
 * Hands the messages of a queue to a handler until the signal is aborted: locally, what Lambda's event source mapping
 * does for SQS. A message is deleted once handled, kept invisible while its handler runs, and left to come again
 * where it fails.
 *
 * @throws whatever the queue itself throws, after the handlers at work have finished
 */
export async function consume(options: ConsumeOptions): Promise<void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const lanes = Array.from({ length: options.concurrency }, () =>
    runLane(options, signal).catch((error) => {
      // One lane that cannot reach the queue would leave the others to limp on unnoticed.
      stop.abort();
      throw error;
    }),
  );
  const failed = (await Promise.allSettled(lanes)).find((lane) => lane.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

async function runLane(options: ConsumeOptions, signal: AbortSignal): Promise<void> {
  const { queue, visibilityMs, waitMs = 20_000 } = options;
  while (!signal.aborted) {
    // One at a time: further messages of the group would be counted as received without having been tried, and so
    // die together with a poisoned one before them.
    const messages = await queue.receive({ max: 1, visibilityMs, waitMs, signal });
    for (const message of messages) options.report(await handleMessage(message, options, signal));
  }
}

async function handleMessage(
  message: ReceivedMessage,
  options: ConsumeOptions,
  shutdown: AbortSignal,
): Promise<ConsumeOutcome> {
  const settled = new AbortController();
  const lost = new AbortController();
  const heartbeat = keepInvisible(message, options, settled.signal).catch((error) => lost.abort(error));
  try {
    await options.handle(message, AbortSignal.any([shutdown, lost.signal]));
  } catch (error) {
    settled.abort();
    await heartbeat;
    return giveBack(message, options, { error, released: shutdown.aborted });
  }
  settled.abort();
  await heartbeat;
  try {
    await options.queue.delete(message.receipt);
    return { kind: 'done', message };
  } catch (error) {
    if (error instanceof ReceiptExpiredError) return { kind: 'late', message, error };
    throw error;
  }
}

async function giveBack(
  message: ReceivedMessage,
  options: ConsumeOptions,
  failure: { readonly error: unknown; readonly released: boolean },
): Promise<ConsumeOutcome> {
  const retryMs = failure.released ? 0 : (options.backoffMs ?? backoffMs)(message.receiveCount);
  try {
    await options.queue.changeVisibility(message.receipt, retryMs);
  } catch (error) {
    // Visible again already, which is all that giving it back would do.
    if (!(error instanceof ReceiptExpiredError)) throw error;
  }
  if (failure.released) return { kind: 'released', message };
  return { kind: 'failed', message, error: failure.error, retryMs };
}

/** Renews a message's visibility timeout until the signal is aborted; rejects where that fails. */
async function keepInvisible(message: ReceivedMessage, options: ConsumeOptions, until: AbortSignal): Promise<void> {
  while (!until.aborted) {
    try {
      await sleep(options.visibilityMs / 3, undefined, { signal: until });
    } catch (error) {
      if (until.aborted) return;
      throw error;
    }
    await options.queue.changeVisibility(message.receipt, options.visibilityMs);
  }
}
