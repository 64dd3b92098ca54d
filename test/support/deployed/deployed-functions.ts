import { z } from 'zod';
import { allStacks, type Resource, type Stack } from './template.ts';

/** One `Allow` statement of a function's role. */
export interface Statement {
  readonly sid: string;
  readonly actions: readonly string[];
  /** ARNs; `*` matches any text. */
  readonly resources: readonly string[];
}

/** The event source mapping of a table's stream. */
export interface StreamSource {
  readonly id: string;
  readonly uuid: string;
  readonly streamArn: string;
  readonly startingPosition: string;
  readonly batchSize: number;
  /** Seconds for which Lambda collects a batch. */
  readonly batchingWindowSeconds: number;
  readonly bisects: boolean;
  readonly maximumRetryAttempts: number;
  readonly maximumRecordAgeSeconds: number;
  readonly responseTypes: readonly string[];
  /** ARN of the bucket for discarded batches. */
  readonly onFailure: string;
  /** Filter patterns for {@link passesFilter}; undefined if every record passes. */
  readonly filters: readonly unknown[] | undefined;
}

/** The event source mapping of a queue. */
export interface QueueSource {
  readonly id: string;
  readonly queueArn: string;
  readonly batchSize: number;
  readonly maximumConcurrency: number;
  readonly responseTypes: readonly string[];
}

/** A schedule that invokes a function. */
export interface Schedule {
  readonly id: string;
  readonly expression: string;
  /** Flexible time window, in minutes. */
  readonly windowMinutes: number;
  /** The event of each invocation. */
  readonly input: unknown;
}

/** The deployed configuration of a function. */
export interface DeployedFunction {
  /** Name in the template. */
  readonly id: string;
  /** Name in AWS. */
  readonly name: string;
  /** `<module>.<export>`: the bundle is `<module>.mjs`. */
  readonly handler: string;
  /** Folder of the code, relative to the repository. */
  readonly code: string;
  readonly runtime: string;
  readonly architectures: readonly string[];
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  readonly tracing: string;
  /** Lambda's reaction if the function seems to invoke itself in a loop. */
  readonly recursiveLoop: 'Allow' | 'Terminate';
  readonly environment: Readonly<Record<string, string>>;
  readonly layers: readonly string[];
  readonly logGroup: string;
  /** The statements of its role. */
  readonly statements: readonly Statement[];
  readonly streams: readonly StreamSource[];
  readonly queues: readonly QueueSource[];
  readonly schedules: readonly Schedule[];
}

/**
 * Actions that Lambda, KMS and CloudWatch need for a function. The function's code never calls
 * them.
 */
export const NOT_OF_CODE: ReadonlySet<string> = new Set([
  'WriteLogs',
  'Trace',
  'PollQueue',
  'ReadStream',
  'KeepLostRecords',
  'FindLostRecords',
  'UseKey',
  'UseTableKey',
]);

/** All functions of a stack and of its nested stacks, by their names in the templates. */
export function deployedFunctions(stack: Stack): ReadonlyMap<string, DeployedFunction> {
  const stacks = allStacks(stack);
  const policies = new Map(
    stacks.flatMap((of) =>
      of
        .ofType('AWS::IAM::ManagedPolicy')
        .map(({ id, properties }) => [of.ref(id), managedPolicySchema.parse(properties)] as const),
    ),
  );
  const functions = stacks.flatMap((of) =>
    ['AWS::Serverless::Function', 'AWS::Lambda::Function']
      .flatMap((type) => of.ofType(type))
      .map((each) => toFunction(each, of, policies)),
  );
  return new Map(functions.map((each) => [each.id, each]));
}

/** Whether a statement allows an action on a resource. Conditions count as met. */
export function allows(statements: readonly Statement[], action: string, resource: string): boolean {
  return statements.some(
    ({ actions, resources }) => actions.includes(action) && resources.some((pattern) => matches(pattern, resource)),
  );
}

