import { Readable } from 'node:stream';

/** The parts of an HTTP request that faults look at, as the SDK passes it to its HTTP layer. */
export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** The response of the HTTP layer. */
export interface Sent {
  readonly response: {
    readonly statusCode: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: AsyncIterable<Uint8Array>;
  };
}

export type Service = 'dynamodb' | 's3' | 'sqs';

/** A request on its way, and a function that sends it on, unchanged or changed. */
export interface Call {
  readonly service: Service;
  /** Name of the API operation, such as `PutItem`. */
  readonly operation: string;
  readonly request: HttpRequest;
  readonly send: (changed?: HttpRequest) => Promise<Sent>;
}

/** A fault that AWS or the network injects into a request. */
export interface Fault {
  readonly name: string;
  /**
   * `sdk` if the SDK sees an error, `adapter` if the SDK sees a success and only the adapter can
   * tell.
   */
  readonly seenBy: 'sdk' | 'adapter';
  /** True if the server carries out the request, at least in part. */
  readonly carriedOut: boolean;
  readonly on: (call: Call) => boolean;
  readonly meet: (call: Call) => Promise<Sent>;
}

/** The faults that a request can meet. */
export function faultsFor(call: Call): readonly Fault[] {
  return FAULTS.filter((fault) => fault.on(call));
}

export function nameOperation(service: Service, { method, path, query, headers }: HttpRequest): string {
  if (service !== 's3') return String(headers['x-amz-target']).split('.').at(-1) ?? '';
  const ofObject = /^\/[^/]+\/./.test(path);
  const has = (name: string): boolean => query !== undefined && name in query;
  switch (method) {
    case 'HEAD':
      return 'HeadObject';
    case 'PUT':
      return has('partNumber') ? 'UploadPart' : 'PutObject';
    case 'DELETE':
      return 'AbortMultipartUpload';
    case 'POST':
      if (has('delete')) return 'DeleteObjects';
      return has('uploads') ? 'CreateMultipartUpload' : 'CompleteMultipartUpload';
    default:
      if (ofObject) return 'GetObject';
      return has('uploads') ? 'ListMultipartUploads' : 'ListObjectsV2';
  }
}

const DYNAMODB = 'com.amazonaws.dynamodb.v20120810#';
const CORAL = 'com.amazon.coral.availability#';
const WRITES = ['PutItem', 'UpdateItem', 'BatchWriteItem', 'TransactWriteItems'];
const USES_KEY = ['GetObject', 'PutObject', 'UploadPart', 'CreateMultipartUpload'];
const SLOW_DOWN = 'Please reduce your request rate.';
const KMS_RATE = 'You have exceeded the rate at which you may call KMS. Reduce the frequency of your calls.';

