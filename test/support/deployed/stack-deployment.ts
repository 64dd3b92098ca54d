import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  CloudFormationClient,
  DescribeStackResourcesCommand,
  DescribeStacksCommand,
} from '@aws-sdk/client-cloudformation';
import * as z from 'zod';
import { type AwsEmulator, EMULATOR_CREDENTIALS, EMULATOR_REGION } from './aws-emulator.ts';
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

export interface StackDeployment {
  readonly emulator: AwsEmulator;
  /** The SAM CLI's program. */
  readonly sam: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Changes resources before they are deployed. */
  readonly change?: (resources: Resources) => Resources;
}

/**
 * Does what `sam deploy --config-env dev` does after `npm run build`, with an emulator in place of
 * AWS. Updates an existing stack. `emulated` and `withoutMath` remove what the emulator lacks.
 * @returns the stack's outputs
 * @throws Error with the SAM CLI's output if the deployment fails
 */
export async function deployStack(deployment: StackDeployment): Promise<ReadonlyMap<string, string>> {
  const { emulator, sam, parameters, change = (resources) => resources } = deployment;
  const file = await copyTemplate('template.yaml', emulator, (resources) => change(emulated(resources)));
  for (const nested of ['feed.yaml', 'revisions.yaml', 'monitoring.yaml']) {
    await copyTemplate(nested, emulator, (resources) => withoutMath(emulated(resources)));
  }
  const overrides = Object.entries(parameters).map(([name, value]) => `${name}="${value.replaceAll('"', '\\"')}"`);
  const options = ['--template-file', file, '--config-file', SAM_CONFIG, '--config-env', 'dev'];
  await run(sam, ['deploy', ...options, '--parameter-overrides', ...overrides], {
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
  return outputs(emulator);
}

/** The physical id and the type of every resource of a stack, by its logical id. */
export async function stackResources(
  { endpoint }: AwsEmulator,
  stack = STACK_NAME,
): Promise<ReadonlyMap<string, { readonly physicalId: string; readonly type: string }>> {
  const client = new CloudFormationClient({ endpoint, region: EMULATOR_REGION, credentials: EMULATOR_CREDENTIALS });
  const { StackResources = [] } = await client.send(new DescribeStackResourcesCommand({ StackName: stack }));
  client.destroy();
  return new Map(
    StackResources.map(({ LogicalResourceId = '', PhysicalResourceId = '', ResourceType = '' }) => [
      LogicalResourceId,
      { physicalId: PhysicalResourceId, type: ResourceType },
    ]),
  );
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

async function outputs({ endpoint }: AwsEmulator): Promise<ReadonlyMap<string, string>> {
  const client = new CloudFormationClient({ endpoint, region: EMULATOR_REGION, credentials: EMULATOR_CREDENTIALS });
  const { Stacks } = await client.send(new DescribeStacksCommand({ StackName: STACK_NAME }));
  client.destroy();
  return new Map((Stacks?.[0]?.Outputs ?? []).map(({ OutputKey = '', OutputValue = '' }) => [OutputKey, OutputValue]));
}
