import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { PRICES } from '../../examples/demo/prices.ts';
import { FUNCTIONS } from '../../handlers/bundle.ts';
import * as environment from '../../handlers/environment.ts';
import { OWN_TTL_ATTRIBUTE } from '../../src/adapters/dynamodb/table-settings.ts';
import { BUILT_IN_REDUCERS } from '../../src/adapters/platform/reducer-module.ts';
import { logLine } from '../../src/functions/log-line.ts';
import { metricsOf } from '../../src/functions/metrics.ts';
import { divides, MAX_DIVISION, REVISIONS_DIVISION } from '../../src/log/division-policy.ts';
import { MAPPED_DIVISION } from '../../src/mapping/mapped-division.ts';
import { MAPPING_NAMES } from '../../src/mapping/ready-made.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import {
  ADOPT_KEY,
  COMPARE_KEY,
  CONDEMNED_PREFIX,
  LOGS_PREFIX,
  POLICIES_KEY,
  SWEEP_KEY,
} from '../../src/store/keys.ts';
import { allows, type DeployedFunction, deployedFunctions, matches } from '../support/deployed/deployed-functions.ts';
import { passesFilter } from '../support/deployed/event-filter.ts';
import { type Resource, readTemplate, type Stack, type Template } from '../support/deployed/template.ts';

const ROOT = join(import.meta.dirname, '../..');

const EXISTING = {
  EntryTableName: 'orders-entries',
  EntryTableStreamArn: 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-entries/stream/2026-02-03T04:05:06.789',
  SegmentTableName: 'orders-segments',
  BucketName: 'orders-snapshots',
};
const MAPPING = JSON.stringify({
  partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  type: 'type',
  version: { constant: 1 },
  time: { name: 'ts', format: 'iso' },
  body: 'payload',
  ttl: 'expiresAt',
});
/** A stack beside a table with a mapping, which creates the Segment table. */
const MAPPED = {
  EntryTableName: 'orders',
  EntryTableStreamArn: 'arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-02-03T04:05:06.789',
  Mapping: MAPPING,
};
/** A plain table whose changes become revisions. */
const REVISED = {
  RevisionsStreamArn: 'arn:aws:dynamodb:us-east-1:123456789012:table/customers/stream/2026-02-03T04:05:06.789',
};
/** With every optional feature, so that the stack has every function and every alarm. */
const COMPLETE = { ...REVISED, SnapshotEveryEntries: '100', Feed: 'topic' };
const KEY = 'arn:aws:kms:us-east-1:123456789012:key/1';
const TABLE_KEY = 'arn:aws:kms:us-east-1:123456789012:key/2';
const LAYER = 'arn:aws:lambda:us-east-1:123456789012:layer:reducer:3';
const TOPIC = 'arn:aws:sns:us-east-1:123456789012:alarms';
const EVERYTHING = {
  ...EXISTING,
  KmsKeyArn: KEY,
  TableKmsKeyArn: TABLE_KEY,
  ReducerLayerArn: LAYER,
  AlarmTopicArn: TOPIC,
  Feed: 'topic',
};

/** Variables that the runtime and the Powertools libraries read from the process. */
const RUNTIME_VARIABLES = ['NODE_OPTIONS', 'POWERTOOLS_METRICS_NAMESPACE', 'POWERTOOLS_SERVICE_NAME'];

let template: Template;
let own: Stack;
/** A stack with the feed and its topic. */
let fed: Stack;
/** The nested stack of `own`. */
let monitoring: Stack;
/** A stack with every optional feature. */
let complete: Stack;
/** The nested stack of `complete`, which has every alarm. */
let watched: Stack;
let existing: Stack;

beforeAll(() => {
  template = readTemplate();
  own = template.expand();
  monitoring = own.nested('MonitoringStack');
  fed = template.expand({ parameters: { Feed: 'topic' } });
  complete = template.expand({ parameters: COMPLETE });
  watched = complete.nested('MonitoringStack');
  existing = template.expand({ parameters: EXISTING });
});

function functionOf(stack: Stack, id: string): DeployedFunction {
  const found = deployedFunctions(stack).get(id);
  if (found === undefined) throw new Error(`no function ${id}`);
  return found;
}

function resourceOf(stack: Stack, id: string): Resource {
  const found = stack.resources.get(id);
  if (found === undefined) throw new Error(`no resource ${id}`);
  return found;
}

/** The functions that may use an action on a table. */
function mayIn(stack: Stack, action: string, table: string): string[] {
  return [...deployedFunctions(stack).values()]
    .filter(({ statements }) => allows(statements, action, `arn:aws:dynamodb:us-east-1:123456789012:table/${table}`))
    .map(({ id }) => id);
}

/** Finds the schema of a handler's environment in the handler's source. */
function schemaOf(of: DeployedFunction) {
  const handler = (file: string): string => readFileSync(join(ROOT, 'handlers', file), 'utf8');
  const entry = handler(of.handler.replace(/\.handler$/, '.ts'));
  const source = entry.includes('jobsHandler(') ? handler('jobs-handler.ts') : entry;
  const name = /readEnvironment\((\w+), process\.env\)/.exec(source)?.[1];
  const {
    streamEnvironment,
    workEnvironment,
    replayEnvironment,
    revisionsEnvironment,
    feedStreamEnvironment,
    feedSweepEnvironment,
  } = environment;
  const schemas = new Map<
    string | undefined,
    | typeof streamEnvironment
    | typeof workEnvironment
    | typeof replayEnvironment
    | typeof revisionsEnvironment
    | typeof feedStreamEnvironment
    | typeof feedSweepEnvironment
  >([
    ['streamEnvironment', streamEnvironment],
    ['workEnvironment', workEnvironment],
    ['replayEnvironment', replayEnvironment],
    ['feedStreamEnvironment', feedStreamEnvironment],
    ['feedSweepEnvironment', feedSweepEnvironment],
    ['revisionsEnvironment', revisionsEnvironment],
  ]);
  const schema = schemas.get(name);
  if (schema === undefined)
    throw new Error(`${of.id} reads its environment with an unknown schema: add the schema to this test`);
  return schema;
}

test('each template is small enough for CloudFormation, which reads it from a bucket', () => {
  for (const file of ['template.yaml', 'monitoring.yaml']) {
    expect(readFileSync(join(ROOT, file)).byteLength, file).toBeLessThan(1_000_000);
  }
});

