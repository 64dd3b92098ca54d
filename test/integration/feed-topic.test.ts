import { SNSClient } from '@aws-sdk/client-sns';
import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { feedTopic } from '../../src/adapters/sns/feed-topic.ts';
import { CredentialsError, ResourceMissingError, StoreUnavailableError } from '../../src/errors.ts';
import { AnswerServer } from '../support/stores/answer-server.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';

const HERE = { region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' }, maxAttempts: 1 };

let aws: LocalAws;

beforeAll(async () => {
  aws = await startLocalAws();
});

afterAll(() => aws.stop());

/** Publishes with a client of the endpoint, for the time of one call. */
async function publish(endpoint: string, topicArn: string, checkpoint: number): Promise<void> {
  const client = new SNSClient({ ...HERE, endpoint });
  await feedTopic({ client, topicArn })(checkpoint).finally(() => client.destroy());
}

test('each subscriber of the topic gets the checkpoint', async () => {
  const { topicArn } = aws.server.createTopic('feed');
  const { queueUrl } = aws.server.createQueue('subscriber');
  aws.server.subscribe({ topic: 'feed', queue: 'subscriber' });
  await publish(aws.server.address, topicArn, 3 * 2 ** 20 + 17);
  const { Messages = [] } = await aws.sqs.send(new ReceiveMessageCommand({ QueueUrl: queueUrl }));
  const received = Messages.map(({ Body = '' }): { Message: string } => JSON.parse(Body));
  expect(received.map(({ Message }): unknown => JSON.parse(Message))).toEqual([{ checkpoint: 3_145_745 }]);
});

test('an error names the topic, and says whether it is missing, forbidden or out of reach', async () => {
  const topicArn = 'arn:aws:sns:us-east-1:000000000000:missing';
  await expect(publish(aws.server.address, topicArn, 1)).rejects.toThrow(ResourceMissingError);
  await expect(publish(aws.server.address, topicArn, 1)).rejects.toThrow(`topic ${topicArn} does not exist`);
  const refusing = await AnswerServer.start();
  const { endpoint } = refusing;
  refusing.answer({
    status: 403,
    headers: { 'content-type': 'text/xml' },
    body:
      '<ErrorResponse><Error><Type>Sender</Type><Code>AuthorizationError</Code>' +
      '<Message>not authorized to perform: SNS:Publish</Message></Error><RequestId>1</RequestId></ErrorResponse>',
  });
  await expect(publish(endpoint, topicArn, 1)).rejects.toThrow(CredentialsError);
  await refusing.stop();
  await expect(publish(endpoint, topicArn, 1)).rejects.toThrow(StoreUnavailableError);
});
