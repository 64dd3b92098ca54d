import { PublishCommand, type SNSClient } from '@aws-sdk/client-sns';
import { translateAwsError } from '../aws/aws-error.ts';

export interface FeedTopicOptions {
  readonly client: SNSClient;
  readonly topicArn: string;
}

/**
 * Makes the function that tells the subscribers of an SNS topic where the feed ends. Its message is
 * `{"checkpoint":N}`. A subscriber may get messages twice, in another order, or late, so it reads
 * the feed from its own checkpoint on. The number only says that there is something to read.
 * @returns a function that rejects with ResourceMissingError if the topic does not exist, with
 * CredentialsError if the caller may not publish, and with StoreUnavailableError if SNS cannot be
 * reached
 */
export function feedTopic({ client, topicArn }: FeedTopicOptions): (checkpoint: number) => Promise<void> {
  return async (checkpoint) => {
    const command = new PublishCommand({ TopicArn: topicArn, Message: JSON.stringify({ checkpoint }) });
    await client.send(command).catch((error: unknown) => {
      throw translateAwsError(error, `topic ${topicArn}`);
    });
  };
}