describe('parameters', () => {
  test('each parameter is used, has a description and is in one group', () => {
    const { Parameters: _, Metadata: metadata, ...rest } = template.document;
    const text = JSON.stringify(rest);
    const groups = JSON.stringify(metadata);
    for (const [name, { Description }] of template.parameters) {
      expect(text.includes(`"Ref":"${name}"`) || text.includes(`\${${name}}`), `${name} is used`).toBe(true);
      expect(groups.split(`"${name}"`), `${name} is in one group`).toHaveLength(2);
      expect(Description.length, `${name} is explained`).toBeGreaterThan(30);
    }
  });

  test('each parameter is limited to values, a pattern or a range', () => {
    for (const [name, parameter] of template.parameters) {
      const { Type, AllowedValues, AllowedPattern, MinValue, MaxValue } = parameter;
      const bounded = AllowedValues ?? (Type === 'Number' ? MinValue !== undefined && MaxValue : AllowedPattern);
      expect(bounded, name).toBeTruthy();
    }
  });

  test('the defaults are those of the retention policy', () => {
    const settings = environment.workEnvironment.parse(functionOf(own, 'SweepFunction').environment);
    expect(environment.policyOf(settings)).toEqual(DEFAULT_POLICY);
  });

  test.each([
    ['EntryTableName', 'arn:aws:dynamodb:us-east-1:123456789012:table/x'],
    ['SegmentTableName', 'no spaces'],
    ['EntryTableStreamArn', 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-entries'],
    ['SnapshotType', 'a"],"b":["'],
    ['EndSegmentType', 'a\\u0022'],
    ['SnapshotType', ''],
    ['BucketName', 'Not_A_Bucket'],
    ['KmsKeyArn', 'alias/mine'],
    ['KeepSegments', '0'],
    ['KeepDays', '-1'],
    ['KeepDays', 'many'],
    ['KeepDays', ''],
    ['GraceSeconds', '60'],
    ['Archive', 'yes'],
    ['Expire', 'now'],
    ['SnapshotConcurrency', '1'],
    ['SweepSchedule', 'hourly'],
    ['LogRetentionDays', '2'],
    ['ReducerLayerArn', 'arn:aws:lambda:us-east-1:123456789012:layer:reducer'],
    ['AlarmTopicArn', 'me@example.com'],
    ['Mapping', 'mapping.json'],
    ['Mapping', '[]'],
    ['Mapping', `{${' '.repeat(2048)}}`],
    ['AdoptSchedule', 'daily'],
    ['StreamTrigger', 'no'],
    ['StreamFilter', 'INSERT'],
    ['BatchingWindow', '301'],
    ['SnapshotEveryEntries', '-1'],
  ])('an invalid value is refused: %s = %j', (name, value) => {
    expect(() => template.expand({ parameters: { ...EXISTING, [name]: value } })).toThrow(`parameter ${name}:`);
  });

  test.each([
    [{ EntryTableName: 'orders-entries' }, 'EntryTableStreamArn is required'],
    [{ ...EXISTING, SegmentTableName: '' }, 'SegmentTableName is required'],
    [{ ...EXISTING, EntryTableStreamArn: '' }, 'EntryTableStreamArn is required'],
    [{ ...EXISTING, SegmentTableName: 'orders-entries' }, 'must be two tables'],
    [{ SegmentTableName: 'orders-segments' }, 'EntryTableName is required'],
    [{ EntryTableStreamArn: EXISTING.EntryTableStreamArn }, 'EntryTableName is required'],
    [{ SnapshotType: 'Mark', EndSegmentType: 'Mark' }, 'SnapshotType and EndSegmentType must differ'],
    [{ Archive: 'false', Expire: 'delete', KeepDays: '0' }, 'would expire without an archive'],
    [{ Archive: 'false', Expire: 'ttl', KeepDays: '0' }, 'would expire without an archive'],
    [{ AlarmTopicArn: TOPIC, Monitoring: 'false' }, 'Monitoring must be true'],
    [{ Mapping: MAPPING }, 'EntryTableName is required if Mapping is set'],
    [{ ...MAPPED, EntryTableStreamArn: '' }, 'EntryTableStreamArn is required'],
    [{ ...MAPPED, StreamTrigger: 'false' }, 'AdoptSchedule is required'],
    [{ ...MAPPED, SegmentEveryBytes: '1000000' }, 'SegmentEveryBytes must be 0'],
    [{ ...EXISTING, AdoptSchedule: 'rate(1 day)' }, 'Mapping is required if AdoptSchedule is set'],
    [{ StreamTrigger: 'false', StreamFilter: '{"eventName":["INSERT"]}' }, 'StreamTrigger must be true'],
    [{ ...MAPPED, ...REVISED }, 'Mapping must be empty'],
    [{ ...EXISTING, RevisionsStreamArn: EXISTING.EntryTableStreamArn }, 'must not be the stream of the Entry table'],
    [{ ...REVISED, Reducer: 'collections' }, 'Reducer must be items or items+history'],
  ])('contradictory parameters fail before any resource is created: %j', (parameters, reason) => {
    expect(() => template.expand({ parameters })).toThrow(reason);
  });

  test.each([
    { Archive: 'false', Expire: 'delete', KeepDays: '1' },
    { Archive: 'false', Expire: 'never', KeepDays: '0' },
    { Archive: 'true', Expire: 'delete', KeepDays: '0' },
    EXISTING,
    { StreamTrigger: 'false' },
    { ...EXISTING, EntryTableStreamArn: '', StreamTrigger: 'false' },
    MAPPED,
    { ...MAPPED, SegmentTableName: 'orders-segments', AdoptSchedule: 'rate(7 days)' },
    { ...MAPPED, EntryTableStreamArn: '', StreamTrigger: 'false', AdoptSchedule: 'rate(15 minutes)' },
    { ...MAPPED, Mapping: JSON.stringify(JSON.parse(MAPPING), null, 2) },
    ...MAPPING_NAMES.filter((name) => name !== 'logfold').flatMap((name) => [
      { ...MAPPED, Mapping: name },
      { ...MAPPED, Mapping: `${name}:orders` },
    ]),
  ])('compatible parameters are accepted: %j', (parameters) => {
    expect(() => template.expand({ parameters })).not.toThrow();
  });

  test('an unknown parameter is an error', () => {
    expect(() => template.expand({ parameters: { KeepDay: '1' } })).toThrow('no parameter KeepDay');
  });
});

describe('the environments of samconfig.toml', () => {
  /** The lines of each section, by its name, such as `dev.deploy.parameters`. */
  function samSections(): ReadonlyMap<string, string> {
    const text = readFileSync(join(ROOT, 'samconfig.toml'), 'utf8').replaceAll(/^#.*\n/gm, '');
    const [, ...sections] = text.split(/^\[(?=[\w.]+\]$)/m);
    return new Map(sections.map((section) => [section.slice(0, section.indexOf(']')), section]));
  }

  const deployments = [...samSections()].flatMap(([name, section]) => {
    const [, env] = /^(\w+)\.deploy\.parameters$/.exec(name) ?? [];
    return env === undefined ? [] : [{ env, section }];
  });

  test('they are the ones that the documents name', () => {
    const documents = ['README.md', 'docs/operations.md'].map((file) => readFileSync(join(ROOT, file), 'utf8')).join();
    const named = [...documents.matchAll(/--config-env (\w+)/g)].map(([, env]) => env);
    expect(deployments.map(({ env }) => env).sort()).toEqual([...new Set(named)].sort());
  });

  test('each deploys the code that `npm run build` writes', () => {
    expect([...samSections().keys()].filter((name) => name.includes('.build.'))).toEqual([]);
    for (const { env, section } of deployments) {
      // Without this name, `sam deploy` uses the output of an earlier `sam build`.
      expect(section, env).toContain('\ntemplate_file = "template.yaml"\n');
      expect(section, env).toContain('\nresolve_s3 = true\n');
      expect(section, env).toContain('\ncapabilities = "CAPABILITY_IAM"\n');
    }
  });

  test('each passes parameters that the template accepts', () => {
    for (const { env, section } of deployments) {
      const overrides = /parameter_overrides = \[([^\]]*)\]/.exec(section)?.[1] ?? '';
      const parameters = Object.fromEntries(
        [...overrides.matchAll(/"(\w+)=(\w+)"/g)].map(([, name, value]) => [name, value]),
      );
      expect(Object.keys(parameters).length, env).toBe(overrides.split('"').length >> 1);
      expect(() => template.expand({ parameters: { ...EXISTING, ...parameters } }), env).not.toThrow();
    }
  });
});

describe('environment variables', () => {
  test('every function has the variables that its handler reads', () => {
    for (const each of [own, complete].flatMap((stack) => [...deployedFunctions(stack).values()])) {
      const read = Object.keys(schemaOf(each).shape);
      expect(Object.keys(each.environment), each.id).toEqual(expect.arrayContaining([...read, ...RUNTIME_VARIABLES]));
    }
  });

  test('at least one handler reads each variable', () => {
    const functions = [...deployedFunctions(complete).values()];
    const set = new Set(functions.flatMap((each) => Object.keys(each.environment)));
    const read = new Set(functions.flatMap((each) => Object.keys(schemaOf(each).shape)));
    expect([...set].sort()).toEqual([...read, ...RUNTIME_VARIABLES].sort());
  });

  test('handlers accept every limit and every choice that the template allows', () => {
    for (const [name, { MinValue, MaxValue, AllowedValues = [], Default = '' }] of template.parameters) {
      for (const value of [Default, ...AllowedValues, MinValue, MaxValue].filter((each) => each !== undefined)) {
        const stack = template.expand({
          parameters: { ...(name.startsWith('Revisions') && REVISED), [name]: String(value) },
        });
        for (const each of deployedFunctions(stack).values()) {
          const settings = () =>
            environment.readEnvironment<{ SNAPSHOT_TYPE: string; END_SEGMENT_TYPE: string; MAPPING: string }>(
              schemaOf(each),
              each.environment,
            );
          expect(settings, `${each.id}, ${name} = ${value}`).not.toThrow();
        }
      }
    }
  });

  test.each([
    [{ Mapping: '{"partitionKey":}' }, 'Mapping is invalid: the schema mapping is not JSON'],
    [{ Mapping: JSON.stringify({ ...JSON.parse(MAPPING), body: 7 }) }, 'Mapping is invalid: '],
    [{ SegmentEveryEntries: '150' }, 'SegmentEveryEntries is 150: '],
    [{ SnapshotEveryEntries: '30', SegmentEveryEntries: '100' }, 'SegmentEveryEntries is 100: '],
    [{ SnapshotEveryBytes: '999' }, "SnapshotEveryBytes is '999': neither 0 nor from 1000 to"],
  ])('an error names the parameter that the functions cannot use: %j', (parameters, reason) => {
    const stack = template.expand({ parameters: { ...MAPPED, ...parameters } });
    const settings = () => {
      const read = environment.readEnvironment(
        environment.workEnvironment,
        functionOf(stack, 'SnapshotFunction').environment,
      );
      return [environment.mappingOf(read), environment.divisionPolicyOf(read)];
    };
    expect(settings).toThrow(`parameter ${reason}`);
  });

  test('without numbers, a division policy is off for own logs and has defaults for mapped ones', () => {
    const policyOf = (stack: Stack) =>
      environment.divisionPolicyOf(
        environment.streamEnvironment.parse(functionOf(stack, 'StreamFunction').environment),
      );
    expect(divides(policyOf(own))).toBe(false);
    expect(policyOf(template.expand({ parameters: MAPPED }))).toEqual(MAPPED_DIVISION);
  });

  test('variables name the tables, bucket and queues of the stack, or the given ones', () => {
    expect(functionOf(own, 'MaintainFunction').environment).toMatchObject({
      ENTRY_TABLE: own.ref('EntryTable'),
      ENTRY_TABLE_STREAM_ARN: own.attribute('EntryTable', 'StreamArn'),
      SEGMENT_TABLE: own.ref('SegmentTable'),
      BUCKET: own.ref('Bucket'),
      SNAPSHOT_QUEUE_URL: own.ref('SnapshotJobs'),
      MAINTENANCE_QUEUE_URL: own.ref('MaintenanceJobs'),
      REDUCER_MODULE: 'spreadsheet',
    });
    expect(functionOf(existing, 'ReplayFunction').environment).toMatchObject({
      ENTRY_TABLE: 'orders-entries',
      ENTRY_TABLE_STREAM_ARN: EXISTING.EntryTableStreamArn,
      SEGMENT_TABLE: 'orders-segments',
      BUCKET: 'orders-snapshots',
    });
    const local = template.expand({ refs: { SnapshotJobs: 'http://127.0.0.1:1/0/jobs.fifo' } });
    expect(functionOf(local, 'StreamFunction').environment.SNAPSHOT_QUEUE_URL).toBe('http://127.0.0.1:1/0/jobs.fifo');
  });

  test('all of them, with the longest mapping, fit into the 4 KB that Lambda allows', () => {
    const parameters = {
      ...{ ...EVERYTHING, EntryTableName: 'e'.repeat(100), SegmentTableName: 's'.repeat(100) },
      Mapping: `{${' '.repeat(2046)}}`,
    };
    const refs = { 'AWS::StackName': 'a-stack-with-a-name-as-long-as-anyone-would-choose' };
    for (const each of deployedFunctions(template.expand({ parameters, refs })).values()) {
      const bytes = Object.entries(each.environment).reduce(
        (sum, [name, value]) => sum + name.length + value.length,
        0,
      );
      expect(bytes, each.id).toBeGreaterThan(2048);
      expect(bytes, each.id).toBeLessThan(4096);
    }
  });

  test('each function that folds gets the layer with the reducer and its module path', () => {
    const stack = template.expand({ parameters: { ReducerLayerArn: LAYER } });
    for (const each of deployedFunctions(stack).values()) {
      const folds = each.id !== 'StreamFunction';
      expect(each.layers, each.id).toEqual(folds ? [LAYER] : []);
      if (folds) expect(each.environment.REDUCER_MODULE, each.id).toBe('/opt/reducer.mjs');
    }
    for (const each of deployedFunctions(own).values()) expect(each.layers).toEqual([]);
  });

  test('without a layer, each function that folds gets the name of a built-in reducer', () => {
    for (const { name } of BUILT_IN_REDUCERS) {
      const stack = template.expand({ parameters: { Reducer: name } });
      expect(functionOf(stack, 'SnapshotFunction').environment.REDUCER_MODULE).toBe(name);
    }
    expect(() => template.expand({ parameters: { Reducer: 'sheets' } })).toThrow();
  });
});

describe('functions', () => {
  test('each runs on Node 24 and arm64, with traces and with logs that expire', () => {
    const functions = [...deployedFunctions(own).values()];
    expect(functions.map(({ id }) => id)).toEqual(
      ['Stream', 'Snapshot', 'Maintain', 'Sweep', 'Replay'].map((name) => `${name}Function`),
    );
    for (const each of functions) {
      expect(each).toMatchObject({ runtime: 'nodejs24.x', architectures: ['arm64'], tracing: 'Active' });
      const group = own
        .ofType('AWS::Logs::LogGroup')
        .find(({ properties }) => properties.LogGroupName === each.logGroup);
      expect(group?.properties.RetentionInDays).toBe('30');
    }
  });

  test('each has only the code that `npm run build` writes', () => {
    const functions = [...deployedFunctions(template.expand({ parameters: REVISED })).values()];
    expect(functions.map(({ code, handler }) => [code, handler])).toEqual(
      FUNCTIONS.map((name) => [`build/${name}`, `${name}.handler`]),
    );
  });

  test('by default they leave room for each other in a new account, which has 10 concurrent executions', () => {
    for (const stack of [own, complete]) {
      const most = [...deployedFunctions(stack).values()].map(({ queues }) =>
        queues.reduce((sum, { maximumConcurrency = 1000 }) => sum + maximumConcurrency, 0),
      );
      // A shard of a stream, a schedule and a person start one execution at a time.
      expect(most.reduce((sum, each) => sum + Math.max(each, 1), 0)).toBeLessThanOrEqual(10);
    }
  });

  test('each invocation of a worker gets one job, and the parameters limit its concurrency', () => {
    const stack = template.expand({ parameters: { SnapshotConcurrency: '7', MaintenanceConcurrency: '3' } });
    const common = { batchSize: 1, responseTypes: ['ReportBatchItemFailures'] };
    expect(functionOf(stack, 'SnapshotFunction').queues).toEqual([
      {
        ...common,
        id: 'SnapshotFunctionJobs',
        queueArn: stack.attribute('SnapshotJobs', 'Arn'),
        maximumConcurrency: 7,
      },
    ]);
    expect(functionOf(stack, 'MaintainFunction').queues).toEqual([
      {
        ...common,
        id: 'MaintainFunctionJobs',
        queueArn: stack.attribute('MaintenanceJobs', 'Arn'),
        maximumConcurrency: 3,
      },
    ]);
  });

  test('only functions that send to their own queue turn off recursive loop detection', () => {
    const feedThemselves = [...deployedFunctions(own).values()].filter(({ queues, statements }) =>
      queues.some(({ queueArn }) => allows(statements, 'sqs:SendMessage', queueArn)),
    );
    const allowed = [...deployedFunctions(own).values()].filter(({ recursiveLoop }) => recursiveLoop === 'Allow');
    expect(allowed.map(({ id }) => id)).toEqual(feedThemselves.map(({ id }) => id));
    expect(allowed.map(({ id }) => id)).toContain('SnapshotFunction');
  });

  test('the schedule of the stack invokes the sweep function within a window', () => {
    const stack = template.expand({ parameters: { SweepSchedule: 'rate(2 hours)' } });
    expect(functionOf(stack, 'SweepFunction').schedules).toEqual([
      { id: 'SweepFunctionSchedule', expression: 'rate(2 hours)', windowMinutes: 15, input: {} },
    ]);
  });
});

describe('the stream', () => {
  test('it is read from its beginning, and retries of a record are limited', () => {
    for (const stack of [own, existing]) {
      const streamArn = stack === own ? own.attribute('EntryTable', 'StreamArn') : EXISTING.EntryTableStreamArn;
      expect(functionOf(stack, 'StreamFunction').streams).toMatchObject([
        {
          streamArn,
          startingPosition: 'TRIM_HORIZON',
          bisects: true,
          responseTypes: ['ReportBatchItemFailures'],
          onFailure: stack.attribute('LostRecords', 'Arn'),
        },
      ]);
      const [source] = functionOf(stack, 'StreamFunction').streams;
      expect(source?.maximumRetryAttempts).toBeGreaterThan(0);
      // DynamoDB keeps a record for 24 hours. A shorter limit would give up routable records.
      expect(source?.maximumRecordAgeSeconds).toBe(24 * 3600);
    }
  });

  test.each([['Snapshot', 'End Segment'], ['Mark: "no"', 'Ende'].map((type) => type.replaceAll('"', "'"))])(
    'it passes only insertions of %s and %s entries',
    (snapshot, end) => {
      const stack = template.expand({ parameters: { SnapshotType: snapshot, EndSegmentType: end } });
      const [source] = functionOf(stack, 'StreamFunction').streams;
      const passes = (eventName: string, type: string | undefined): boolean =>
        passesFilter(source?.filters ?? [], {
          eventName,
          dynamodb: { Keys: { N: { N: '1' } }, NewImage: type === undefined ? undefined : { T: { S: type } } },
        });
      expect([passes('INSERT', snapshot), passes('INSERT', end)]).toEqual([true, true]);
      expect([passes('MODIFY', snapshot), passes('REMOVE', undefined), passes('INSERT', 'Set')]).toEqual([
        false,
        false,
        false,
      ]);
      expect(passes('INSERT', `${snapshot} `)).toBe(false);
    },
  );
});

describe('a division policy', () => {
  test.each(['SnapshotEveryEntries', 'SnapshotEveryBytes', 'SegmentEveryEntries', 'SegmentEveryBytes'])(
    '%s lets all insertions start the stream function, in batches',
    (name) => {
      const stack = template.expand({ parameters: { [name]: '1000', BatchingWindow: '7' } });
      const [source] = functionOf(stack, 'StreamFunction').streams;
      expect(source?.batchingWindowSeconds).toBe(7);
      expect(passesFilter(source?.filters ?? [], { eventName: 'INSERT', dynamodb: {} })).toBe(true);
      for (const eventName of ['MODIFY', 'REMOVE']) {
        expect(passesFilter(source?.filters ?? [], { eventName, dynamodb: {} })).toBe(false);
      }
    },
  );

  test('the template and the handlers have the same limits', () => {
    for (const [setting, max] of Object.entries(MAX_DIVISION)) {
      const name = setting.replace(/^s/, 'S');
      expect(template.parameters.get(name), name).toMatchObject({ MinValue: 0, MaxValue: max, Default: '0' });
    }
  });

  test('without one, or with minutes alone, the stream function starts as it always did', () => {
    for (const parameters of [{}, { SnapshotEveryMinutes: '60' }]) {
      const [source] = functionOf(template.expand({ parameters }), 'StreamFunction').streams;
      expect(source).toEqual(functionOf(own, 'StreamFunction').streams[0]);
      expect(source?.batchingWindowSeconds).toBe(0);
    }
  });

  test('with one, the snapshot function may append entries; no other function may', () => {
    for (const name of ['SnapshotEveryEntries', 'SnapshotEveryMinutes', 'SegmentEveryBytes']) {
      const stack = template.expand({ parameters: { ...EXISTING, [name]: '1000' } });
      for (const table of ['orders-entries', 'orders-segments']) {
        expect(mayIn(stack, 'dynamodb:PutItem', table), name).toEqual(['SnapshotFunction']);
      }
    }
  });
});

describe('the feed', () => {
  test('without it, the stack has none of its resources, and its functions load none of its code', () => {
    const ids = [...fed.resources.keys()].filter((id) => !own.resources.has(id));
    expect(ids.sort()).toEqual(['FeedPolicy', 'FeedTable', 'FeedTopic']);
    const handlers = (of: Stack) => [...deployedFunctions(of).values()].map(({ handler }) => handler);
    expect(handlers(fed).filter((handler) => !handlers(own).includes(handler))).toEqual([
      'stream-feed.handler',
      'sweep-feed.handler',
    ]);
    const silent = template.expand({ parameters: { Feed: 'on' } });
    expect([...fed.resources.keys()].filter((id) => !silent.resources.has(id))).toEqual(['FeedTopic']);
    expect(functionOf(silent, 'StreamFunction').environment).toMatchObject({ FEED_TOPIC_ARN: '' });
    expect(silent.outputs).not.toHaveProperty('FeedTopicArn');
    expect(fed.outputs).toMatchObject({ FeedTableName: fed.ref('FeedTable'), FeedTopicArn: fed.ref('FeedTopic') });
  });

  test('its table equals the Entry table of the stack, without a stream', () => {
    const table = resourceOf(fed, 'FeedTable');
    const { StreamSpecification: _, ...properties } = resourceOf(own, 'EntryTable').properties;
    expect(table).toMatchObject({ deletionPolicy: 'Retain', updateReplacePolicy: 'Retain' });
    expect(table.properties).toEqual(properties);
    const encrypted = template.expand({ parameters: { Feed: 'on', TableKmsKeyArn: TABLE_KEY } });
    expect(resourceOf(encrypted, 'FeedTable').properties.SSESpecification).toMatchObject({ KMSMasterKeyId: TABLE_KEY });
  });

  test('all insertions start the stream function, in batches', () => {
    const [source] = functionOf(fed, 'StreamFunction').streams;
    expect(source?.batchingWindowSeconds).toBe(10);
    expect(passesFilter(source?.filters ?? [], { eventName: 'INSERT', dynamodb: {} })).toBe(true);
    expect(passesFilter(source?.filters ?? [], { eventName: 'MODIFY', dynamodb: {} })).toBe(false);
  });

  test('only the functions that write it may append and publish, and nothing else of the tables changes', () => {
    const stack = template.expand({ parameters: { ...EXISTING, Feed: 'topic' } });
    const writers = ['StreamFunction', 'SweepFunction'];
    const feedTable = stack.ref('FeedTable');
    expect(mayIn(stack, 'dynamodb:PutItem', feedTable)).toEqual([
      'StreamFunction',
      'SnapshotFunction',
      'SweepFunction',
    ]);
    expect(mayIn(stack, 'dynamodb:Scan', feedTable)).toEqual([]);
    for (const table of ['orders-entries', 'orders-segments']) {
      for (const action of ['PutItem', 'Query', 'UpdateItem', 'DeleteItem', 'Scan']) {
        expect(mayIn(stack, `dynamodb:${action}`, table), action).toEqual(mayIn(existing, `dynamodb:${action}`, table));
      }
    }
    const may = [...deployedFunctions(stack).values()].filter(({ statements }) =>
      allows(statements, 'sns:Publish', stack.ref('FeedTopic')),
    );
    expect(may.map(({ id }) => id)).toEqual(writers);
  });

  test('it does not make logs divide', () => {
    expect(fed.nested('MonitoringStack').parameters).toMatchObject({ HasDivision: 'false', HasFeed: 'true' });
    expect(
      divides(
        environment.divisionPolicyOf(
          environment.streamEnvironment.parse(functionOf(fed, 'StreamFunction').environment),
        ),
      ),
    ).toBe(false);
  });
});

describe('the revisions of a plain table', () => {
  test('without them, the stack has none of their resources', () => {
    const revising = template.expand({ parameters: REVISED });
    const added = [...revising.resources.keys()].filter((id) => !own.resources.has(id));
    const kinds = ['', 'Stream', 'Log', 'Role'].map((kind) => `RevisionsFunction${kind}`);
    expect(added).toEqual(kinds);
    expect([own.outputs, revising.outputs].map((outputs) => 'RevisionsFunctionName' in outputs)).toEqual([false, true]);
  });

  test('every change starts the function in batches, and its schedule starts comparisons', () => {
    const stack = template.expand({ parameters: { ...REVISED, CompareSchedule: 'rate(7 days)', BatchingWindow: '3' } });
    const { streams, schedules } = functionOf(stack, 'RevisionsFunction');
    const [source] = streams;
    expect(source).toMatchObject({
      ...{ streamArn: REVISED.RevisionsStreamArn, startingPosition: 'TRIM_HORIZON', batchingWindowSeconds: 3 },
      ...{ bisects: true, responseTypes: ['ReportBatchItemFailures'], maximumRecordAgeSeconds: 86_400 },
      ...{ onFailure: stack.attribute('LostRecords', 'Arn'), filters: undefined },
    });
    const id = 'RevisionsFunctionCompare';
    expect(schedules).toEqual([{ id, expression: 'rate(7 days)', windowMinutes: 15, input: { compare: true } }]);
  });

  test('one parameter makes the whole deployment fold revisions, and divide their logs', () => {
    const reducersOf = (parameters: Readonly<Record<string, string>>) => {
      const functions = deployedFunctions(template.expand({ parameters: { ...REVISED, ...parameters } }));
      return [...new Set([...functions.values()].map((each) => each.environment.REDUCER_MODULE))];
    };
    expect(reducersOf({})).toEqual(['items']);
    expect(reducersOf({ Reducer: 'items+history' })).toEqual(['items+history']);
    expect(reducersOf({ Reducer: 'collections', ReducerLayerArn: LAYER })).toEqual(['/opt/reducer.mjs']);
    const stack = template.expand({ parameters: REVISED });
    const settings = environment.streamEnvironment.parse(functionOf(stack, 'StreamFunction').environment);
    expect(environment.divisionPolicyOf(settings)).toEqual(REVISIONS_DIVISION);
    const [source] = functionOf(stack, 'StreamFunction').streams;
    expect(passesFilter(source?.filters ?? [], { eventName: 'INSERT', dynamodb: {} })).toBe(true);
    expect(mayIn(stack, 'dynamodb:PutItem', stack.ref('EntryTable'))).toEqual([
      'SnapshotFunction',
      'RevisionsFunction',
    ]);
  });

  test('only the revisions function may read the plain table, and nothing may write to it', () => {
    const stack = template.expand({ parameters: { ...REVISED, ...EVERYTHING } });
    for (const action of ['DescribeTable', 'Scan', 'BatchGetItem']) {
      expect(mayIn(stack, `dynamodb:${action}`, 'customers')).toEqual(['RevisionsFunction']);
    }
    for (const action of ['PutItem', 'UpdateItem', 'DeleteItem', 'BatchWriteItem']) {
      expect(mayIn(stack, `dynamodb:${action}`, 'customers')).toEqual([]);
    }
    const { statements } = functionOf(stack, 'RevisionsFunction');
    expect(allows(statements, 'dynamodb:GetRecords', REVISED.RevisionsStreamArn)).toBe(true);
    expect(allows(statements, 'dynamodb:GetRecords', EXISTING.EntryTableStreamArn)).toBe(false);
  });
});

describe('a mapping', () => {
  test('the stack creates the Segment table beside the table of the mapping', () => {
    const stack = template.expand({ parameters: MAPPED });
    expect(stack.ofType('AWS::DynamoDB::Table').map(({ id }) => id)).toEqual(['SegmentTable']);
    expect(resourceOf(stack, 'SegmentTable')).toEqual(resourceOf(own, 'SegmentTable'));
    expect(stack.outputs).toMatchObject({ EntryTableName: 'orders', SegmentTableName: stack.ref('SegmentTable') });
    for (const each of deployedFunctions(stack).values()) {
      expect(each.environment).toMatchObject({ ENTRY_TABLE: 'orders', MAPPING });
    }
    const given = template.expand({ parameters: { ...MAPPED, SegmentTableName: 'orders-segments' } });
    expect(given.ofType('AWS::DynamoDB::Table')).toEqual([]);
  });

  test('all insertions start the stream function, or those of the given filter', () => {
    const insertion = (pk: string) => ({ eventName: 'INSERT', dynamodb: { Keys: { pk: { S: pk } } } });
    const passes = (parameters: Readonly<Record<string, string>>, record: unknown): boolean => {
      const [source] = functionOf(template.expand({ parameters }), 'StreamFunction').streams;
      expect(source?.batchingWindowSeconds).toBe(10);
      return passesFilter(source?.filters ?? [], record);
    };
    expect(passes(MAPPED, insertion('order#1'))).toBe(true);
    expect(passes(MAPPED, { ...insertion('order#1'), eventName: 'MODIFY' })).toBe(false);
    const StreamFilter = '{"eventName":["INSERT"],"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"order#"}]}}}}';
    expect(passes({ ...MAPPED, StreamFilter }, insertion('order#1'))).toBe(true);
    expect(passes({ ...MAPPED, StreamFilter }, insertion('user#1'))).toBe(false);
  });

  test.each([
    [{}, []],
    [{ Expire: 'ttl' }, ['UpdateItem: MaintainFunction']],
    [{ Expire: 'delete' }, ['DeleteItem: MaintainFunction']],
    [{ AdoptSchedule: 'rate(1 day)' }, ['Scan: SweepFunction']],
    [{ SnapshotEveryEntries: '10', SegmentEveryEntries: '100', SnapshotEveryMinutes: '5' }, []],
  ])('with %j, the only rights on the table beside reading logs are %j', (parameters, expected) => {
    const stack = template.expand({ parameters: { ...MAPPED, ...parameters } });
    const others = ['PutItem', 'UpdateItem', 'DeleteItem', 'BatchWriteItem', 'Scan', 'BatchGetItem'];
    const rights = others.flatMap((action) =>
      mayIn(stack, `dynamodb:${action}`, 'orders').map((id) => `${action}: ${id}`),
    );
    expect(rights).toEqual(expected);
    const read = ['SnapshotFunction', 'MaintainFunction', 'SweepFunction', 'ReplayFunction'];
    expect(mayIn(stack, 'dynamodb:Query', 'orders')).toEqual(read);
  });

  test('AdoptSchedule starts the sweep function to look for logs that are not registered', () => {
    const stack = template.expand({ parameters: { ...MAPPED, AdoptSchedule: 'rate(1 day)' } });
    expect(functionOf(stack, 'SweepFunction').schedules).toEqual([
      { id: 'SweepFunctionSchedule', expression: 'rate(1 hour)', windowMinutes: 15, input: {} },
      { id: 'SweepFunctionAdopt', expression: 'rate(1 day)', windowMinutes: 15, input: { adopt: true } },
    ]);
  });
});

describe('a stack without StreamTrigger', () => {
  const existingTable = { EntryTableName: 'orders-entries', SegmentTableName: 'orders-segments' };

  test.each([{}, existingTable])('nothing reads the stream: %j', (tables) => {
    const stack = template.expand({ parameters: { ...tables, StreamTrigger: 'false' } });
    const each = functionOf(stack, 'StreamFunction');
    expect(each.streams).toEqual([]);
    expect(each.statements.flatMap(({ actions }) => actions).filter((action) => /dynamodb/.test(action))).toEqual([]);
    expect(functionOf(stack, 'SweepFunction').environment.ENTRY_TABLE_STREAM_ARN).toBe('');
    expect(stack.outputs).not.toHaveProperty('EntryTableStreamArn');
  });

  test('it has no alarm about the stream, and its dashboard names only the alarms that it has', () => {
    const stack = template.expand({ parameters: { StreamTrigger: 'false' } }).nested('MonitoringStack');
    const alarms = (of: Stack) => of.ofType('AWS::CloudWatch::Alarm').map(({ id }) => id);
    const fedBySweeps = template.expand({ parameters: { StreamTrigger: 'false', Feed: 'on' } });
    const without = alarms(monitoring).filter((id) => !alarms(stack).includes(id));
    expect(alarms(monitoring).includes('UndividedLogsAlarm')).toBe(false);
    const optional = [
      ...['UndividedLogsAlarm', 'FeedFailingAlarm', 'FeedBehindAlarm', 'FeedAheadAlarm', 'RevisionsBehindAlarm'],
      ...[
        'RevisionsErrorsAlarm',
        'RevisionsLostAlarm',
        'RevisionsSilentAlarm',
        'CompareIncompleteAlarm',
        'CompareFailuresAlarm',
      ],
      'GapsFoundAlarm',
    ];
    expect(alarms(watched).filter((id) => !alarms(monitoring).includes(id))).toEqual(optional);
    expect(without).toEqual([
      ...['StreamBehindAlarm', 'StreamErrorsAlarm', 'StreamSilentAlarm', 'StreamUnusableAlarm', 'LostRecordsAlarm'],
    ]);
    const shown = z.object({
      widgets: z.tuple([z.object({ properties: z.object({ alarms: z.array(z.string()) }) })]).rest(z.unknown()),
    });
    for (const each of [stack, fedBySweeps.nested('MonitoringStack')]) {
      const [first] = shown.parse(JSON.parse(String(resourceOf(each, 'Dashboard').properties.DashboardBody))).widgets;
      expect(first.properties.alarms.sort()).toEqual(
        alarms(each)
          .map((id) => each.attribute(id, 'Arn'))
          .sort(),
      );
    }
    expect(alarms(fedBySweeps.nested('MonitoringStack')).filter((id) => !alarms(stack).includes(id))).toEqual([
      'FeedFailingAlarm',
      'FeedAheadAlarm',
    ]);
  });
});

describe('queues', () => {
  test('each keeps the order of a log, hides received jobs and keeps dead letters for two weeks', () => {
    const pairs = { SnapshotJobs: 'SnapshotFunction', MaintenanceJobs: 'MaintainFunction' };
    for (const [id, consumer] of Object.entries(pairs)) {
      const { properties } = resourceOf(own, id);
      const { timeoutSeconds } = functionOf(own, consumer);
      expect(properties.VisibilityTimeout).toBeGreaterThanOrEqual(6 * timeoutSeconds);
      expect(properties).toMatchObject({
        FifoQueue: true,
        DeduplicationScope: 'messageGroup',
        FifoThroughputLimit: 'perMessageGroupId',
        SqsManagedSseEnabled: true,
        RedrivePolicy: { deadLetterTargetArn: own.attribute(`Dead${id}`, 'Arn'), maxReceiveCount: 60 },
      });
      expect(resourceOf(own, `Dead${id}`).properties).toEqual({
        FifoQueue: true,
        SqsManagedSseEnabled: true,
        MessageRetentionPeriod: 14 * 24 * 3600,
      });
    }
  });
});

describe('tables of the stack', () => {
  test('they equal the local tables, have backups and outlive the stack', () => {
    for (const id of ['EntryTable', 'SegmentTable']) {
      const table = resourceOf(own, id);
      expect(table).toMatchObject({ deletionPolicy: 'Retain', updateReplacePolicy: 'Retain' });
      expect(table.properties).toMatchObject({
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [
          { AttributeName: 'S', AttributeType: 'B' },
          { AttributeName: 'N', AttributeType: 'N' },
        ],
        KeySchema: [
          { AttributeName: 'S', KeyType: 'HASH' },
          { AttributeName: 'N', KeyType: 'RANGE' },
        ],
        PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
        DeletionProtectionEnabled: true,
      });
      expect(table.properties.SSESpecification).toBeUndefined();
      const encrypted = template.expand({ parameters: { TableKmsKeyArn: TABLE_KEY } });
      expect(resourceOf(encrypted, id).properties.SSESpecification).toMatchObject({ KMSMasterKeyId: TABLE_KEY });
    }
    expect(resourceOf(own, 'EntryTable').properties).toMatchObject({
      StreamSpecification: { StreamViewType: 'NEW_IMAGE' },
      TimeToLiveSpecification: { AttributeName: OWN_TTL_ATTRIBUTE, Enabled: true },
    });
    expect(resourceOf(own, 'SegmentTable').properties.StreamSpecification).toBeUndefined();
  });

  test('the stack creates no tables if existing tables are given', () => {
    expect(existing.ofType('AWS::DynamoDB::Table')).toEqual([]);
    expect(existing.outputs).toMatchObject({ EntryTableName: 'orders-entries', SegmentTableName: 'orders-segments' });
    expect(own.outputs).toMatchObject({ EntryTableName: own.ref('EntryTable'), BucketName: own.ref('Bucket') });
  });
});

describe('buckets', () => {
  test('they are private and encrypted, and outlive the stack', () => {
    for (const id of ['Bucket', 'LostRecords']) {
      const bucket = resourceOf(own, id);
      expect(bucket).toMatchObject({ deletionPolicy: 'RetainExceptOnCreate', updateReplacePolicy: 'Retain' });
      expect(bucket.properties).toMatchObject({
        PublicAccessBlockConfiguration: {
          BlockPublicAcls: true,
          BlockPublicPolicy: true,
          IgnorePublicAcls: true,
          RestrictPublicBuckets: true,
        },
        OwnershipControls: { Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }] },
        BucketEncryption: {
          ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }],
        },
      });
      const arn = own.attribute(id, 'Arn');
      expect(resourceOf(own, `${id}TlsOnly`).properties).toMatchObject({
        Bucket: own.ref(id),
        PolicyDocument: {
          Statement: [
            {
              Effect: 'Deny',
              Principal: '*',
              Action: 's3:*',
              Resource: [arn, `${arn}/*`],
              Condition: { Bool: { 'aws:SecureTransport': 'false' } },
            },
          ],
        },
      });
      const encrypted = template.expand({ parameters: { KmsKeyArn: KEY } });
      expect(resourceOf(encrypted, id).properties.BucketEncryption).toEqual({
        ServerSideEncryptionConfiguration: [
          {
            ServerSideEncryptionByDefault: { SSEAlgorithm: 'aws:kms', KMSMasterKeyID: KEY },
            BucketKeyEnabled: true,
          },
        ],
      });
    }
  });

  test('the bucket expires old versions, aborts uploads and uses cold storage without retrieval delay', () => {
    const rulesOf = (stack: Stack) => resourceOf(stack, 'Bucket').properties.LifecycleConfiguration;
    expect(resourceOf(own, 'Bucket').properties.VersioningConfiguration).toEqual({ Status: 'Enabled' });
    const [uploads, versions, cold] = [
      { AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 } },
      { NoncurrentVersionExpiration: { NoncurrentDays: 35 }, ExpiredObjectDeleteMarker: true },
      { Prefix: LOGS_PREFIX, Transitions: [{ StorageClass: 'INTELLIGENT_TIERING' }] },
    ];
    expect(rulesOf(own)).toMatchObject({ Rules: [uploads, versions, cold] });
    const standard = template.expand({ parameters: { ColdStorageClass: 'STANDARD' } });
    expect(rulesOf(standard)).toMatchObject({ Rules: [uploads, versions] });
    // A current version never expires.
    expect(JSON.stringify(rulesOf(own))).not.toMatch(/"Expiration/);
  });

  test('the stack does not change a given bucket', () => {
    expect(existing.ofType('AWS::S3::Bucket').map(({ id }) => id)).toEqual(['LostRecords']);
    expect(existing.ofType('AWS::S3::BucketPolicy').map(({ id }) => id)).toEqual(['LostRecordsTlsOnly']);
  });
});

