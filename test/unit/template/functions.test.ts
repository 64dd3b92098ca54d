import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { FUNCTIONS } from '../../../handlers/bundle.ts';
import * as environment from '../../../handlers/environment.ts';
import { BUILT_IN_REDUCERS } from '../../../src/adapters/platform/reducer-module.ts';
import { DIVISION, divides } from '../../../src/log/division-policy.ts';
import { choicesIn, numberIn } from '../../../src/log/settings.ts';
import { MAPPED_DIVISION } from '../../../src/mapping/item-division.ts';
import { RETENTION } from '../../../src/retention/retention-policy.ts';
import { allows, type DeployedFunction, deployedFunctions } from '../../support/deployed/deployed-functions.ts';
import {
  COMPLETE,
  EVERYTHING,
  EXISTING,
  functionOf,
  LAYER,
  MAPPED,
  MAPPING,
  own,
  REVISED,
  ROOT,
  stackOf,
  template,
} from '../../support/deployed/stacks.ts';
import type { Stack } from '../../support/deployed/template.ts';

const existing = stackOf(EXISTING);
/** A stack with every optional feature. */
const complete = stackOf(COMPLETE);

/** Variables that the runtime and the Powertools libraries read from the process. */
const RUNTIME_VARIABLES = ['NODE_OPTIONS', 'POWERTOOLS_METRICS_NAMESPACE', 'POWERTOOLS_SERVICE_NAME'];

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

describe('environment variables', () => {
  test('every function has the variables that its handler reads', () => {
    for (const each of [own, complete].flatMap((stack) => [...deployedFunctions(stack).values()])) {
      const read = Object.keys(schemaOf(each).shape).map(environment.variableOf);
      expect(Object.keys(each.environment), each.id).toEqual(expect.arrayContaining([...read, ...RUNTIME_VARIABLES]));
    }
  });

  test('at least one handler reads each variable', () => {
    const functions = [...deployedFunctions(complete).values()];
    const set = new Set(functions.flatMap((each) => Object.keys(each.environment)));
    const read = new Set(functions.flatMap((each) => Object.keys(schemaOf(each).shape).map(environment.variableOf)));
    expect([...set].sort()).toEqual([...read, ...RUNTIME_VARIABLES].sort());
  });

  test('the template has a parameter for each setting of a policy, with no value that it refuses', () => {
    for (const [name, field] of Object.entries({ ...RETENTION.shape, ...DIVISION.shape })) {
      const parameter = template.parameters.get(environment.parameterOf(name));
      const limits = numberIn(field);
      if (limits === undefined) expect(parameter?.AllowedValues, name).toEqual(choicesIn(field));
      else expect(parameter?.MaxValue, name).toBeLessThanOrEqual(limits.maxValue ?? 0);
    }
  });

  test('handlers accept every limit and every choice that the template allows', () => {
    for (const [name, { MinValue, MaxValue, AllowedValues = [], Default = '' }] of template.parameters) {
      for (const value of [Default, ...AllowedValues, MinValue, MaxValue].filter((each) => each !== undefined)) {
        const stack = template.expand({
          parameters: { ...(name.startsWith('Revisions') && REVISED), [name]: String(value) },
        });
        for (const each of deployedFunctions(stack).values()) {
          const settings = () => environment.readEnvironment(schemaOf(each), each.environment);
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
    [{ SnapshotEveryBytes: '999' }, "SnapshotEveryBytes is '999': not a whole number from 1000 to"],
  ])('an error names the parameter that the functions cannot use: %j', (parameters, reason) => {
    const stack = stackOf({ ...MAPPED, ...parameters });
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
        environment.readEnvironment(environment.streamEnvironment, functionOf(stack, 'StreamFunction').environment),
      );
    expect(divides(policyOf(own))).toBe(false);
    expect(policyOf(stackOf(MAPPED))).toEqual(MAPPED_DIVISION);
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
    const stack = stackOf({ ReducerLayerArn: LAYER });
    for (const each of deployedFunctions(stack).values()) {
      const folds = each.id !== 'StreamFunction';
      expect(each.layers, each.id).toEqual(folds ? [LAYER] : []);
      if (folds) expect(each.environment.REDUCER_MODULE, each.id).toBe('/opt/reducer.mjs');
    }
    for (const each of deployedFunctions(own).values()) expect(each.layers).toEqual([]);
  });

  test('without a layer, each function that folds gets the name of a built-in reducer', () => {
    for (const { name } of BUILT_IN_REDUCERS) {
      const stack = stackOf({ Reducer: name });
      expect(functionOf(stack, 'SnapshotFunction').environment.REDUCER_MODULE).toBe(name);
    }
    expect(() => stackOf({ Reducer: 'sheets' })).toThrow();
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
    const functions = [...deployedFunctions(stackOf(REVISED)).values()];
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
    const stack = stackOf({ SnapshotConcurrency: '7', MaintenanceConcurrency: '3' });
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
    const stack = stackOf({ SweepSchedule: 'rate(2 hours)' });
    expect(functionOf(stack, 'SweepFunction').schedules).toEqual([
      { id: 'SweepFunctionSchedule', expression: 'rate(2 hours)', windowMinutes: 15, input: {} },
    ]);
  });
});
