import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CloudFormationClient, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import * as z from 'zod';
import { type AwsEmulator, EMULATOR_CREDENTIALS, EMULATOR_REGION } from './aws-emulator.ts';
import { parseTemplate } from './cloudformation.ts';

const ROOT = join(import.meta.dirname, '../..');
const SAM_CONFIG = join(ROOT, 'samconfig.toml');
/** What `dev` in samconfig.toml calls the stack. */
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
  readonly change?: ((resources: Resources) => Resources) | undefined;
}

/**
 * What `sam deploy --config-env dev` does after `npm run build`, with an emulator in the place of AWS; where the stack is there
 * already, it is updated. Two things are changed that the emulator knows no better: see {@link emulated}.
 * @returns the stack's outputs
 * @throws Error with the SAM CLI's own words where the deployment fails
 */
export async function deployStack(deployment: StackDeployment): Promise<ReadonlyMap<string, string>> {
  const { emulator, sam, parameters, change = (resources) => resources } = deployment;
  const file = join(emulator.directory, 'template.json');
  const source = template.parse(parseTemplate(await readFile(join(ROOT, 'template.yaml'), 'utf8')));
  await writeFile(file, JSON.stringify({ ...source, Resources: change(emulated(source.Resources)) }));
  const overrides = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`);
  const options = ['--template-file', file, '--config-file', SAM_CONFIG, '--config-env', 'dev'];
  await run(sam, ['deploy', ...options, '--parameter-overrides', ...overrides], {
    cwd: emulator.directory,
    // Nothing of whoever runs this: neither an account nor settings.
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

/**
 * Resources as the emulator takes them. It serves HTTP only, so whatever insists on TLS would refuse everything; and it has
 * no metric math, of which the first metric stays, so that what refers to an alarm finds one.
 */
function emulated(resources: Resources): Resources {
  const kept = Object.entries(resources).filter(([, { Type }]) => Type !== 'AWS::S3::BucketPolicy');
  return Object.fromEntries(
    kept.map(([id, { Properties, ...others }]) => {
      if (others.Type === 'AWS::CloudWatch::Alarm') return [id, { ...others, Properties: withoutMath(Properties) }];
      const { CodeUri } = Properties;
      if (typeof CodeUri !== 'string') return [id, { ...others, Properties }];
      return [id, { ...others, Properties: { ...Properties, CodeUri: join(ROOT, CodeUri) } }];
    }),
  );
}

function withoutMath(properties: Resource['Properties']): Resource['Properties'] {
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