describe('permissions', () => {
  test('each statement names its actions and its resources', () => {
    for (const parameters of [{}, EVERYTHING, { ...EVERYTHING, Expire: 'ttl' }]) {
      for (const each of deployedFunctions(template.expand({ parameters })).values()) {
        for (const { sid, actions, resources } of each.statements) {
          expect(actions.join(), `${each.id} ${sid}`).not.toContain('*');
          if (sid === 'Trace') continue;
          for (const resource of resources) {
            // A `*` follows a named parent: the rest of a key, a stream's label or a log stream.
            expect(resource, `${each.id} ${sid}`).toMatch(/^arn:aws:[^*]+$|^arn:aws:[^*]*[\w-][/:]\*$/);
            expect(resource, `${each.id} ${sid}`).toMatch(/logfold|orders-|:key\//);
          }
        }
      }
    }
  });

  test('several functions share each managed policy', () => {
    const attached = z.object({ ManagedPolicyArns: z.array(z.string()) });
    const arns = own.ofType('AWS::IAM::Role').flatMap(({ properties }) => attached.parse(properties).ManagedPolicyArns);
    for (const { id } of own.ofType('AWS::IAM::ManagedPolicy')) {
      expect(arns.filter((arn) => arn === own.ref(id)).length, id).toBeGreaterThan(1);
    }
  });

  test('functions reach only the prefixes of the bucket that logfold uses', () => {
    const objects = [...deployedFunctions(existing).values()].flatMap(({ statements }) =>
      statements.flatMap(({ resources }) =>
        resources.filter((arn) => arn.startsWith('arn:aws:s3:::orders-snapshots/')),
      ),
    );
    const keys = [`${LOGS_PREFIX}*`, `${CONDEMNED_PREFIX}*`, POLICIES_KEY, SWEEP_KEY];
    expect([...new Set(objects)].sort()).toEqual(keys.map((key) => `arn:aws:s3:::orders-snapshots/${key}`).sort());
    const adopting = template.expand({ parameters: { ...MAPPED, AdoptSchedule: 'rate(1 day)' } });
    const { statements } = functionOf(adopting, 'SweepFunction');
    expect(statements.flatMap(({ resources }) => resources)).toContain(
      `arn:aws:s3:::${adopting.ref('Bucket')}/${ADOPT_KEY}`,
    );
  });

  test('only workers that delete have the permission to delete', () => {
    const may = (action: string, resource: string): string[] =>
      [...deployedFunctions(existing).values()]
        .filter(({ statements }) => allows(statements, action, resource))
        .map(({ id }) => id);
    const entries = 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-entries';
    const segments = 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-segments';
    const object = 'arn:aws:s3:::orders-snapshots/logs/x/chunks/y';
    expect(may('dynamodb:BatchWriteItem', entries)).toEqual(['MaintainFunction']);
    expect(may('s3:DeleteObjectVersion', object)).toEqual(['MaintainFunction']);
    expect(may('s3:DeleteObject', object)).toEqual(['SnapshotFunction', 'MaintainFunction']);
    // They write archives, in several parts. A failed upload is aborted.
    expect(may('s3:AbortMultipartUpload', object)).toEqual(['SnapshotFunction', 'MaintainFunction']);
    expect(may('dynamodb:UpdateItem', entries)).toEqual(['SnapshotFunction', 'MaintainFunction']);
    expect(may('dynamodb:DeleteItem', entries)).toEqual(['MaintainFunction']);
    expect(may('dynamodb:DeleteItem', segments)).toEqual([]);
    for (const table of [entries, segments]) expect(may('dynamodb:PutItem', table)).toEqual([]);
    expect(may('dynamodb:Scan', entries)).toEqual([]);
    expect(may('dynamodb:Scan', segments)).toEqual(['SweepFunction']);
    expect(may('s3:PutObject', 'arn:aws:s3:::orders-snapshots/policies.json')).toEqual([]);
  });

  test('the stream function reads only the stream of the given table', () => {
    for (const [stack, streamArn] of [
      [own, own.attribute('EntryTable', 'StreamArn')],
      [existing, EXISTING.EntryTableStreamArn],
    ] as const) {
      const { statements } = functionOf(stack, 'StreamFunction');
      expect(allows(statements, 'dynamodb:GetRecords', streamArn)).toBe(true);
      expect(allows(statements, 'dynamodb:GetRecords', streamArn.replace('/stream', '-2/stream'))).toBe(false);
    }
  });

  test('functions may use the given keys, and no keys if none are given', () => {
    const stack = template.expand({ parameters: EVERYTHING });
    const keysOf = (each: Stack, id: string) =>
      functionOf(each, id).statements.filter(({ actions }) => actions.some((action) => action.startsWith('kms:')));
    for (const id of deployedFunctions(own).keys()) {
      expect(keysOf(own, id), id).toEqual([]);
      const keys = new Set(keysOf(stack, id).flatMap(({ resources }) => resources));
      expect([...keys], id).toEqual([TABLE_KEY, KEY]);
    }
    expect(allows(functionOf(stack, 'ReplayFunction').statements, 'kms:GenerateDataKey', KEY)).toBe(false);
    expect(allows(functionOf(stack, 'SnapshotFunction').statements, 'kms:GenerateDataKey', KEY)).toBe(true);
  });

  test('functions may describe the TTL only if entries expire by TTL', () => {
    const may = (expire: string): string[] =>
      [...deployedFunctions(template.expand({ parameters: { Expire: expire } })).values()]
        .filter(({ statements }) => statements.some(({ actions }) => actions.includes('dynamodb:DescribeTimeToLive')))
        .map(({ id }) => id);
    expect(may('ttl')).toEqual(['SnapshotFunction', 'MaintainFunction', 'SweepFunction']);
    expect(may('delete')).toEqual([]);
  });

  test('the test matches resources as IAM does, with `*` for any text', () => {
    expect(matches('arn:aws:s3:::b/logs/*', 'arn:aws:s3:::b/logs/x/y')).toBe(true);
    expect(matches('arn:aws:s3:::b/logs/*', 'arn:aws:s3:::bb/logs/x')).toBe(false);
    expect(matches('arn:aws:s3:::b.c', 'arn:aws:s3:::bxc')).toBe(false);
    expect(matches('*', 'anything')).toBe(true);
  });
});

describe('alarms and the dashboard', () => {
  const emitted = (): Set<string> => {
    const source = readFileSync(join(ROOT, 'src/functions/metrics.ts'), 'utf8');
    return new Set([...source.matchAll(/(?:count|seconds|bytes)\('(\w+)'/g)].flatMap(([, name]) => name ?? []));
  };
  const reportedSchema = z.object({
    widgets: z.array(z.object({ properties: z.object({ metrics: z.array(z.array(z.string())).default([]) }) })),
  });
  /** The metrics on the dashboard. `.` and `...` repeat values of the previous metric. */
  const metricsShown = (of = watched): { namespace: string; name: string; value: string }[] => {
    const body: unknown = JSON.parse(String(resourceOf(of, 'Dashboard').properties.DashboardBody));
    return reportedSchema.parse(body).widgets.flatMap(({ properties }) => {
      let before: string[] = [];
      return properties.metrics.map((metric) => {
        const [first, ...rest] = metric;
        const written = first === '...' ? [...before.slice(0, before.length - rest.length), ...rest] : metric;
        before = written.map((part, i) => (part === '.' ? (before[i] ?? '') : part));
        expect(before).toHaveLength(4);
        const [namespace = '', name = '', , value = ''] = before;
        return { namespace, name, value };
      });
    });
  };
  const servicesOf = (stack: Stack): string[] =>
    [...deployedFunctions(stack).values()].map((each) => each.environment.POWERTOOLS_SERVICE_NAME ?? '');

  test('the dashboard shows exactly the metrics that the functions report', () => {
    const shown = metricsShown().filter(({ namespace }) => namespace === 'logfold');
    for (const { value } of shown) expect(servicesOf(complete)).toContain(value);
    expect([...new Set(shown.map(({ name }) => name))].sort()).toEqual([...emitted()].sort());
  });

  test('each alarm is on the dashboard, has a description and notifies the topic if one is given', () => {
    const told = template.expand({ parameters: { ...COMPLETE, AlarmTopicArn: TOPIC } }).nested('MonitoringStack');
    const dashboard = String(resourceOf(watched, 'Dashboard').properties.DashboardBody);
    const alarms = watched.ofType('AWS::CloudWatch::Alarm');
    expect(alarms.length).toBeGreaterThan(10);
    for (const { id, properties } of alarms) {
      expect(dashboard).toContain(watched.attribute(id, 'Arn'));
      expect(String(properties.AlarmDescription).length, id).toBeGreaterThan(40);
      expect([properties.AlarmActions, properties.OKActions], id).toEqual([[], []]);
      expect(resourceOf(told, id).properties).toMatchObject({ AlarmActions: [TOPIC], OKActions: [TOPIC] });
    }
  });

  test('each alarm watches existing metrics of resources of this stack', () => {
    const metricsOf = ({ properties }: Resource): [string, string, string][] =>
      [
        ...JSON.stringify(properties).matchAll(
          /"Namespace":"([^"]+)","MetricName":"(\w+)","Dimensions":\[\{"Name":"\w+","Value":"([^"]+)"/g,
        ),
      ].map(([, namespace = '', name = '', value = '']) => [namespace, name, value]);
    const names = [...complete.resources.values()].flatMap(({ id, type }) =>
      type === 'AWS::SQS::Queue'
        ? [complete.attribute(id, 'QueueName')]
        : type === 'AWS::Serverless::Function' || type === 'AWS::Lambda::EventSourceMapping'
          ? [complete.ref(id)]
          : [],
    );
    for (const alarm of watched.ofType('AWS::CloudWatch::Alarm')) {
      const metrics = metricsOf(alarm);
      expect(metrics.length, alarm.id).toBeGreaterThan(0);
      for (const [namespace, name, value] of metrics) {
        const known = namespace === 'logfold' ? servicesOf(complete) : names;
        expect(known, alarm.id).toContain(value);
        if (namespace === 'logfold') expect([...emitted()], alarm.id).toContain(name);
      }
    }
  });

  test('each parameter of the nested stack gets the name of the resource with the same id', () => {
    const {
      Stack: stack,
      AlarmTopicArn: topic,
      StreamMapping: mapping,
      RevisionsMapping: changes,
      HasDivision: division,
      HasFeed: feed,
      ...others
    } = watched.parameters;
    expect([stack, topic, mapping]).toEqual([complete.ref('AWS::StackName'), '', complete.ref('StreamFunctionStream')]);
    expect([changes, division, feed]).toEqual([complete.ref('RevisionsFunctionStream'), 'true', 'true']);
    for (const [id, name] of Object.entries(others)) {
      const { type } = resourceOf(complete, id);
      expect(name, id).toBe(type === 'AWS::SQS::Queue' ? complete.attribute(id, 'QueueName') : complete.ref(id));
    }
    expect(monitoring.parameters).toMatchObject({
      HasDivision: 'false',
      RevisionsFunction: 'none',
      RevisionsMapping: 'none',
    });
  });

  test('the expression of an alarm uses each of its metrics', () => {
    const metricQueries = z.array(z.object({ Id: z.string(), Expression: z.string().optional() }));
    const alarms = monitoring
      .ofType('AWS::CloudWatch::Alarm')
      .filter(({ properties }) => properties.Metrics !== undefined);
    expect(alarms.length).toBeGreaterThan(3);
    for (const { id, properties } of alarms) {
      const [sum, ...metrics] = metricQueries.parse(properties.Metrics);
      for (const metric of metrics) expect(sum?.Expression, id).toMatch(new RegExp(`\\b${metric.Id}\\b`));
    }
  });

  test('one alarm for each queue watches the age of its jobs', () => {
    const watched = monitoring.ofType('AWS::CloudWatch::Alarm').map(({ properties }) => JSON.stringify(properties));
    for (const { queues } of deployedFunctions(own).values()) {
      for (const { queueArn } of queues) {
        const dimensions = JSON.stringify([{ Name: 'QueueName', Value: queueArn.split(':').at(-1) }]);
        const metric = `"MetricName":"ApproximateAgeOfOldestMessage","Dimensions":${dimensions}`;
        expect(watched.filter((alarm) => alarm.includes(metric))).toHaveLength(1);
      }
    }
  });

  test('FailingJobs detects a worker function that fails before it runs a job', () => {
    const watched = JSON.stringify(resourceOf(monitoring, 'FailingJobsAlarm').properties);
    const workers = [...deployedFunctions(own).values()].filter(({ queues }) => queues.length > 0);
    expect(workers).toHaveLength(2);
    for (const { id } of workers) {
      const metric = { Name: 'FunctionName', Value: own.ref(id) };
      expect(watched).toContain(`"MetricName":"Errors","Dimensions":[${JSON.stringify(metric)}]`);
    }
  });

  test('StreamErrors detects failed invocations and returned records of the stream function', () => {
    const watched = JSON.stringify(resourceOf(monitoring, 'StreamErrorsAlarm').properties);
    const { id, environment: variables } = functionOf(own, 'StreamFunction');
    const ofFunction = { Name: 'FunctionName', Value: own.ref(id) };
    const ofService = { Name: 'service', Value: variables.POWERTOOLS_SERVICE_NAME };
    expect(watched).toContain(`"MetricName":"Errors","Dimensions":[${JSON.stringify(ofFunction)}]`);
    expect(watched).toContain(`"MetricName":"RecordsFailed","Dimensions":[${JSON.stringify(ofService)}]`);
  });

  test('docs/operations.md has one row with advice for each alarm', () => {
    const document = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
    const section = document.split(/^## /m).find((text) => text.startsWith('Alarms\n')) ?? '';
    const rows = [...section.matchAll(/^\| `(\w+)` +\| (.*?) +\| (.*?) +\|$/gm)];
    const alarms = watched.ofType('AWS::CloudWatch::Alarm').map(({ id }) => id);
    expect(rows.map(([, name]) => `${name}Alarm`).sort()).toEqual(alarms.sort());
    for (const [, name, meaning, advice] of rows) {
      expect(meaning?.length, name).toBeGreaterThan(30);
      expect(advice?.length, name).toBeGreaterThan(10);
    }
    const named = [...section.matchAll(/\bsee "([^"]+)"/g)].map(([, title]) => title);
    expect(named.length).toBeGreaterThan(3);
    for (const title of named) expect(document, title).toContain(`\n## ${title}\n`);
  });

  test('docs/operations.md explains each metric of sweeps and names its field of the log line', () => {
    const document = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
    const section = document.split(/^## /m).find((text) => text.startsWith('Sweeps\n')) ?? '';
    const rows = [...section.matchAll(/^\| `([A-Z]\w+)` +\| `(\w+)` +\|/gm)].map(([, metric, field]) => [
      metric,
      field,
    ]);
    const reported = metricsShown(monitoring).filter(({ value }) => value === 'logfold-sweep');
    expect(rows.map(([metric]) => metric).sort()).toEqual([...new Set(reported.map(({ name }) => name))].sort());
    const sweep = {
      logs: 1,
      jobs: 2,
      waiting: 3,
      failed: 4,
      stopped: 5,
      missed: 6,
      oldest: 0,
      oldestDue: 0,
      longestTail: 10,
      undivided: 11,
      rest: undefined,
    };
    const ages = { unsnapshottedSeconds: 7, dueSeconds: 8 };
    const event = { kind: 'swept', run: 'request', result: sweep, ms: 9, ages, unusableStreams: 12 } as const;
    const { fields } = logLine(event);
    for (const { name, value } of metricsOf(event)) {
      const field = rows.find(([metric]) => metric === name)?.[1] ?? '';
      expect(fields[field], name).toBe(value);
    }
  });

  test('docs/operations.md states the numbers and costs of alarms, metrics and idle requests', () => {
    const document = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
    const metricsIn = ({ properties }: Resource): number =>
      [...JSON.stringify(properties).matchAll(/"MetricName"/g)].length;
    const alarms = monitoring.ofType('AWS::CloudWatch::Alarm');
    const watched = alarms.reduce((sum, alarm) => sum + metricsIn(alarm), 0);
    const shown = metricsShown(monitoring).filter(({ namespace }) => namespace === 'logfold');
    const reported = new Set(shown.map(({ name, value }) => `${name} ${value}`));
    const queues = [...deployedFunctions(own).values()].flatMap((each) => each.queues).length;
    const polls = queues * 5 * ((30 * 24 * 3600) / 20);
    const row = (name: string): string[] => {
      const found = document.split('\n').find((line) => line.startsWith(`| ${name}`)) ?? '';
      return found.split('|').map((cell) => cell.trim());
    };
    const dollars = (count: number, price: number): string => (count * price).toFixed(2);
    expect(row(`metrics that the ${alarms.length} alarms watch`)).toMatchObject({
      2: `${watched}`,
      4: dollars(watched, 0.1),
    });
    expect(row('metrics of the functions')).toMatchObject({ 2: `${reported.size}`, 4: dollars(reported.size, 0.3) });
    expect(row('requests to two empty queues')).toMatchObject({
      2: polls.toLocaleString('en-US'),
      4: dollars(polls / 1e6, PRICES.sqs.perMillion.requests),
    });
  });

  test('docs/operations.md states the costs of a stream whose insertions all start the function', () => {
    const section = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
      .split(/^## /m)
      .find((text) => text.startsWith('Deploying beside a table of your own\n'))
      ?.replaceAll(/\s+/g, ' ');
    const mapped = template.expand({ parameters: MAPPED });
    const { streams, memoryMb } = functionOf(mapped, 'StreamFunction');
    const [source] = streams;
    const window = source?.batchingWindowSeconds ?? 0;
    const invocations = (30 * 24 * 3600) / window;
    const { perMillion } = PRICES.lambda;
    const cents = (invocations / 1e6) * perMillion.invocations * 100;
    const timeCents = (invocations / 1e6) * 0.02 * (memoryMb / 1024) * perMillion.gigabyteSeconds * 100;
    expect(section).toContain(
      `for \`BatchingWindow\` seconds (${window}), or until they are ${source?.batchSize.toLocaleString('en-US')}. ` +
        'So each shard of a stream that is never at rest starts it ' +
        `${invocations.toLocaleString('en-US')} times a month, for ${Math.round(cents)} cents. ` +
        `Its time at ${memoryMb} MB, 20 ms each, costs ${Math.round(timeCents)} cents more.`,
    );
  });

  test('BucketName lists everything that logfold keeps in a bucket', () => {
    const kept = [LOGS_PREFIX, CONDEMNED_PREFIX, POLICIES_KEY, SWEEP_KEY, ADOPT_KEY, COMPARE_KEY];
    const names = kept.join(', ').replace(/, ([^,]+)$/, ' and $1');
    expect(readFileSync(join(ROOT, 'template.yaml'), 'utf8').replaceAll(/\s+/g, ' ')).toContain(
      `logfold uses ${names} in it`,
    );
    // Every key at the top of the bucket is one of these constants.
    const stated = readFileSync(join(ROOT, 'src/store/keys.ts'), 'utf8').matchAll(/^export const \w+ = '([^']+)';$/gm);
    expect(Array.from(stated, ([, key]) => key).sort()).toEqual(kept.toSorted());
  });

  test.each([
    ['aws', 'us-east-1', 'console.aws.amazon.com'],
    ['aws-cn', 'cn-north-1', 'console.amazonaws.cn'],
    ['aws-us-gov', 'us-gov-west-1', 'console.amazonaws-us-gov.com'],
    ['aws-eusc', 'eusc-de-east-1', 'console.amazonaws-eusc.eu'],
  ])('DashboardUrl leads to the console of the partition %s', (partition, region, console) => {
    const refs = { 'AWS::Partition': partition, 'AWS::Region': region };
    const url = String(template.expand({ refs }).outputs.DashboardUrl);
    expect(url).toMatch(`https://${region}.${console}/cloudwatch/home?region=${region}#dashboards/dashboard/`);
  });

  test('a stack without monitoring has no alarms and no dashboard', () => {
    const without = template.expand({ parameters: { Monitoring: 'false' } });
    const difference = [...own.resources.keys()].filter((id) => !without.resources.has(id));
    expect(difference).toEqual(['MonitoringStack']);
    expect(own.outputs).toHaveProperty('DashboardUrl');
    expect(without.outputs).not.toHaveProperty('DashboardUrl');
    const types = new Set([...monitoring.resources.values()].map(({ type }) => type));
    expect([...types].sort()).toEqual(['AWS::CloudWatch::Alarm', 'AWS::CloudWatch::Dashboard']);
    for (const type of types) expect(own.ofType(type)).toEqual([]);
  });

  test('metrics of two stacks in one account and region differ', () => {
    const other = template.expand({ refs: { 'AWS::StackName': 'other' } });
    expect(servicesOf(other).filter((name) => servicesOf(own).includes(name))).toEqual([]);
  });
});

test('an unknown attribute or resource is an error, not a wrong value', () => {
  expect(() => own.attribute('EntryTable', 'Colour')).toThrow('EntryTable.Colour');
  expect(() => existing.ref('EntryTable')).toThrow('the stack has no resource EntryTable');
});
