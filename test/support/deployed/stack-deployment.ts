import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import {
  CloudFormationClient,
  DescribeStackResourcesCommand,
  DescribeStacksCommand,
} from '@aws-sdk/client-cloudformation';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { onTestFailed } from 'vitest';
import * as z from 'zod';
import { type AwsEmulator, EMULATOR_CREDENTIALS, EMULATOR_REGION, startAwsEmulator } from './aws-emulator.ts';
import { parseTemplate } from './cloudformation.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SAM_CONFIG = join(ROOT, 'samconfig.toml');
/** The stack's name in the environment `dev` of samconfig.toml. */
const STACK_NAME = 'logfold-dev';

const run = promisify(execFile);

const resource = z.looseObject({ Type: z.string(), Properties: z.record(z.string(), z.unknown()).default({}) });
const template = z.looseObject({ Resources: z.record(z.string(), resource) });
const mathAlarm = z.looseObject({
  Metrics: z.array(
    z.object({
      MetricStat: z.object({ Metric: z.looseObject({}), Stat: z.string(), Period: z.number() }).optional(),
    }),
  ),
});

type Resource = z.infer<typeof resource>;
type Resources = Readonly<Record<string, Resource>>;

/** Changes resources before they are deployed. */
type Change = (resources: Resources) => Resources;

/** A stack on an emulator of AWS, as its operator sees it. */
export class EmulatedStack {
  readonly #emulator: AwsEmulator;
  readonly #cloudFormation: CloudFormationClient;
  readonly #lambda: LambdaClient;
  #outputs: ReadonlyMap<string, string> = new Map();
  /** The settings of a client of the emulator. */
  readonly client: Pick<AwsEmulator, 'endpoint'> & {
    readonly region: string;
    readonly credentials: typeof EMULATOR_CREDENTIALS;
  };
  readonly dynamodb: DynamoDBClient;

  private constructor(emulator: AwsEmulator) {
    this.#emulator = emulator;
    this.client = { endpoint: emulator.endpoint, region: EMULATOR_REGION, credentials: EMULATOR_CREDENTIALS };
    this.dynamodb = new DynamoDBClient(this.client);
    this.#cloudFormation = new CloudFormationClient(this.client);
    this.#lambda = new LambdaClient(this.client);
  }

  /** Starts an emulator without a stack. */
  static async start(): Promise<EmulatedStack> {
    return new EmulatedStack(await startAwsEmulator(setting('LOGFOLD_EMULATOR')));
  }

  /**
   * Does what `sam deploy --config-env dev` does after `npm run build`, with an emulator in place
   * of AWS. Updates an existing stack. `emulated` and `withoutMath` remove what the emulator lacks.
   * @throws Error with the SAM CLI's output if the deployment fails
   */
  async deploy(parameters: Readonly<Record<string, string>>, change: Change = (resources) => resources): Promise<void> {
    const emulator = this.#emulator;
    const file = await copyTemplate('template.yaml', emulator, (resources) => change(emulated(resources)));
    for (const nested of ['feed.yaml', 'revisions.yaml', 'monitoring.yaml']) {
      await copyTemplate(nested, emulator, (resources) => withoutMath(emulated(resources)));
    }
    const overrides = Object.entries(parameters).map(([name, value]) => `${name}="${value.replaceAll('"', '\\"')}"`);
    const options = ['--template-file', file, '--config-file', SAM_CONFIG, '--config-env', 'dev'];
    await run(setting('LOGFOLD_SAM'), ['deploy', ...options, '--parameter-overrides', ...overrides], {
      cwd: emulator.directory,
      // Pass nothing of the user's environment: neither an account nor settings.
      env: {
        PATH: process.env.PATH,
        HOME: emulator.directory,
        LC_ALL: 'C.UTF-8',
        SAM_CLI_TELEMETRY: '0',
        AWS_ENDPOINT_URL: emulator.endpoint,
        AWS_DEFAULT_REGION: EMULATOR_REGION,
        AWS_ACCESS_KEY_ID: EMULATOR_CREDENTIALS.accessKeyId,
        AWS_SECRET_ACCESS_KEY: EMULATOR_CREDENTIALS.secretAccessKey,
      },
    });
    const { Stacks } = await this.#cloudFormation.send(new DescribeStacksCommand({ StackName: STACK_NAME }));
    const outputs = Stacks?.[0]?.Outputs ?? [];
    this.#outputs = new Map(outputs.map(({ OutputKey = '', OutputValue = '' }) => [OutputKey, OutputValue]));
  }

