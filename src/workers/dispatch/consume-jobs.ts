import { setTimeout as sleep } from 'node:timers/promises';
import { ReceiptExpiredError } from '../../errors.ts';
import { type Backoff, backoffMs } from '../../log/backoff.ts';
import type { JobQueue, ReceivedMessage } from '../../store/job-queue.ts';

/** The outcome of one delivery of a message. */
export type ConsumeOutcome =
  /** Handled and deleted. */
  | { readonly kind: 'done'; readonly message: ReceivedMessage }
  /**
   * The handler failed. The queue delivers the message again after `retryMs` or moves it to the
   * dead-letter queue.
   */
  | { readonly kind: 'failed'; readonly message: ReceivedMessage; readonly error: unknown; readonly retryMs: number }
  /** Handled, but too late to be deleted: the queue delivers the message again. */
  | { readonly kind: 'late'; readonly message: ReceivedMessage; readonly error: ReceiptExpiredError }
  /** The handler gave up because of the shutdown. Other consumers see the message immediately. */
  | { readonly kind: 'released'; readonly message: ReceivedMessage };

export interface ConsumeOptions {
  readonly queue: JobQueue;
  /**
   * Does the work. If it rejects, the message is delivered again. The signal aborts at shutdown,
   * and if another consumer may have received the message. A handler that takes long should watch
   * it.
   */
  readonly handle: (message: ReceivedMessage, signal: AbortSignal) => Promise<void>;
  /** How many messages, and so how many groups, are handled concurrently. */
  readonly concurrency: number;
  /** How long a message stays invisible after this process has died, in milliseconds. */
  readonly visibilityMs: number;
  /** Stops receiving. `consume` resolves when the running handlers have finished. */
  readonly signal: AbortSignal;
  readonly report: (outcome: ConsumeOutcome) => void;
  /** Longest wait of one receive, in milliseconds; 20 seconds by default. */
  readonly waitMs?: number;
  /**
   * The pauses before the next delivery of a message that failed; {@link JOB_BACKOFF} by default.
   */
  readonly backoff?: Backoff;
}

/**
 * The pauses have no jitter, because messages of one group cannot collide and messages of different
 * groups do not compete.
 */
export const JOB_BACKOFF: Backoff = { baseMs: 1000, capMs: 300_000 };

/**
 * Hands the messages of a queue to a handler until the signal aborts. This is the local counterpart
 * of Lambda's event source mapping for SQS. A message stays invisible while its handler runs, is
 * deleted after success and delivered again after a failure.
 *
 * If the queue throws, `consume` throws the queue's error after the running handlers have finished.
 */
export async function consume(options: ConsumeOptions): Promise<void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const lanes = Array.from({ length: options.concurrency }, () =>
    runLane(options, signal).catch((error) => {
      // Without this, the other lanes would hide that one lane cannot reach the queue.
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
    // One message at a time. Further messages of the group would count as received without having
    // been tried, and would reach the dead-letter queue together with a failing one before them.
    const messages = await queue.receive({ max: 1, visibilityMs, waitMs, signal });
    for (const message of messages) options.report(await handleMessage(message, options, signal));
  }
}

async function handleMessage(
  message: ReceivedMessage,
  options: ConsumeOptions,
  shutdown: AbortSignal,
): Promise<ConsumeOutcome> {
  const finished = new AbortController();
  const lost = new AbortController();
  const heartbeat = keepInvisible(message, options, finished.signal).catch((error) => lost.abort(error));
  try {
    await options.handle(message, AbortSignal.any([shutdown, lost.signal]));
  } catch (error) {
    finished.abort();
    await heartbeat;
    return giveBack(message, options, { error, released: shutdown.aborted });
  }
  finished.abort();
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
  const retryMs = failure.released ? 0 : backoffMs(options.backoff ?? JOB_BACKOFF, message.receiveCount);
  try {
    await options.queue.changeVisibility(message.receipt, retryMs);
  } catch (error) {
    // The message is already visible again.
    if (!(error instanceof ReceiptExpiredError)) throw error;
  }
  if (failure.released) return { kind: 'released', message };
  return { kind: 'failed', message, error: failure.error, retryMs };
}

/** Renews a message's visibility timeout until the signal aborts. Rejects if a renewal fails. */
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