/** Whether a text matches an ARN pattern with `*`. */
export function matches(pattern: string, text: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(text);
}

const oneOrMore = z.union([z.string().transform((each) => [each]), z.array(z.string())]);
const statementSchema = z.strictObject({
  Sid: z.string(),
  Effect: z.literal('Allow'),
  Action: oneOrMore,
  Resource: oneOrMore,
  Condition: z.unknown().optional(),
});
const documentSchema = z.strictObject({ Version: z.literal('2012-10-17'), Statement: z.array(statementSchema) });
const managedPolicySchema = z.strictObject({ PolicyDocument: documentSchema });
const roleSchema = z.strictObject({
  AssumeRolePolicyDocument: z.unknown(),
  ManagedPolicyArns: z.array(z.string()),
  Policies: z.array(z.strictObject({ PolicyName: z.string(), PolicyDocument: documentSchema })),
});
const number = z.union([z.number(), z.string()]).transform(Number).pipe(z.number());
const streamSchema = z.strictObject({
  FunctionName: z.string(),
  EventSourceArn: z.string(),
  StartingPosition: z.string(),
  BatchSize: number,
  MaximumBatchingWindowInSeconds: number,
  BisectBatchOnFunctionError: z.boolean(),
  MaximumRetryAttempts: number,
  MaximumRecordAgeInSeconds: number,
  FunctionResponseTypes: z.array(z.string()),
  MetricsConfig: z.strictObject({ Metrics: z.tuple([z.literal('EventCount')]) }),
  DestinationConfig: z.strictObject({
    OnFailure: z.strictObject({ Destination: z.string() }),
  }),
  FilterCriteria: z.strictObject({ Filters: z.array(z.strictObject({ Pattern: z.string() })) }).optional(),
});
const queueSchema = z.strictObject({
  Queue: z.string(),
  BatchSize: number,
  FunctionResponseTypes: z.array(z.string()),
  ScalingConfig: z.strictObject({ MaximumConcurrency: number }),
});
const timeSchema = z.object({
  ScheduleExpression: z.string(),
  FlexibleTimeWindow: z.strictObject({ Mode: z.literal('FLEXIBLE'), MaximumWindowInMinutes: number }),
});
const eventScheduleSchema = timeSchema.extend({ OmitName: z.literal(true), Input: z.string() });
/** A schedule outside a function's events: only these can have a condition. */
const scheduleSchema = timeSchema.extend({ Target: z.object({ Arn: z.string(), Input: z.string() }) });
/** Properties that a function without SAM names differently. */
const lambdaSchema = z.object({
  Code: z.string().optional(),
  TracingConfig: z.strictObject({ Mode: z.string() }).optional(),
});
const functionSchema = z.object({
  CodeUri: z.string(),
  Handler: z.string(),
  Runtime: z.string(),
  Architectures: z.array(z.string()),
  MemorySize: number,
  Timeout: number,
  Tracing: z.string(),
  RecursiveLoop: z.enum(['Allow', 'Terminate']).default('Terminate'),
  Role: z.string(),
  LoggingConfig: z.strictObject({ LogFormat: z.literal('JSON'), LogGroup: z.string() }),
  Layers: z.array(z.string()).default([]),
  Environment: z.strictObject({ Variables: z.record(z.string(), z.string()) }),
  Events: z
    .record(z.string(), z.strictObject({ Type: z.enum(['SQS', 'ScheduleV2']), Properties: z.unknown() }))
    .default({}),
});

type Policies = ReadonlyMap<string, z.output<typeof managedPolicySchema>>;

