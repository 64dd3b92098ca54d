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
  /** Visible, but perhaps not the first of their group. */
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
  /** The number of the message that {@link MemoryJobQueue.oldest} counts for this one. */
  readonly age: number;
  receiveCount: number;
  /** Invisible before this moment. */
  visibleAt: number;
  next: Message | undefined;
}

/** The messages of a group in the order of sending. Only the first few can be in flight. */
interface Group {
  first: Message | undefined;
  last: Message | undefined;
  /** When the group was delivered last, or else sent first, in a count of both. */
  turn: number;
  /** Whether the next receive may take it. */
  isOpen: boolean;
  /** If the group is closed: the moment at which all its messages are visible again. */
  opensAt: number;
}

interface TakenId {
  readonly id: string;
  readonly at: number;
  next: TakenId | undefined;
}

/**
 * A job queue in this process's memory. It is the reference for the other job queues. A waiting
 * receive wakes when a message is sent, deleted or changes its visibility, and by timer when a
 * message in flight becomes visible.
 *
 * An operation takes O(log n) time for n groups. Lists are linked, because a Map or an array from
 * which others delete at its front takes time for what was deleted.
 */
export class MemoryJobQueue implements JobQueue {
  /** Messages that were delivered too often; undefined if there is no limit. */
  readonly deadLetters: MemoryJobQueue | undefined;
  readonly #now: () => number;
  readonly #maxReceives: number;
  readonly #groups = new Map<string, Group>();
  readonly #messages = new Map<string, Message>();
  /** Open groups by turn: the group that was delivered longest ago comes first. */
  readonly #open = new Heap<Group>();
  /** Closed groups by the moment at which they open, also with moments that no longer hold. */
  readonly #closed = new Heap<Group>();
  /** Messages by age. The oldest is not deleted; others may be. */
  readonly #ages = new Heap<Message>();
  #turns = 0;
  #sent = 0;
  /** Deduplication ids of the last minutes. The list has them oldest first. */
  readonly #taken = new Set<string>();
  #firstTaken: TakenId | undefined;
  #lastTaken: TakenId | undefined;
  readonly #wakers = new Set<() => void>();

