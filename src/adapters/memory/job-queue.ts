import { randomUUID } from 'node:crypto';
import { ReceiptExpiredError } from '../../errors.ts';
import {
  DEDUPLICATION_MS,
  type JobQueue,
  MAX_RECEIVE,
  type NewMessage,
  type ReceivedMessage,
  type ReceiveOptions,
} from '../../store/job-queue.ts';

export interface MemoryJobQueueOptions {
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** After this many deliveries a message moves to `deadLetters`. No limit by default. */
  readonly maxReceives?: number;
}

/** Numbers of messages, by state. */
export interface QueueStats {
  /** Visible, perhaps behind others of their group. */
  readonly waiting: number;
  /** Delivered and not yet visible again. */
  readonly inFlight: number;
  /** In the dead-letter queue. */
  readonly dead: number;
}

interface Message {
  readonly id: string;
  readonly group: string;
  readonly body: string;
  readonly sentMs: number;
  receiveCount: number;
  /** Invisible before this moment. */
  visibleAt: number;
}

/**
 * A job queue in this process's memory. It is the reference for the other job queues. A waiting
 * receive wakes when a message is sent, deleted or changes its visibility, and by timer when a
 * message in flight becomes visible.
 */
export class MemoryJobQueue implements JobQueue {
  /** Messages that were delivered too often; undefined if there is no limit. */
  readonly deadLetters: MemoryJobQueue | undefined;
  readonly #now: () => number;
  readonly #maxReceives: number;
  /**
   * Each group's messages in the order of sending. A group moves behind the others when its
   * messages are delivered.
   */
  readonly #groups = new Map<string, Message[]>();
  readonly #messages = new Map<string, Message>();
  /** Deduplication ids with the times of their messages, oldest first. */
  readonly #taken = new Map<string, number>();
  readonly #wakers = new Set<() => void>();

