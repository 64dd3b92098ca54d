import { MessageInvalidError } from '../errors.ts';
import type { StreamHandler, StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import type { Time } from './stream-settings.ts';
import { backoffMs, type StreamSettings } from './stream-settings.ts';

/** Records of one shard that were given up, as the failure destination learns of them: where, which and why. */
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
  /** How often the handler was called with them and failed. */
  readonly attempts: number;
  /** The last failure; undefined where the records were too old before the handler ever saw them. */
  readonly cause?: unknown;
}

/** One call of the handler that failed and is followed by another. */
export interface FailedAttempt {
  readonly shardId: string;
  readonly records: number;
  readonly attempts: number;
  readonly cause: unknown;
}

export interface BatchDeliveryOptions {
  readonly streamArn: string;
  readonly shardId: string;
  readonly handler: StreamHandler;
  /** Takes what is given up. Where it throws, the stream is read no further. */
  readonly onDiscard: (batch: DiscardedBatch) => Promise<void>;
  readonly onFailedAttempt?: ((attempt: FailedAttempt) => void) | undefined;
  readonly settings: StreamSettings;
  readonly time: Time;
}

/**
 * Hands batches of one shard to the handler until every record is handled or given up, in order, as Lambda does:
 * records that succeeded are not given again; the rest is, after a wait; a batch that fails as a whole is split in
 * two where the settings say so.
 *
 * Source: AWS Lambda Developer Guide, "Configuring partial batch response with DynamoDB and Lambda" and "Retain
 * discarded records for a DynamoDB event source".
 */
export class BatchDelivery {
  readonly #options: BatchDeliveryOptions;

  constructor(options: BatchDeliveryOptions) {
    this.#options = options;
  }

  /**
   * @param done told the sequence number up to which all records are handled or given up, each time that it grows
   * @param signal ends the delivery after the call of the handler that is under way
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
      const [first] = young;
      if (first === undefined) return;
      const outcome = await this.#handle(young);
      const last = young[outcome.handled - 1];
      if (last !== undefined) done(last.sequenceNumber);
      rest = young.slice(outcome.handled);
      if (rest.length === 0) return;
      // What is left after a partial success is a new batch, with all of its retries before it.
      attempts = outcome.handled > 0 ? 0 : attempts + 1;
      cause = outcome.cause;
      if (outcome.handled === 0 && settings.bisectBatchOnFunctionError && rest.length > 1) {
        this.#report(rest, attempts, cause);
        const middle = Math.ceil(rest.length / 2);
        await this.deliver(rest.slice(0, middle), done, signal);
        return await this.deliver(rest.slice(middle), done, signal);
      }
      if (settings.maximumRetryAttempts >= 0 && attempts > settings.maximumRetryAttempts) {
        return await this.#discard('retries-exhausted', rest, { attempts, cause }, done);
      }
      this.#report(rest, attempts, cause);
      await time.sleep(backoffMs(Math.max(1, attempts), settings), signal);
    }
  }

  /** How many records from the front on were handled. */
  async #handle(records: readonly StreamRecord[]): Promise<{ handled: number; cause?: unknown }> {
    try {
      const { batchItemFailures } = await this.#options.handler(records);
      if (batchItemFailures.length === 0) return { handled: records.length };
      const failed = new Set(batchItemFailures.map((failure) => failure.itemIdentifier));
      const unknown = failed.difference(new Set(records.map((record) => record.sequenceNumber)));
      if (unknown.size > 0) {
        throw new MessageInvalidError(`the handler reports records that it was not given: ${[...unknown].join(', ')}`);
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

  #report(records: readonly StreamRecord[], attempts: number, cause: unknown): void {
    this.#options.onFailedAttempt?.({ shardId: this.#options.shardId, records: records.length, attempts, cause });
  }
}