  constructor(options: MemoryJobQueueOptions = {}) {
    this.#now = options.now ?? Date.now;
    this.#maxReceives = options.maxReceives ?? Number.POSITIVE_INFINITY;
    this.deadLetters = options.maxReceives === undefined ? undefined : new MemoryJobQueue({ now: this.#now });
  }

  async send(message: NewMessage): Promise<void> {
    this.#send(message, ++this.#sent);
  }

  /**
   * Sends a message that continues the work of another one, so that it is as old as that one for
   * {@link oldest}.
   */
  async sendFollowing(id: ReceivedMessage['id'], message: NewMessage): Promise<void> {
    const sent = ++this.#sent;
    this.#send(message, this.#messages.get(id)?.age ?? sent);
  }

  #send({ group, deduplicationId, body }: NewMessage, age: number): void {
    const now = this.#now();
    for (let first = this.#firstTaken; first !== undefined; first = first.next) {
      if (first.at + DEDUPLICATION_MS > now) break;
      this.#taken.delete(first.id);
      this.#firstTaken = first.next;
    }
    if (this.#taken.has(deduplicationId)) return;
    const taken: TakenId = { id: deduplicationId, at: now, next: undefined };
    if (this.#firstTaken === undefined || this.#lastTaken === undefined) this.#firstTaken = taken;
    else this.#lastTaken.next = taken;
    this.#lastTaken = taken;
    this.#taken.add(deduplicationId);
    this.#append({ id: randomUUID(), group, body, sentMs: now, age, receiveCount: 0, visibleAt: now, next: undefined });
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
    this.#settle(message.group);
    this.#wake();
  }

  async depth(): Promise<number> {
    return this.size;
  }

  /** Resolves when the queue has fewer messages than `depth`, or the signal aborts. */
  async shrunk(depth: number, signal: AbortSignal): Promise<void> {
    while (this.size >= depth && !signal.aborted) await this.#change(signal);
  }

  /** Counts the messages in the queue now. Takes time for all of them. */
  stats(): QueueStats {
    const now = this.#now();
    let inFlight = 0;
    for (const { visibleAt } of this.#messages.values()) if (visibleAt > now) inFlight++;
    return { waiting: this.#messages.size - inFlight, inFlight, dead: this.deadLetters?.size ?? 0 };
  }

  /** The number of messages, in flight or not. */
  get size(): number {
    return this.#messages.size;
  }

  /** The number of messages that were sent so far. */
  get sent(): number {
    return this.#sent;
  }

  /**
   * The number of the oldest message that is not done: all messages that were sent before it, and
   * those that follow from them, are deleted, also from the dead-letter queue. Undefined if the
   * queue and its dead-letter queue are empty.
   */
  get oldest(): number | undefined {
    const ages = [this.#ages.peek()?.key, this.deadLetters?.oldest].filter((age) => age !== undefined);
    return ages.length === 0 ? undefined : Math.min(...ages);
  }

  #take({ max, visibilityMs }: ReceiveOptions): ReceivedMessage[] {
    const now = this.#now();
    const most = Math.min(max, MAX_RECEIVE);
    const given: Message[] = [];
    // A receive asks each group once, even if its messages are visible again immediately.
    const asked: Group[] = [];
    this.#openGroups(now);
    while (given.length < most) {
      const group = this.#open.pop();
      if (group === undefined) break;
      asked.push(group);
      // A clock that was set back hides messages again.
      const isVisible = firstOf(group, MAX_RECEIVE).every(({ visibleAt }) => visibleAt <= now);
      if (isVisible) this.#bury(group);
      const head = isVisible ? firstOf(group, most - given.length) : [];
      for (const message of head) {
        message.receiveCount++;
        message.visibleAt = now + visibilityMs;
        given.push(message);
      }
      if (head.length > 0) group.turn = ++this.#turns;
    }
    for (const group of asked) {
      group.isOpen = false;
      this.#settleGroup(group);
    }
    return given.map(({ id, group, body, receiveCount, sentMs }) => {
      return { id, group, body, receiveCount, receipt: formatReceipt(id, receiveCount), sentMs };
    });
  }

  /**
   * Moves messages at the head of a group to the dead-letter queue if they were delivered too
   * often.
   */
  #bury(group: Group): void {
    for (const message of firstOf(group, MAX_RECEIVE)) {
      if (message.receiveCount < this.#maxReceives) continue;
      this.#remove(message);
      if (this.deadLetters !== undefined) {
        this.deadLetters.#append({ ...message, visibleAt: message.sentMs, next: undefined });
      }
    }
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
    let group = this.#groups.get(message.group);
    if (group === undefined) {
      group = { first: message, last: message, turn: ++this.#turns, isOpen: false, opensAt: 0 };
      this.#groups.set(message.group, group);
    } else {
      if (group.last !== undefined) group.last.next = message;
      group.last = message;
    }
    this.#messages.set(message.id, message);
    this.#ages.push(message.age, message);
    this.#settleGroup(group);
    this.#wake();
  }

  #remove(message: Message): void {
    this.#messages.delete(message.id);
    for (let old = this.#ages.peek(); old !== undefined && !this.#messages.has(old.item.id); old = this.#ages.peek()) {
      this.#ages.pop();
    }
    const group = this.#groups.get(message.group);
    if (group === undefined) return;
    let before: Message | undefined;
    for (let each = group.first; each !== undefined && each !== message; each = each.next) before = each;
    if (before === undefined) group.first = message.next;
    else before.next = message.next;
    if (group.last === message) group.last = before;
    message.next = undefined;
    if (group.first === undefined) this.#groups.delete(message.group);
    this.#settle(message.group);
  }

  #settle(name: string): void {
    const group = this.#groups.get(name);
    if (group !== undefined) this.#settleGroup(group);
  }

  /**
   * Finds out whether a group is open. Only its first few messages can be in flight: a group
   * delivers no more until those are deleted or visible again.
   */
  #settleGroup(group: Group): void {
    if (group.isOpen || group.first === undefined) return;
    const opensAt = Math.max(...firstOf(group, MAX_RECEIVE).map(({ visibleAt }) => visibleAt));
    if (opensAt <= this.#now()) {
      group.isOpen = true;
      group.opensAt = 0;
      this.#open.push(group.turn, group);
    } else if (opensAt !== group.opensAt) {
      group.opensAt = opensAt;
      this.#closed.push(opensAt, group);
    }
  }

  /** Opens the groups whose messages are visible again. */
  #openGroups(now: number): void {
    for (let next = this.#nextClosed(); next !== undefined && next.key <= now; next = this.#nextClosed()) {
      this.#closed.pop();
      next.item.opensAt = 0;
      this.#settleGroup(next.item);
    }
  }

  #nextClosed(): { readonly key: number; readonly item: Group } | undefined {
    let next = this.#closed.peek();
    while (next !== undefined && (next.item.opensAt !== next.key || next.item.first === undefined)) {
      this.#closed.pop();
      next = this.#closed.peek();
    }
    return next;
  }

  #wake(): void {
    for (const waker of [...this.#wakers]) waker();
  }

  /** Resolves when the queue has changed, or may have. */
  async #change(signal: AbortSignal | undefined): Promise<void> {
    const next = this.#nextClosed()?.key;
    await new Promise<void>((resolve) => {
      const timer = next === undefined ? undefined : setTimeout(() => waker(), next - this.#now());
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

function firstOf(group: Group, count: number): Message[] {
  const messages: Message[] = [];
  for (let each = group.first; each !== undefined && messages.length < count; each = each.next) messages.push(each);
  return messages;
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

/** A binary heap: the item with the lowest key comes first. A change takes O(log n) time. */
class Heap<T> {
  readonly #nodes: { readonly key: number; readonly item: T }[] = [];

  push(key: number, item: T): void {
    const nodes = this.#nodes;
    nodes.push({ key, item });
    for (let at = nodes.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfLower(at, parent)) return;
      at = parent;
    }
  }

  /** The item with the lowest key, which stays; undefined if the heap is empty. */
  peek(): { readonly key: number; readonly item: T } | undefined {
    return this.#nodes[0];
  }

  /** Removes the item with the lowest key; undefined if the heap is empty. */
  pop(): T | undefined {
    const nodes = this.#nodes;
    const [first] = nodes;
    const last = nodes.pop();
    if (first === undefined || last === undefined || nodes.length === 0) return first?.item;
    nodes[0] = last;
    for (let at = 0; ; ) {
      const left = 2 * at + 1;
      const child = this.#key(left + 1) < this.#key(left) ? left + 1 : left;
      if (!this.#swapIfLower(child, at)) return first.item;
      at = child;
    }
  }

  #key(at: number): number {
    return this.#nodes[at]?.key ?? Number.POSITIVE_INFINITY;
  }

  #swapIfLower(at: number, than: number): boolean {
    const [low, high] = [this.#nodes[at], this.#nodes[than]];
    if (low === undefined || high === undefined || low.key >= high.key) return false;
    this.#nodes[at] = high;
    this.#nodes[than] = low;
    return true;
  }
}