  constructor(options: MemoryJobQueueOptions = {}) {
    this.#now = options.now ?? Date.now;
    this.#maxReceives = options.maxReceives ?? Number.POSITIVE_INFINITY;
    this.deadLetters = options.maxReceives === undefined ? undefined : new MemoryJobQueue({ now: this.#now });
  }

  async send({ group, deduplicationId, body }: NewMessage): Promise<void> {
    const now = this.#now();
    for (const [id, taken] of this.#taken) {
      if (taken + DEDUPLICATION_MS > now) break;
      this.#taken.delete(id);
    }
    if (this.#taken.has(deduplicationId)) return;
    this.#taken.set(deduplicationId, now);
    this.#append({ id: randomUUID(), group, body, sentMs: now, receiveCount: 0, visibleAt: now });
  }

  async receive(options: ReceiveOptions): Promise<ReceivedMessage[]> {
    const waitMs = options.waitMs ?? 0;
    let messages = this.#take(options);
    if (messages.length > 0 || waitMs === 0) return messages;
    let waiting = true;
    const timer = setTimeout(() => {
      waiting = false;
      this.#wake();
    }, waitMs);
    try {
      while (messages.length === 0 && waiting && !isAborted(options.signal)) {
        await this.#change(options.signal);
        if (!isAborted(options.signal)) messages = this.#take(options);
      }
    } finally {
      clearTimeout(timer);
    }
    return messages;
  }

  async delete(receipt: string): Promise<void> {
    const message = this.#inFlight(receipt);
    if (message !== undefined) this.#remove(message);
    this.#wake();
  }

  async changeVisibility(receipt: string, visibilityMs: number): Promise<void> {
    const message = this.#inFlight(receipt);
    if (message === undefined) throw expired(receipt);
    message.visibleAt = this.#now() + visibilityMs;
    this.#wake();
  }

  async depth(): Promise<number> {
    return this.size;
  }

  /** Counts the messages in the queue now. */
  stats(): QueueStats {
    const inFlight = this.#groups.values().reduce((sum, group) => sum + this.#invisible(group).length, 0);
    return { waiting: this.#messages.size - inFlight, inFlight, dead: this.deadLetters?.size ?? 0 };
  }

  /** The number of messages, in flight or not. */
  get size(): number {
    return this.#messages.size;
  }

  #take({ max, visibilityMs }: ReceiveOptions): ReceivedMessage[] {
    const now = this.#now();
    const given: Message[] = [];
    for (const [name, group] of [...this.#groups]) {
      if (given.length >= Math.min(max, MAX_RECEIVE)) break;
      if (this.#invisible(group).length > 0) continue;
      this.#bury(group);
      const head = group.slice(0, Math.min(max, MAX_RECEIVE) - given.length);
      for (const message of head) {
        message.receiveCount++;
        message.visibleAt = now + visibilityMs;
        given.push(message);
      }
      if (head.length > 0) {
        this.#groups.delete(name);
        this.#groups.set(name, group);
      }
    }
    return given.map(({ id, group, body, receiveCount, sentMs }) => {
      return { id, group, body, receiveCount, receipt: formatReceipt(id, receiveCount), sentMs };
    });
  }

  /**
   * Moves messages at the head of a group to the dead-letter queue if they were delivered too
   * often.
   */
  #bury(group: readonly Message[]): void {
    for (const message of group.slice(0, MAX_RECEIVE)) {
      if (message.receiveCount < this.#maxReceives) continue;
      this.#remove(message);
      if (this.deadLetters !== undefined) this.deadLetters.#append({ ...message, visibleAt: message.sentMs });
    }
  }

  /**
   * Only the first few can be in flight: a group delivers no more until those are deleted or
   * visible again.
   */
  #invisible(group: readonly Message[]): Message[] {
    const now = this.#now();
    return group.slice(0, MAX_RECEIVE).filter((message) => message.visibleAt > now);
  }

  /** @returns undefined if the message was deleted */
  #inFlight(receipt: string): Message | undefined {
    const { id, receiveCount } = parseReceipt(receipt);
    const message = this.#messages.get(id);
    if (message === undefined) return undefined;
    if (message.receiveCount !== receiveCount || message.visibleAt <= this.#now()) throw expired(receipt);
    return message;
  }

  #append(message: Message): void {
    const group = this.#groups.get(message.group);
    if (group === undefined) this.#groups.set(message.group, [message]);
    else group.push(message);
    this.#messages.set(message.id, message);
    this.#wake();
  }

  #remove(message: Message): void {
    this.#messages.delete(message.id);
    const group = this.#groups.get(message.group) ?? [];
    group.splice(group.indexOf(message), 1);
    if (group.length === 0) this.#groups.delete(message.group);
  }

  #wake(): void {
    for (const waker of [...this.#wakers]) waker();
  }

  /** Resolves when the queue has changed, or may have. */
  async #change(signal: AbortSignal | undefined): Promise<void> {
    const next = Math.min(
      ...this.#groups.values().flatMap((group) => this.#invisible(group).map((message) => message.visibleAt)),
    );
    await new Promise<void>((resolve) => {
      const timer = Number.isFinite(next) ? setTimeout(() => waker(), next - this.#now()) : undefined;
      const waker = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', waker);
        this.#wakers.delete(waker);
        resolve();
      };
      this.#wakers.add(waker);
      signal?.addEventListener('abort', waker);
    });
  }
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

function formatReceipt(id: string, receiveCount: number): string {
  return `${id}#${receiveCount}`;
}

function parseReceipt(receipt: string): { readonly id: string; readonly receiveCount: number } {
  const hash = receipt.lastIndexOf('#');
  return { id: receipt.slice(0, hash), receiveCount: Number(receipt.slice(hash + 1)) };
}

function expired(receipt: string): ReceiptExpiredError {
  return new ReceiptExpiredError(`receipt ${receipt} is no longer valid`, {
    advice: 'The queue delivers the message again. Use a longer visibility timeout, or extend it during the work',
  });
}
