import type { SQSEvent } from 'aws-lambda';
import type { ReceivedMessage } from '../store/job-queue.ts';

/** What Lambda gives a function of messages from a FIFO queue. */
export function toSqsEvent(messages: readonly ReceivedMessage[]): SQSEvent {
  return {
    Records: messages.map(({ id, body, group, receipt, receiveCount, sentMs }) => ({
      messageId: id,
      body,
      receiptHandle: receipt,
      attributes: {
        ApproximateReceiveCount: String(receiveCount),
        SentTimestamp: String(sentMs ?? 0),
        SenderId: 'logfold',
        ApproximateFirstReceiveTimestamp: String(sentMs ?? 0),
        MessageGroupId: group,
      },
      messageAttributes: {},
      md5OfBody: '',
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:local:000000000000:jobs.fifo',
      awsRegion: 'local',
    })),
  };
}