export const FAULTS: readonly Fault[] = [
  // https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
  dynamodb('throughput', 400, `${DYNAMODB}ProvisionedThroughputExceededException`),
  dynamodb('throttling', 400, `${CORAL}ThrottlingException`),
  dynamodb('request limit', 400, `${DYNAMODB}RequestLimitExceeded`),
  dynamodb('internal error', 500, `${DYNAMODB}InternalServerError`),
  dynamodb('conflict', 400, `${DYNAMODB}TransactionConflictException`, ['PutItem', 'UpdateItem']),
  cancelled('TransactionConflict'),
  cancelled('ThrottlingError'),
  cancelled('ProvisionedThroughputExceeded'),
  {
    name: 'DynamoDB: internal error after all',
    seenBy: 'sdk',
    carriedOut: true,
    on: ({ service, operation }) => service === 'dynamodb' && WRITES.includes(operation),
    meet: async (call) => {
      await readAll(await call.send());
      return json(500, { __type: `${DYNAMODB}InternalServerError`, message: 'Internal server error' });
    },
  },
  {
    name: 'DynamoDB: unprocessed items',
    seenBy: 'adapter',
    carriedOut: true,
    on: ({ operation }) => operation === 'BatchWriteItem',
    meet: leaveItems,
  },

  // https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
  s3('slow down', 503, 'SlowDown', SLOW_DOWN),
  s3('internal error', 500, 'InternalError', 'We encountered an internal error. Please try again.'),
  // S3 reports a throttle of KMS like this: https://github.com/aws-samples/cql-replicator/issues/92
  s3(
    'slow down, by KMS',
    503,
    'SlowDown',
    'Please reduce your request rate for operations involving AWS KMS.',
    USES_KEY,
  ),
  // KMS's own error (https://repost.aws/knowledge-center/kms-throttlingexception-error) as users
  // report it from S3, with and without the prefix that S3 documents for errors of KMS.
  s3('KMS throttles', 400, 'ThrottlingException', KMS_RATE, USES_KEY),
  s3('KMS throttles, with prefix', 400, 'KMS.ThrottlingException', KMS_RATE, USES_KEY),
  {
    name: 'S3: error in a success',
    seenBy: 'sdk',
    carriedOut: false,
    on: ({ operation }) => operation === 'CompleteMultipartUpload',
    meet: async () => xml(200, 'InternalError', 'We encountered an internal error. Please try again.'),
  },
  {
    name: 'S3: object breaks off',
    seenBy: 'adapter',
    carriedOut: true,
    on: ({ operation }) => operation === 'GetObject',
    meet: breakOff,
  },
  {
    name: 'S3: undeleted keys',
    seenBy: 'adapter',
    carriedOut: true,
    on: ({ operation }) => operation === 'DeleteObjects',
    meet: leaveKeys,
  },

  // https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html and the
  // errors of SendMessage
  sqs('throttling', 400, `${CORAL}ThrottlingException`, 'ThrottlingException'),
  sqs('request throttled', 400, 'com.amazonaws.sqs#RequestThrottled', 'RequestThrottled'),
  sqs('KMS throttled', 400, 'com.amazonaws.sqs#KmsThrottled', 'KMS.ThrottlingException', [
    'SendMessage',
    'ReceiveMessage',
  ]),
  sqs('unavailable', 503, `${CORAL}ServiceUnavailableException`, 'ServiceUnavailable'),

  broken('connection reset', false, connectionReset),
  broken('answer lost', true, connectionReset),
  broken('no answer in time', true, () => Object.assign(new Error('the socket was idle'), { name: 'TimeoutError' })),
];

function dynamodb(name: string, status: number, type: string, operations?: readonly string[]): Fault {
  const answer = { __type: type, message: 'The request was rejected.' };
  return refused('dynamodb', { name: `DynamoDB: ${name}`, operations, answer: async () => json(status, answer) });
}

/** A transaction that DynamoDB cancels for a transient reason. */
function cancelled(code: string): Fault {
  const answer = async ({ request }: Call): Promise<Sent> => {
    const { TransactItems } = JSON.parse(textOf(request));
    const count = Array.isArray(TransactItems) ? TransactItems.length : 0;
    const CancellationReasons = Array.from({ length: count }, (_, i) =>
      i === 0 ? { Code: code, Message: 'Try again later' } : { Code: 'None' },
    );
    const Message = 'Transaction cancelled, please refer cancellation reasons for specific reasons';
    return json(400, { __type: `${DYNAMODB}TransactionCanceledException`, Message, CancellationReasons });
  };
  return refused('dynamodb', { name: `DynamoDB: cancelled, ${code}`, operations: ['TransactWriteItems'], answer });
}

function s3(name: string, status: number, code: string, message: string, operations?: readonly string[]): Fault {
  // The answer to a HEAD request has no body.
  const answer = async ({ operation }: Call): Promise<Sent> =>
    operation === 'HeadObject' ? answerOf(status, 'application/xml', '') : xml(status, code, message);
  return refused('s3', { name: `S3: ${name}`, operations, answer });
}

function sqs(name: string, status: number, type: string, code: string, operations?: readonly string[]): Fault {
  const headers = { 'x-amzn-query-error': `${code};${status < 500 ? 'Sender' : 'Receiver'}` };
  const answer = async (): Promise<Sent> => json(status, { __type: type, message: 'Try again later' }, headers);
  return refused('sqs', { name: `SQS: ${name}`, operations, answer });
}

function refused(
  service: Service,
  {
    name,
    operations,
    answer,
  }: {
    readonly name: string;
    readonly operations: readonly string[] | undefined;
    readonly answer: (call: Call) => Promise<Sent>;
  },
): Fault {
  const on = (call: Call): boolean => call.service === service && operations?.includes(call.operation) !== false;
  return { name, seenBy: 'sdk', carriedOut: false, on, meet: answer };
}

