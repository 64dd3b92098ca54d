import { mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { S3Client } from '@aws-sdk/client-s3';
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
/** Of somebody who is none of the functions. */
const HERE = { region: REGION, credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
/** In the URLs of queues here. */
const ACCOUNT = '000000000000';

export interface DeploymentOptions {
  readonly parameters: Readonly<Record<string, string>>;
  /** Endpoint of the engine. */
  readonly dynamodb: string;
  /** Endpoint of S3 and SQS. */
  readonly others: string;
  readonly clock: MovedClock;
}

export interface InvokeOptions {
  /** How much of its time the function has left, in milliseconds; all of it by default. */
  readonly remainingMs?: number | undefined;
}

/**
 * The template deployed on this machine: its tables, bucket and queues are on real servers, its functions are their
 * bundles in processes of their own with just the environment that the template gives them, and its event source
 * mappings deliver what happens. Schedules are up to the caller, as is the clock.
 */
export class Deployment {
  readonly stack: Stack;
  readonly functions: ReadonlyMap<string, DeployedFunction>;
  readonly bundles: ReadonlyMap<string, Bundle>;
  /** Through the gateway, as somebody who is none of the functions. */
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
    const aws = clientsOf(gateway.endpoint);
    const attributes = await makeTables(plain, aws.dynamodb);
    const stack = template.expand({ parameters, refs: Object.fromEntries(queues), attributes });
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

  /** Which rights the functions needed so far. */
  get needed(): readonly NeededRight[] {
    return this.#gateway.needed;
  }

  /** What the stream's mapping gave up. */
  get discarded() {
    return this.#mappings.flatMap(({ discarded }) => discarded);
  }

  /** What a function has written so far, line by line. */
  lines(id: string): readonly string[] {
    return this.#processOf(id).lines;
  }

  /** What `/tmp` is for a function in Lambda. */
  temporaryDirectory(id: string): string {
    return join(this.#directory, 'temporary', id);
  }

  /**
   * Invokes a function by its name in the template.
   * @throws Error where it fails
   */
  invoke(id: string, event: unknown, { remainingMs }: InvokeOptions = {}): Promise<unknown> {
    const timeoutMs = (this.functions.get(id)?.timeoutSeconds ?? 0) * 1000;
    const { movedMs } = this.#clock;
    return this.#processOf(id).invoke({ event, remainingMs: remainingMs ?? timeoutMs, movedMs });
  }

  /** Invokes what the template has on a schedule, with the event that it gives. */
  async runSchedules(options?: InvokeOptions): Promise<unknown[]> {
    const answers: unknown[] = [];
    for (const { id, schedules } of this.functions.values()) {
      for (const { input } of schedules) answers.push(await this.invoke(id, input, options));
    }
    return answers;
  }

  /** Delivers until the stream is read to its end and no queue has anything to give out at the moment. */
  async settle({ remainingMs }: InvokeOptions = {}): Promise<void> {
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

  /** Lets time pass, in seconds, for the functions, the bucket and the queues. */
  pass(seconds: number): void {
    this.#clock.movedMs += seconds * 1000;
  }

  /** The messages that are in a queue, by its name in the template. */
  async messages(queue: string): Promise<Message[]> {
    const QueueUrl = this.stack.ref(queue);
    const command = new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 0 });
    return (await this.aws.sqs.send(command)).Messages ?? [];
  }

  /** Has the queues give a message out so often at the most, instead of as often as the template says. */
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
    if (bundle === undefined) throw new Error(`no bundle of ${each.id}`);
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
  };
}
