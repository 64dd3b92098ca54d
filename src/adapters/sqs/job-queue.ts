import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { MessageInvalidError, ReceiptExpiredError } from '../../errors.ts';
import type { JobQueue, NewMessage, ReceivedMessage, ReceiveOptions } from '../../store/job-queue.ts';
import { translateAwsError } from '../aws/aws-error.ts';

/** The longest wait of a receive in SQS. */
const MAX_WAIT_MS = 20_000;

/** The attributes that count a queue's messages. Each message counts in exactly one of them. */
const COUNTS = [
  'ApproximateNumberOfMessages',
  'ApproximateNumberOfMessagesNotVisible',
  'ApproximateNumberOfMessagesDelayed',
] as const;

export interface SqsJobQueueOptions {
  readonly client: SQSClient;
  /** URL of a FIFO queue. Its redrive policy limits how often a message is received. */
  readonly queueUrl: string;
}

/**
 * Jobs in an SQS FIFO queue. Milliseconds are rounded up to whole seconds, the unit of SQS. A
 * receive waits for 20 seconds at most.
 *
 * Every method throws ResourceMissingError if the queue does not exist, and CredentialsError if
 * there are no credentials or SQS refuses them. The client retries after throttling and lost
 * connections; configure it with `sdkConfig`.
 */
export class SqsJobQueue implements JobQueue {
  readonly #client: SQSClient;
  readonly #queueUrl: string;

  constructor(options: SqsJobQueueOptions) {
    this.#client = options.client;
    this.#queueUrl = options.queueUrl;
  }

  async send({ group, deduplicationId, body }: NewMessage): Promise<void> {
    const command = new SendMessageCommand({
      QueueUrl: this.#queueUrl,
      MessageGroupId: group,
      MessageDeduplicationId: deduplicationId,
      MessageBody: body,
    });
    await this.#client.send(command).catch((error) => this.#fail(error));
  }

  async receive({ max, visibilityMs, waitMs = 0, signal }: ReceiveOptions): Promise<ReceivedMessage[]> {
    const command = new ReceiveMessageCommand({
      QueueUrl: this.#queueUrl,
      MaxNumberOfMessages: max,
      VisibilityTimeout: seconds(visibilityMs),
      WaitTimeSeconds: seconds(Math.min(waitMs, MAX_WAIT_MS)),
      MessageSystemAttributeNames: ['MessageGroupId', 'ApproximateReceiveCount', 'SentTimestamp'],
    });
    try {
      const answer = await this.#client.send(command, signal === undefined ? {} : { abortSignal: signal });
      return (answer.Messages ?? []).map(toReceivedMessage);
    } catch (error) {
      // SQS may have delivered a message at that moment. It delivers the message again after its
      // visibility timeout.
      if (signal?.aborted === true) return [];
      return this.#fail(error);
    }
  }

  async depth(): Promise<number> {
    const command = new GetQueueAttributesCommand({ QueueUrl: this.#queueUrl, AttributeNames: [...COUNTS] });
    const { Attributes: counts } = await this.#client.send(command).catch((error) => this.#fail(error));
    return COUNTS.reduce((sum, name) => sum + Number(counts?.[name] ?? 0), 0);
  }

  async delete(receipt: string): Promise<void> {
    const command = new DeleteMessageCommand({ QueueUrl: this.#queueUrl, ReceiptHandle: receipt });
    await this.#client.send(command).catch((error) => this.#fail(error));
  }

  async changeVisibility(receipt: string, visibilityMs: number): Promise<void> {
    const command = new ChangeMessageVisibilityCommand({
      QueueUrl: this.#queueUrl,
      ReceiptHandle: receipt,
      VisibilityTimeout: seconds(visibilityMs),
    });
    await this.#client.send(command).catch((error) => this.#fail(error));
  }

  #fail(error: unknown): never {
    if (isReceiptExpired(error)) {
      throw new ReceiptExpiredError('the receipt of a message is no longer valid', {
        advice: 'The queue delivers the message again. Use a longer visibility timeout, or extend it during the work',
        cause: error,
      });
    }
    throw translateAwsError(error, `queue ${this.#queueUrl}`);
  }
}

/**
 * A FIFO queue reports an expired receipt as an invalid parameter. Only the error's text tells them
 * apart.
 */
function isReceiptExpired(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'ReceiptHandleIsInvalid' || error.name === 'MessageNotInflight') return true;
  return error.name.startsWith('InvalidParameterValue') && /receipt handle has expired/i.test(error.message);
}

function toReceivedMessage(message: Message): ReceivedMessage {
  const { MessageId: id, Body: body, ReceiptHandle: receipt, Attributes: attributes } = message;
  const group = attributes?.MessageGroupId;
  const receiveCount = Number(attributes?.ApproximateReceiveCount);
  const sentMs = Number(attributes?.SentTimestamp);
  if (id === undefined || body === undefined || receipt === undefined || group === undefined) {
    throw new MessageInvalidError(`SQS delivered message ${id} without body, receipt or group`, {
      advice: 'Use a FIFO queue',
    });
  }
  return { id, group, body, receiveCount, receipt, sentMs };
}

function seconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000);
}
