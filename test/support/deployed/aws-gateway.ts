import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { type AwsRequest, hasQuery, type Right, rightsOf, rightsToLearnOfAbsence, s3Place } from './aws-rights.ts';

/** A right that a caller needed for a request. */
export interface NeededRight extends Right {
  /** The caller: the id of the access key that signed the request. */
  readonly caller: string;
}

export interface GatewayOptions {
  /** Endpoint of the DynamoDB API. */
  readonly dynamodb: string;
  /** Endpoint of the S3, SQS and SNS APIs. */
  readonly others: string;
  /** Access key ids of the callers whose requests are recorded. */
  readonly callers: ReadonlySet<string>;
  /** Names of the buckets with versioning. */
  readonly versioned: ReadonlySet<string>;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/**
 * One address for all of AWS, on 127.0.0.1. It forwards requests to the servers and records the
 * rights that each request needs. As in AWS, the signature of a request names its caller and its
 * service.
 *
 * The gateway adds features that the S3 server lacks. In a bucket with versioning, each object has
 * a version id, and versions can be deleted. Unfinished uploads are listed. A conditional write
 * fails if its condition does not hold.
 */
export class AwsGateway {
  readonly needed: NeededRight[] = [];
  readonly #options: GatewayOptions;
  readonly #server: Server;
  /** Resolves when the last conditional write ends. */
  #written: Promise<unknown> = Promise.resolve();
  readonly #uploads = new Map<string, { readonly bucket: string; readonly key: string; readonly begun: string }>();