/**
 * A connection that breaks, either before the request arrives or after the server has carried it
 * out.
 */
function broken(name: string, carriedOut: boolean, error: () => Error): Fault {
  return {
    name,
    seenBy: 'sdk',
    carriedOut,
    // A received message stays invisible until the visibility timeout ends. Tests do not wait for
    // that.
    on: ({ operation }) => !carriedOut || operation !== 'ReceiveMessage',
    meet: async (call) => {
      if (carriedOut) await readAll(await call.send());
      throw error();
    },
  };
}

function connectionReset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}

/** Writes half of a batch, and returns the other half as unprocessed. */
async function leaveItems(call: Call): Promise<Sent> {
  const { RequestItems, ...rest }: { RequestItems: Record<string, unknown[]> } = JSON.parse(textOf(call.request));
  const kept: Record<string, unknown[]> = {};
  const left: Record<string, unknown[]> = {};
  for (const [table, writes] of Object.entries(RequestItems)) {
    kept[table] = writes.filter((_, i) => i % 2 === 1);
    left[table] = writes.filter((_, i) => i % 2 === 0);
    if (kept[table].length === 0) delete kept[table];
  }
  if (Object.keys(kept).length === 0) return json(200, { UnprocessedItems: left });
  const answer = await readAll(await call.send(changed(call.request, JSON.stringify({ RequestItems: kept, ...rest }))));
  return json(200, { ...JSON.parse(answer.toString()), UnprocessedItems: left });
}

/** Deletes half of the keys, and reports the other half as failed. */
async function leaveKeys(call: Call): Promise<Sent> {
  const body = textOf(call.request);
  const objects = [...body.matchAll(/<Object>.*?<\/Object>/gs)].map(([object]) => object);
  const left = objects.filter((_, i) => i % 2 === 0);
  const rest = left.reduce((text, object) => text.replace(object, ''), body);
  if (left.length < objects.length) await readAll(await call.send(changed(call.request, rest)));
  const errors = left.map((object) => {
    const [key] = /<Key>.*<\/Key>/s.exec(object) ?? [];
    return `<Error>${key}<Code>SlowDown</Code><Message>${SLOW_DOWN}</Message></Error>`;
  });
  return answerOf(200, 'application/xml', `<DeleteResult>${errors.join('')}</DeleteResult>`);
}

/** Returns the first half of an object, then breaks the connection. */
async function breakOff(call: Call): Promise<Sent> {
  const sent = await call.send();
  if (sent.response.statusCode >= 300) return sent;
  const bytes = await readAll(sent);
  async function* half(): AsyncGenerator<Uint8Array> {
    yield bytes.subarray(0, bytes.length / 2);
    throw connectionReset();
  }
  return { response: { ...sent.response, body: Readable.from(half()) } };
}

/** The same request with another body. Headers that describe the old body are removed. */
function changed(request: HttpRequest, body: string): HttpRequest {
  const headers = Object.entries(request.headers).filter(([name]) => !/^(x-amz-checksum|content-md5)/i.test(name));
  const length = ['content-length', String(Buffer.byteLength(body))] as const;
  return Object.assign(Object.create(Object.getPrototypeOf(request)), request, {
    body,
    headers: Object.fromEntries([...headers, length]),
  });
}

function textOf({ body }: HttpRequest): string {
  return body instanceof Uint8Array ? new TextDecoder().decode(body) : String(body);
}

function json(status: number, content: unknown, headers: Record<string, string> = {}): Sent {
  return answerOf(status, 'application/x-amz-json-1.0', JSON.stringify(content), headers);
}

function xml(status: number, code: string, message: string): Sent {
  const text = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
  return answerOf(status, 'application/xml', text);
}

function answerOf(statusCode: number, type: string, body: string, headers: Record<string, string> = {}): Sent {
  return {
    response: { statusCode, headers: { 'content-type': type, ...headers }, body: Readable.from([Buffer.from(body)]) },
  };
}

async function readAll({ response }: Sent): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(response.body));
}