  hasOutput(name: string): boolean {
    return this.#outputs.has(name);
  }

  /** @throws Error if the stack has no such output */
  output(name: string): string {
    const value = this.#outputs.get(name);
    if (value === undefined) throw new Error(`the stack has no output ${name}`);
    return value;
  }

  /** Invokes the function that an output names. @throws Error with the error of the function */
  async invoke(name: string, event: unknown): Promise<unknown> {
    const command = new InvokeCommand({ FunctionName: this.output(name), Payload: JSON.stringify(event) });
    const { Payload, FunctionError } = await this.#lambda.send(command);
    const text = Payload?.transformToString() ?? '';
    if (FunctionError !== undefined) throw new Error(text);
    return JSON.parse(text);
  }

  /** The physical id and the type of every resource of a stack, by its logical id. */
  async resources(
    stack = STACK_NAME,
  ): Promise<ReadonlyMap<string, { readonly physicalId: string; readonly type: string }>> {
    const { StackResources = [] } = await this.#cloudFormation.send(
      new DescribeStackResourcesCommand({ StackName: stack }),
    );
    return new Map(
      StackResources.map(({ LogicalResourceId = '', PhysicalResourceId = '', ResourceType = '' }) => [
        LogicalResourceId,
        { physicalId: PhysicalResourceId, type: ResourceType },
      ]),
    );
  }

  /** Prints the output of the emulator if the current test fails. */
  tellOnFailure(): void {
    onTestFailed(async () => console.log(await this.#emulator.log()));
  }

  async stop(): Promise<void> {
    for (const client of [this.dynamodb, this.#lambda, this.#cloudFormation]) client.destroy();
    await this.#emulator.stop();
  }
}

/** Polls until a condition is true. The test's own timeout ends the wait. */
export async function eventually(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(250);
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set. Run this test as .ci/run does`);
  return value;
}

/** Writes a changed template as JSON into the emulator's directory, and returns the path. */
async function copyTemplate(
  name: string,
  { directory }: AwsEmulator,
  change: (resources: Resources) => Resources,
): Promise<string> {
  const file = join(directory, name);
  const source = template.parse(parseTemplate(await readFile(join(ROOT, name), 'utf8')));
  await writeFile(file, JSON.stringify({ ...source, Resources: change(source.Resources) }));
  return file;
}

/**
 * Resources as the emulator takes them. It serves HTTP only, so a bucket policy that demands TLS
 * would refuse everything.
 */
function emulated(resources: Resources): Resources {
  const kept = Object.entries(resources).filter(([, { Type }]) => Type !== 'AWS::S3::BucketPolicy');
  return Object.fromEntries(
    kept.map(([id, { Properties, ...others }]) => {
      const code = Object.entries(Properties).filter(([name]) => name === 'CodeUri' || name === 'Code');
      const moved = code.map(([name, folder]) => [name, join(ROOT, String(folder))]);
      return [id, { ...others, Properties: { ...Properties, ...Object.fromEntries(moved) } }];
    }),
  );
}

/** Alarms as the emulator takes them: without metric math, each with its first metric only. */
function withoutMath(resources: Resources): Resources {
  return Object.fromEntries(
    Object.entries(resources).map(([id, { Properties, ...others }]) => [
      id,
      { ...others, Properties: withFirstMetric(Properties) },
    ]),
  );
}

function withFirstMetric(properties: Resource['Properties']): Resource['Properties'] {
  const parsed = mathAlarm.safeParse(properties);
  if (!parsed.success) return properties;
  const { Metrics, ...others } = parsed.data;
  const [first] = Metrics.flatMap(({ MetricStat }) => MetricStat ?? []);
  if (first === undefined) throw new Error('an alarm has no metric');
  return { ...others, ...first.Metric, Statistic: first.Stat, Period: first.Period };
}