  static async start(options: GatewayOptions): Promise<AwsGateway> {
    const gateway = new AwsGateway(options);
    await new Promise<void>((resolve) => gateway.#server.listen(0, '127.0.0.1', resolve));
    return gateway;
  }

  private constructor(options: GatewayOptions) {
    this.#options = options;
    this.#server = createServer((incoming, outgoing) => {
      this.#serve(incoming, outgoing).catch((error: unknown) => {
        outgoing.writeHead(400, { 'content-type': 'text/plain' }).end(String(error));
      });
    });
  }

  get endpoint(): string {
    const address = this.#server.address();
    if (typeof address !== 'object' || address === null) throw new Error('the gateway is not listening');
    return `http://127.0.0.1:${address.port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = Buffer.concat(await Array.fromAsync(incoming));
    const { method = '', url = '', headers: received } = incoming;
    const signature = /Credential=([^/]+)\/\d+\/[^/]+\/(\w+)\//.exec(received.authorization ?? '');
    const [, caller = '', service = ''] = signature ?? [];
    const request: AwsRequest = { service, method, url, headers: received, body };
    const need = (rights: (of: AwsRequest) => Right[]): void => {
      if (this.#options.callers.has(caller))
        this.needed.push(...rights(request).map((right) => ({ caller, ...right })));
    };
    need(rightsOf);
    const answer = await this.#answerTo(request);
    if (service === 's3' && answer.status === 404) need(rightsToLearnOfAbsence);
    // The SDK uses the `date` header to check the caller's clock.
    const headers = { ...answer.headers, date: new Date().toUTCString() };
    outgoing.writeHead(answer.status, headers).end(answer.body);
  }

  #answerTo(request: AwsRequest): Promise<Answer> {
    if (request.service === 's3') return this.#toS3(request);
    return request.service === 'sqs' ? this.#toSqs(request) : this.#pass(request);
  }

  /** The server returns queue URLs with a host name that some resolvers cannot resolve. */
  async #toSqs(request: AwsRequest): Promise<Answer> {
    const here = this.endpoint;
    const there = here.replace('127.0.0.1', 'sqs.us-east-1.localhost');
    const body = Buffer.from(request.body.toString().replaceAll(here, there));
    const answer = await this.#pass({ ...request, body });
    const told = Buffer.from(answer.body.toString().replaceAll(there, here));
    return { ...answer, body: told, headers: { ...answer.headers, 'content-length': String(told.length) } };
  }

  async #toS3(request: AwsRequest): Promise<Answer> {
    const { bucket, key } = s3Place(request);
    const { method, url, body } = request;
    if (method === 'GET' && key === '' && hasQuery(request, 'uploads')) return this.#listUploads(request);
    if (method === 'PUT' && (request.headers['if-match'] ?? request.headers['if-none-match']) !== undefined) {
      const answer = this.#written.then(() => this.#putOnCondition(request));
      this.#written = answer.catch(() => undefined);
      return answer;
    }
    const uploadId = new URL(url, 'http://s3').searchParams.get('uploadId');
    if (!this.#options.versioned.has(bucket)) return this.#pass(request);
    if (method === 'POST' && key === '') {
      return this.#pass({
        ...request,
        body: Buffer.from(body.toString().replaceAll(/<VersionId>.*?<\/VersionId>/g, '')),
      });
    }
    const answer = await this.#pass(request);
    if (method === 'POST' && hasQuery(request, 'uploads')) {
      const [, id = ''] = /<UploadId>(.*)<\/UploadId>/.exec(answer.body.toString()) ?? [];
      this.#uploads.set(id, { bucket, key, begun: new Date().toISOString() });
    }
    if (uploadId !== null && (method === 'POST' || method === 'DELETE')) this.#uploads.delete(uploadId);
    const told = method === 'HEAD' && key !== '' && answer.status === 200;
    return told ? { ...answer, headers: { ...answer.headers, 'x-amz-version-id': 'v1' } } : answer;
  }

  /**
   * Runs conditional writes one by one, so that nothing changes between the check and the write.
   */
  async #putOnCondition(request: AwsRequest): Promise<Answer> {
    const { 'if-match': same, 'if-none-match': none } = request.headers;
    const present = await this.#pass({ ...request, method: 'HEAD', body: Buffer.alloc(0) });
    const exists = present.status === 200;
    if (exists && (same === undefined ? none !== '*' : same === present.headers.etag)) return this.#pass(request);
    if (!exists && same === undefined) return this.#pass(request);
    const code = exists ? 'PreconditionFailed' : 'NoSuchKey';
    const body = Buffer.from(`<Error><Code>${code}</Code><Message>a condition does not hold</Message></Error>`);
    return { status: exists ? 412 : 404, headers: { 'content-type': 'application/xml' }, body };
  }

  #listUploads(request: AwsRequest): Answer {
    const { bucket } = s3Place(request);
    const prefix = new URL(request.url, 'http://s3').searchParams.get('prefix') ?? '';
    const uploads = [...this.#uploads].filter(
      ([, upload]) => upload.bucket === bucket && upload.key.startsWith(prefix),
    );
    const listed = uploads.map(
      ([id, { key, begun }]) =>
        `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${begun}</Initiated></Upload>`,
    );
    const body = Buffer.from(
      `<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>${listed.join('')}</ListMultipartUploadsResult>`,
    );
    return { status: 200, headers: { 'content-type': 'application/xml' }, body };
  }

  #pass({ service, method, url, headers, body }: AwsRequest): Promise<Answer> {
    const server = service === 'dynamodb' ? this.#options.dynamodb : this.#options.others;
    const { hostname, port } = new URL(server);
    const { 'transfer-encoding': _, ...others } = headers;
    const sent = { ...others, 'content-length': String(body.length) };
    return new Promise((resolve, reject) => {
      // Pass the path unchanged: object keys may contain dots that a URL would resolve.
      const passed = httpRequest({ hostname, port, path: url, method, headers: sent }, (response) => {
        Array.fromAsync(response).then((parts) => {
          const { statusCode = 502, headers: told } = response;
          resolve({ status: statusCode, headers: told, body: Buffer.concat(parts) });
        }, reject);
      });
      passed.once('error', reject).end(body);
    });
  }
}
