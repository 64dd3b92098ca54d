import { mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { S3Client } from '@aws-sdk/client-s3';
import { SNSClient } from '@aws-sdk/client-sns';
import {
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SetQueueAttributesCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { AwsGateway, type NeededRight } from './aws-gateway.ts';
import { type Bundle, buildBundles } from './bundles.ts';
import { type DeployedFunction, deployedFunctions } from './deployed-functions.ts';
import {
  type AwsClients,
  makeBucketsAndQueues,
  makeTables,
  queueName,
  versionedBuckets,
} from './deployed-resources.ts';
import { deliverBatch, StreamMapping } from './event-sources.ts';
import { LambdaProcess } from './lambda-process.ts';
import type { MovedClock } from './moved-clock.ts';
import { readTemplate, type Stack } from './template.ts';

const REGION = 'us-east-1';
/** Credentials of a caller that is not a function. */
const HERE = { region: REGION, credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
/** Account id in the URLs of queues and in the ARNs of topics here. */
const ACCOUNT = '000000000000';

export interface DeploymentOptions {
  readonly parameters: Readonly<Record<string, string>>;
  /** Endpoint of the engine. */
  readonly dynamodb: string;
  /** Endpoint of S3, SQS and SNS. */
  readonly others: string;
  readonly clock: MovedClock;
}

export interface InvokeOptions {
  /** Remaining time of the invocation, in milliseconds. The default is the function's timeout. */
  readonly remainingMs?: number | undefined;
}

/**
 * The template deployed on this machine. Tables, bucket and queues are on real servers. Each
 * function runs as its bundle in a separate process, with only the environment that the template
 * sets. The event source mappings deliver events. The caller controls schedules and clock.
 */
export class Deployment {
  readonly stack: Stack;
  readonly functions: ReadonlyMap<string, DeployedFunction>;
  readonly bundles: ReadonlyMap<string, Bundle>;
  /** Clients that use the gateway as a caller that is not a function. */
  readonly aws: AwsClients;
  readonly #gateway: AwsGateway;
  readonly #streams: DynamoDBStreamsClient;
  readonly #clock: MovedClock;
  readonly #directory: string;
  readonly #processes: ReadonlyMap<string, LambdaProcess>;
  #mappings: readonly StreamMapping[] = [];

  static async start(options: DeploymentOptions): Promise<Deployment> {
    const template = readTemplate();
    const { parameters, dynamodb, others } = options;
    const plain = template.expand({ parameters });
    const gateway = await AwsGateway.start({
      dynamodb,
      others,
      callers: new Set(deployedFunctions(plain).keys()),
      versioned: versionedBuckets(plain),
    });
    const queues = plain.ofType('AWS::SQS::Queue').map(({ id }): [string, string] => {
      return [id, `${gateway.endpoint}/${ACCOUNT}/${queueName(plain.ref(id))}`];
    });
    const topics = plain.ofType('AWS::SNS::Topic').map(({ id }): [string, string] => {
      return [id, `arn:aws:sns:${REGION}:${ACCOUNT}:${id}`];
    });
    const aws = clientsOf(gateway.endpoint);
    const attributes = await makeTables(plain, aws.dynamodb);
    const stack = template.expand({ parameters, refs: Object.fromEntries([...queues, ...topics]), attributes });
    const directory = await mkdtemp(join(tmpdir(), 'logfold-bundles-'));
    const deployment = new Deployment(options, {
      stack,
      gateway,
      aws,
      directory,
      bundles: await buildBundles(stack, directory),
    });
    await makeBucketsAndQueues(stack, aws);
    deployment.#connect();
    return deployment;
  }

  private constructor(
    { clock, dynamodb }: DeploymentOptions,
    made: {
      readonly stack: Stack;
      readonly gateway: AwsGateway;
      readonly aws: AwsClients;
      readonly directory: string;
      readonly bundles: ReadonlyMap<string, Bundle>;
    },
  ) {
    this.stack = made.stack;
    this.bundles = made.bundles;
    this.#gateway = made.gateway;
    this.#directory = made.directory;
    this.#clock = clock;
    this.functions = deployedFunctions(made.stack);
    this.aws = made.aws;
    this.#streams = new DynamoDBStreamsClient({ ...HERE, endpoint: dynamodb });
    this.#processes = new Map(
      [...this.functions.values()].map((each) => [each.id, this.#process(each, made.gateway.endpoint)] as const),
    );
  }

  /** The rights that the functions have needed so far. */
  get needed(): readonly NeededRight[] {
    return this.#gateway.needed;
  }

  /** Batches that the stream's mapping discarded. */
  get discarded() {
    return this.#mappings.flatMap(({ discarded }) => discarded);
  }

  /** The output of a function so far, in lines. */
  lines(id: string): readonly string[] {
    return this.#processOf(id).lines;
  }

  /** The directory that replaces `/tmp` for a function. */
  temporaryDirectory(id: string): string {
    return join(this.#directory, 'temporary', id);
  }

  /**
   * Invokes a function by its name in the template.
   * @throws Error if the invocation fails
   */
  invoke(id: string, event: unknown, { remainingMs }: InvokeOptions = {}): Promise<unknown> {
    const timeoutMs = (this.functions.get(id)?.timeoutSeconds ?? 0) * 1000;
    const { movedMs } = this.#clock;
    return this.#processOf(id).invoke({ event, remainingMs: remainingMs ?? timeoutMs, movedMs });
  }

  /** Invokes every scheduled function with its event from the template. */
  async runSchedules(options?: InvokeOptions): Promise<unknown[]> {
    const answers: unknown[] = [];
    for (const { id, schedules } of this.functions.values()) {
      for (const { input } of schedules) answers.push(await this.invoke(id, input, options));
    }
    return answers;
  }

  /** Delivers events until the stream is read to its end and no queue has a visible message. */
  async deliverAll({ remainingMs }: InvokeOptions = {}): Promise<void> {
    for (let delivered = 1; delivered > 0; ) {
      delivered = 0;
      for (const mapping of this.#mappings) await mapping.caughtUp();
      for (const { id, queues } of this.functions.values()) {
        for (const source of queues) {
          const queueUrl = this.#queueUrl(source.queueArn);
          const invoke = (event: unknown) => this.invoke(id, event, { remainingMs });
          delivered += await deliverBatch({ sqs: this.aws.sqs, queueUrl, source, invoke });
        }
      }
    }
  }

  /** Moves the clock of functions, bucket and queues forward, in seconds. */
  pass(seconds: number): void {
    this.#clock.movedMs += seconds * 1000;
  }

  /** The messages in a queue, by its name in the template. */
  async messages(queue: string): Promise<Message[]> {
    const QueueUrl = this.stack.ref(queue);
    const command = new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 0 });
    return (await this.aws.sqs.send(command)).Messages ?? [];
  }

  /** Limits how often the queues deliver a message, instead of the template's limit. */
  async limitReceives(maxReceiveCount: number): Promise<void> {
    for (const { queues } of this.functions.values()) {
      for (const { queueArn } of queues) {
        const QueueUrl = this.#queueUrl(queueArn);
        const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['RedrivePolicy'] });
        const { Attributes } = await this.aws.sqs.send(command);
        const RedrivePolicy = JSON.stringify({ ...JSON.parse(Attributes?.RedrivePolicy ?? '{}'), maxReceiveCount });
        await this.aws.sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { RedrivePolicy } }));
      }
    }
  }

  async stop(): Promise<void> {
    for (const mapping of this.#mappings) await mapping.stop();
    for (const each of this.#processes.values()) await each.stop();
    for (const client of Object.values(this.aws)) client.destroy();
    this.#streams.destroy();
    await this.#gateway.stop();
    await rm(this.#directory, { recursive: true });
  }

  #process(each: DeployedFunction, endpoint: string): LambdaProcess {
    const bundle = this.bundles.get(each.id);
    if (bundle === undefined) throw new Error(`function ${each.id} has no bundle`);
    mkdirSync(this.temporaryDirectory(each.id), { recursive: true });
    const environment = {
      ...each.environment,
      TMPDIR: this.temporaryDirectory(each.id),
      AWS_LAMBDA_FUNCTION_NAME: each.id,
      AWS_REGION: REGION,
      AWS_ACCESS_KEY_ID: each.id,
      AWS_SECRET_ACCESS_KEY: 'secret',
      AWS_ENDPOINT_URL_DYNAMODB: endpoint,
      AWS_ENDPOINT_URL_S3: endpoint,
      AWS_ENDPOINT_URL_SQS: endpoint,
      AWS_ENDPOINT_URL_SNS: endpoint,
    };
    return new LambdaProcess({ bundle: bundle.file, handler: each.handler, environment });
  }

  #connect(): void {
    const options = { s3: this.aws.s3, streams: this.#streams, realNow: this.#clock.realNow };
    this.#mappings = [...this.functions.values()].flatMap(({ id, streams }) =>
      streams.map((source) => new StreamMapping(source, (event) => this.invoke(id, event), options)),
    );
  }

  #processOf(id: string): LambdaProcess {
    const found = this.#processes.get(id);
    if (found === undefined) throw new Error(`no function ${id} is deployed`);
    return found;
  }

  #queueUrl(arn: string): string {
    const queue = this.stack.ofType('AWS::SQS::Queue').find(({ id }) => this.stack.attribute(id, 'Arn') === arn);
    if (queue === undefined) throw new Error(`the stack has no queue ${arn}`);
    return this.stack.ref(queue.id);
  }
}

function clientsOf(endpoint: string): AwsClients {
  return {
    dynamodb: new DynamoDBClient({ ...HERE, endpoint }),
    s3: new S3Client({ ...HERE, endpoint }),
    sqs: new SQSClient({ ...HERE, endpoint }),
    sns: new SNSClient({ ...HERE, endpoint }),
  };
}
