import { MessageInvalidError } from '../errors.ts';
import { backoffMs } from '../log/backoff.ts';
import type { StreamHandler, StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import { STREAM_BACKOFF, type StreamSettings, type Time } from './stream-settings.ts';

/** Discarded records of one shard, as the failure destination gets them. */
export interface DiscardedBatch {
  readonly streamArn: string;
  readonly shardId: string;
  readonly reason: 'retries-exhausted' | 'record-too-old';
  readonly records: number;
  readonly firstSequenceNumber: string;
  readonly lastSequenceNumber: string;
  /** Epoch milliseconds. */
  readonly firstCreatedMs?: number | undefined;
  readonly lastCreatedMs?: number | undefined;
  /** How many calls of the handler with these records failed. */
  readonly attempts: number;
  /** The last failure; undefined if the records were too old before the first attempt. */
  readonly cause?: unknown;
}

export interface BatchDeliveryOptions {
  readonly streamArn: string;
  readonly shardId: string;
  readonly handler: StreamHandler;
  /** The failure destination. Its error ends the delivery. */
  readonly onDiscard: (batch: DiscardedBatch) => Promise<void>;
  readonly settings: StreamSettings;
  readonly time: Time;
}

/**
 * Hands the records of one shard to the handler in order, until each is handled or discarded.
 * Delivers as Lambda does: records before the first failed record are done, and the rest is
 * delivered again after a wait. If the settings say so, a batch that fails as a whole is split.
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
    const { settings, time } = this.#options;
    let rest = batch;
    let attempts = 0;
    let cause: unknown;
    while (!signal.aborted) {
      const young = rest.slice(this.#countTooOld(rest));
      await this.#discard('record-too-old', rest.slice(0, rest.length - young.length), { attempts, cause }, done);
      if (young.length === 0) return;
      const outcome = await this.#handle(young);
      const last = young[outcome.handled - 1];
      if (last !== undefined) done(last.sequenceNumber);
      rest = young.slice(outcome.handled);
      if (rest.length === 0) return;
      // The rest after a partial success is a new batch with all of its retries.
      attempts = outcome.handled > 0 ? 0 : attempts + 1;
      cause = outcome.cause;
      if (outcome.handled === 0 && settings.bisectBatchOnFunctionError && rest.length > 1) {
        const middle = Math.ceil(rest.length / 2);
        await this.deliver(rest.slice(0, middle), done, signal);
        return await this.deliver(rest.slice(middle), done, signal);
      }
      if (settings.maximumRetryAttempts >= 0 && attempts > settings.maximumRetryAttempts) {
        return await this.#discard('retries-exhausted', rest, { attempts, cause }, done);
      }
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

  #countTooOld(records: readonly StreamRecord[]): number {
    const { settings, time } = this.#options;
    if (settings.maximumRecordAgeSeconds < 0) return 0;
    const oldest = time.now() - settings.maximumRecordAgeSeconds * 1000;
    const young = records.findIndex((record) => record.createdMs === undefined || record.createdMs >= oldest);
    return young < 0 ? records.length : young;
  }

  async #discard(
    reason: DiscardedBatch['reason'],
    records: readonly StreamRecord[],
    failure: { readonly attempts: number; readonly cause: unknown },
    done: (sequenceNumber: string) => void,
  ): Promise<void> {
    const first = records[0];
    const last = records.at(-1);
    if (first === undefined || last === undefined) return;
    await this.#options.onDiscard({
      streamArn: this.#options.streamArn,
      shardId: this.#options.shardId,
      reason,
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
