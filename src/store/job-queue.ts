/** How long a queue remembers a deduplication id, in milliseconds: what SQS gives, and nobody can change it. */
export const DEDUPLICATION_MS = 5 * 60_000;

/** The most messages that one receive gives out. */
export const MAX_RECEIVE = 10;

export interface NewMessage {
  /** Messages of one group are given out in the order in which they were sent, and never two consumers at once. */
  readonly group: string;
  /**
   * A message with the id of another that this queue took within the last 5 minutes is accepted and dropped, also
   * after that other one was deleted or died. So whoever means to send something *again* must give a new id. At most
   * 128 letters, digits and punctuation.
   */
  readonly deduplicationId: string;
  readonly body: string;
}

export interface ReceivedMessage {
  /** The same at every delivery of a message, and in its dead-letter queue. */
  readonly id: string;
  readonly group: string;
  readonly body: string;
  /** How often the message was given out, this time included. */
  readonly receiveCount: number;
  /** Stands for this delivery; valid until the message becomes visible again. */
  readonly receipt: string;
  /** When the message was sent, in epoch milliseconds. */
  readonly sentMs?: number | undefined;
}

export interface ReceiveOptions {
  /** At most this many messages, from 1 to 10. A queue may give fewer than it has. */
  readonly max: number;
  /** How long the messages stay invisible to others, in milliseconds. A queue may round up to whole seconds. */
  readonly visibilityMs: number;
  /** How long to wait where there is nothing to give out, in milliseconds. 0 by default. */
  readonly waitMs?: number | undefined;
  /** Ends the waiting early. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A queue with the semantics of SQS FIFO:
 *
 * - Within a group messages come in order. One receive may give several of a group, in order; as long as any of them
 *   is neither deleted nor visible again, nothing else of that group is given out. Groups do not wait for each other.
 * - A message that is not deleted within its visibility timeout is given out again, before the rest of its group.
 * - A message that was received as often as the queue allows goes to the dead-letter queue instead of being given out
 *   once more, and the rest of its group goes on.
 *
 * Source: Amazon SQS Developer Guide, "FIFO queue delivery logic" and "FIFO queue key terms".
 */
export interface JobQueue {
  send(message: NewMessage): Promise<void>;

  receive(options: ReceiveOptions): Promise<ReceivedMessage[]>;

  /**
   * How many messages the queue holds, whether they wait or were given out; dead letters do not count. A message that was
   * sent or deleted within the last minute may be missing, or still counted.
   */
  depth(): Promise<number>;

  /**
   * Removes a message for good; once more is no error.
   * @throws ReceiptExpiredError where the message became visible again since this receipt was given
   */
  delete(receipt: string): Promise<void>;

  /**
   * Makes a message invisible for so many milliseconds from now; 0 gives it back at once.
   * @throws ReceiptExpiredError where the message became visible again since this receipt was given
   */
  changeVisibility(receipt: string, visibilityMs: number): Promise<void>;
}
