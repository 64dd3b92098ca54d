/** How long a queue remembers a deduplication id, in milliseconds. Fixed by SQS. */
export const DEDUPLICATION_MS = 5 * 60_000;

/** The most messages of one receive. */
export const MAX_RECEIVE = 10;

export interface NewMessage {
  /** Messages of one group are delivered in order, and never to two consumers at the same time. */
  readonly group: string;
  /**
   * The queue accepts but silently drops a message whose id was used within the last 5 minutes,
   * even if the earlier message was deleted or is a dead letter. To send a job again, use a new id.
   * At most 128 letters, digits and punctuation characters.
   */
  readonly deduplicationId: string;
  readonly body: string;
}

export interface ReceivedMessage {
  /** The same at every delivery of a message, and in the dead-letter queue. */
  readonly id: string;
  readonly group: string;
  readonly body: string;
  /** Number of deliveries, including this one. */
  readonly receiveCount: number;
  /** Identifies this delivery. Valid until the message becomes visible again. */
  readonly receipt: string;
  /** When the message was sent, in epoch milliseconds. */
  readonly sentMs?: number;
}

export interface ReceiveOptions {
  /** At most this many messages, from 1 to 10. A queue may return fewer than it has. */
  readonly max: number;
  /**
   * How long the messages stay invisible to other consumers, in milliseconds. A queue may round up
   * to whole seconds.
   */
  readonly visibilityMs: number;
  /** How long to wait for a message if there is none, in milliseconds. 0 by default. */
  readonly waitMs?: number;
  /** Ends the wait early. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A queue with the semantics of SQS FIFO:
 *
 * - Messages of a group come in order. One receive may return several messages of a group. As long
 *   as any of them is neither deleted nor visible again, no other message of the group is
 *   delivered. Groups are independent of each other.
 * - A message that is not deleted within its visibility timeout is delivered again, before the rest
 *   of its group.
 * - A message that was received as often as the queue allows goes to the dead-letter queue. Then
 *   the rest of its group is delivered.
 *
 * Source: Amazon SQS Developer Guide, "FIFO queue delivery logic" and "FIFO queue key terms".
 */
export interface JobQueue {
  send(message: NewMessage): Promise<void>;

  receive(options: ReceiveOptions): Promise<ReceivedMessage[]>;

  /**
   * Number of messages in the queue, visible or not, without dead letters. The number may lag
   * behind by a minute.
   */
  depth(): Promise<number>;

  /**
   * Deletes a message. A second call is not an error.
   * @throws ReceiptExpiredError if the message became visible again after this delivery
   */
  delete(receipt: string): Promise<void>;

  /**
   * Makes a message invisible for `visibilityMs` milliseconds from now. 0 makes it visible
   * immediately.
   * @throws ReceiptExpiredError if the message became visible again after this delivery
   */
  changeVisibility(receipt: string, visibilityMs: number): Promise<void>;
}