function toFunction({ id, type, properties }: Resource, stack: Stack, policies: Policies): DeployedFunction {
  const { Code, TracingConfig } = lambdaSchema.parse(properties);
  const asInSam = type === 'AWS::Lambda::Function' ? { CodeUri: Code, Tracing: TracingConfig?.Mode } : {};
  const of = functionSchema.parse({ ...properties, ...asInSam });
  const events = (type: string): [string, unknown][] =>
    Object.entries(of.Events)
      .filter(([, event]) => event.Type === type)
      .map(([name, event]) => [id + name, event.Properties]);
  return {
    id,
    name: stack.ref(id),
    handler: of.Handler,
    code: of.CodeUri,
    runtime: of.Runtime,
    architectures: of.Architectures,
    memoryMb: of.MemorySize,
    timeoutSeconds: of.Timeout,
    tracing: of.Tracing,
    recursiveLoop: of.RecursiveLoop,
    environment: of.Environment.Variables,
    layers: of.Layers,
    logGroup: of.LoggingConfig.LogGroup,
    statements: statementsOf(of.Role, stack, policies),
    streams: stack
      .ofType('AWS::Lambda::EventSourceMapping')
      .map((mapping) => ({ id: mapping.id, source: streamSchema.parse(mapping.properties) }))
      .filter(({ source }) => source.FunctionName === stack.ref(id))
      .map((mapping) => ({ uuid: stack.ref(mapping.id), ...toStream(mapping.id, mapping.source) })),
    queues: events('SQS').map(([name, event]) => toQueue(name, queueSchema.parse(event))),
    schedules: [
      ...events('ScheduleV2').map(([name, event]) => {
        const { Input, ...time } = eventScheduleSchema.parse(event);
        return toSchedule(name, time, Input);
      }),
      ...stack
        .ofType('AWS::Scheduler::Schedule')
        .map((schedule) => ({ name: schedule.id, ...scheduleSchema.parse(schedule.properties) }))
        .filter(({ Target }) => Target.Arn === stack.attribute(id, 'Arn'))
        .map(({ name, Target, ...time }) => toSchedule(name, time, Target.Input)),
    ],
  };
}

function statementsOf(roleArn: string, stack: Stack, policies: Policies): Statement[] {
  const role = stack.ofType('AWS::IAM::Role').find(({ id }) => stack.attribute(id, 'Arn') === roleArn);
  if (role === undefined) throw new Error(`the stack has no role ${roleArn}`);
  const { ManagedPolicyArns: arns, Policies } = roleSchema.parse(role.properties);
  const managed = arns.map((arn) => {
    const policy = policies.get(arn);
    if (policy === undefined) throw new Error(`the stack has no policy ${arn}`);
    return policy;
  });
  return [...managed, ...Policies].flatMap(({ PolicyDocument }) =>
    PolicyDocument.Statement.map(({ Sid, Action, Resource }) => ({ sid: Sid, actions: Action, resources: Resource })),
  );
}

function toStream(id: string, event: z.output<typeof streamSchema>): Omit<StreamSource, 'uuid'> {
  return {
    id,
    streamArn: event.EventSourceArn,
    startingPosition: event.StartingPosition,
    batchSize: event.BatchSize,
    batchingWindowSeconds: event.MaximumBatchingWindowInSeconds,
    bisects: event.BisectBatchOnFunctionError,
    maximumRetryAttempts: event.MaximumRetryAttempts,
    maximumRecordAgeSeconds: event.MaximumRecordAgeInSeconds,
    responseTypes: event.FunctionResponseTypes,
    onFailure: event.DestinationConfig.OnFailure.Destination,
    filters: event.FilterCriteria?.Filters.map(({ Pattern }): unknown => JSON.parse(Pattern)),
  };
}

function toQueue(id: string, event: z.output<typeof queueSchema>): QueueSource {
  return {
    id,
    queueArn: event.Queue,
    batchSize: event.BatchSize,
    maximumConcurrency: event.ScalingConfig.MaximumConcurrency,
    responseTypes: event.FunctionResponseTypes,
  };
}

function toSchedule(id: string, time: z.output<typeof timeSchema>, input: string): Schedule {
  return {
    id,
    expression: time.ScheduleExpression,
    windowMinutes: time.FlexibleTimeWindow.MaximumWindowInMinutes,
    input: JSON.parse(input),
  };
}
