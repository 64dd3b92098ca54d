import { MessageInvalidError } from '../errors.ts';
import { backoffMs } from '../log/backoff.ts';
import type { StreamHandler, StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import { STREAM_BACKOFF, type Time } from './stream-requests.ts';

/** Discarded records of one shard, as the failure destination gets them. */
export interface DiscardedBatch {
  readonly streamArn: string;
  readonly shardId: string;
  readonly records: number;
  readonly firstSequenceNumber: string;
  readonly lastSequenceNumber: string;
  /** Epoch milliseconds. */
  readonly firstCreatedMs?: number | undefined;
  readonly lastCreatedMs?: number | undefined;
  /** How many calls of the handler with these records failed. */
  readonly attempts: number;
  /** The last failure. */
  readonly cause: unknown;
}

export interface BatchDeliveryOptions {
  readonly streamArn: string;
  readonly shardId: string;
  readonly handler: StreamHandler;
  /** The failure destination. Its error ends the delivery. */
  readonly onDiscard: (batch: DiscardedBatch) => Promise<void>;
  /** How often a batch is retried before it is discarded. A split uses up no retry. */
  readonly retries: number;
  readonly time: Time;
}

/**
 * Hands the records of one shard to the handler in order, until each is handled or discarded.
 * Delivers as Lambda does: records before the first failed record are done, and the rest is
 * delivered again after a wait. A batch that fails as a whole is split in two.
 *
 * Source: AWS Lambda Developer Guide, "Configuring partial batch response with DynamoDB and
 * Lambda" and "Retain discarded records for a DynamoDB event source".
 */
export class BatchDelivery {
  readonly #options: BatchDeliveryOptions;

  constructor(options: BatchDeliveryOptions) {
    this.#options = options;
  }

  /**
   * Delivers a batch.
   * @param done receives the sequence number up to which all records are handled or discarded
   * @param signal ends the delivery after the current call of the handler
   */
  async deliver(
    batch: readonly StreamRecord[],
    done: (sequenceNumber: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { retries, time } = this.#options;
    let rest = batch;
    for (let attempts = 0; rest.length > 0 && !signal.aborted; ) {
      const { handled, cause } = await this.#handle(rest);
      const last = rest[handled - 1];
      if (last !== undefined) done(last.sequenceNumber);
      rest = rest.slice(handled);
      if (rest.length === 0) return;
      // The rest after a partial success is a new batch with all of its retries.
      attempts = handled > 0 ? 0 : attempts + 1;
      if (handled === 0 && rest.length > 1) {
        const middle = Math.ceil(rest.length / 2);
        await this.deliver(rest.slice(0, middle), done, signal);
        return await this.deliver(rest.slice(middle), done, signal);
      }
      if (attempts > retries) return await this.#discard(rest, { attempts, cause }, done);
      await time.sleep(backoffMs(STREAM_BACKOFF, Math.max(1, attempts)), signal);
    }
  }

  /** Calls the handler. Returns how many records from the front were handled. */
  async #handle(records: readonly StreamRecord[]): Promise<{ handled: number; cause?: unknown }> {
    try {
      const { batchItemFailures } = await this.#options.handler(records);
      if (batchItemFailures.length === 0) return { handled: records.length };
      const failed = new Set(batchItemFailures.map((failure) => failure.itemIdentifier));
      const unknown = failed.difference(new Set(records.map((record) => record.sequenceNumber)));
      if (unknown.size > 0) {
        throw new MessageInvalidError(
          `the handler reports records that are not in its batch: ${[...unknown].join(', ')}`,
        );
      }
      const handled = records.findIndex((record) => failed.has(record.sequenceNumber));
      return { handled, cause: new Error(`the handler reports record ${records[handled]?.sequenceNumber} as failed`) };
    } catch (cause) {
      return { handled: 0, cause };
    }
  }

  async #discard(
    records: readonly StreamRecord[],
    failure: Pick<DiscardedBatch, 'attempts' | 'cause'>,
    done: (sequenceNumber: string) => void,
  ): Promise<void> {
    const first = records[0];
    const last = records.at(-1);
    if (first === undefined || last === undefined) return;
    await this.#options.onDiscard({
      streamArn: this.#options.streamArn,
      shardId: this.#options.shardId,
      records: records.length,
      firstSequenceNumber: first.sequenceNumber,
      lastSequenceNumber: last.sequenceNumber,
      firstCreatedMs: first.createdMs,
      lastCreatedMs: last.createdMs,
      ...failure,
    });
    done(last.sequenceNumber);
  }
}
