import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import {
  asObject,
  type Json,
  type JsonObject,
  parseTemplate,
  resolve,
  resolveBoolean,
  type Scope,
} from './cloudformation.ts';
import { attributeOf, idOf, type Place } from './cloudformation-ids.ts';
import { checkParameter, type Parameter, parameterSchema } from './template-parameter.ts';

/** The name property of each resource type. */
const NAME_PROPERTIES = new Map([
  ['AWS::Logs::LogGroup', 'LogGroupName'],
  ['AWS::CloudWatch::Dashboard', 'DashboardName'],
]);
const FILE = join(import.meta.dirname, '../../../template.yaml');
const nestedSchema = z.object({ TemplateURL: z.string(), Parameters: z.record(z.string(), z.string()) });

export interface ExpandOptions {
  /** Values of parameters. Missing ones have their defaults. */
  readonly parameters?: Readonly<Record<string, string>>;
  /**
   * Values of `Ref` for resources or pseudo parameters that differ from AWS's, such as a local
   * queue's URL.
   */
  readonly refs?: Readonly<Record<string, string>>;
  /**
   * Values of `GetAtt`, by `<resource>.<attribute>`, that differ from AWS's, such as the stream of
   * a local table.
   */
  readonly attributes?: Readonly<Record<string, string>>;
}

/**
 * A resource of a stack. Its functions are resolved, and values that its conditions exclude are
 * left out.
 */
export interface Resource {
  readonly id: string;
  readonly type: string;
  readonly properties: JsonObject;
  readonly deletionPolicy: string | undefined;
  readonly updateReplacePolicy: string | undefined;
}

/** The template as deployed with certain values of its parameters. */
export interface Stack {
  /** The value of every parameter. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly conditions: Readonly<Record<string, boolean>>;
  readonly resources: ReadonlyMap<string, Resource>;
  readonly outputs: Readonly<Record<string, Json>>;
  /** The resources of one type, such as `AWS::SQS::Queue`. */
  readonly ofType: (type: string) => Resource[];
  /**
   * The value of `Ref` for a resource: a queue's URL, or the name of a table, bucket or function.
   */
  readonly ref: (resource: string) => string;
  /** The value of `GetAtt` for a resource. */
  readonly attribute: (resource: string, attribute: string) => string;
  /**
   * A nested stack, with the parameters that this stack passes.
   * @throws Error if its template lacks a passed parameter, or if a parameter has no value
   */
  readonly nested: (resource: string) => Stack;
}

/** template.yaml as written. */
export interface Template {
  readonly document: JsonObject;
  readonly parameters: ReadonlyMap<string, Parameter>;
  /**
   * Does the work of CloudFormation and SAM before they create resources.
   * @throws Error naming the parameter that is out of range or the broken rule; then nothing is
   * deployed
   */
  readonly expand: (options?: ExpandOptions) => Stack;
}

/** Templates by their files. */
const templates = new Map<string, Template>();

/** Reads the project's template. */
export function readTemplate(file = FILE): Template {
  const known = templates.get(file);
  if (known !== undefined) return known;
  const document = parseTemplate(readFileSync(file, 'utf8'));
  const parameters = new Map(
    section(document, 'Parameters').map(([name, each]) => [name, parameterSchema.parse(each)]),
  );
  const template = {
    document,
    parameters,
    expand: (options: ExpandOptions = {}) => expand({ file, document, parameters }, options),
  };
  templates.set(file, template);
  return template;
}

interface TemplateFile extends Pick<Template, 'document' | 'parameters'> {
  readonly file: string;
}

function expand({ file, document, parameters }: TemplateFile, options: ExpandOptions): Stack {
  const given = options.parameters ?? {};
  const unknown = Object.keys(given).find((name) => !parameters.has(name));
  if (unknown !== undefined) throw new Error(`the template has no parameter ${unknown}`);
  const values = Object.fromEntries(
    [...parameters].map(([name, parameter]) => [name, checkParameter(name, parameter, given[name])]),
  );
  const place: Place = {
    stack: options.refs?.['AWS::StackName'] ?? 'logfold',
    region: 'us-east-1',
    account: '123456789012',
  };
  const pseudo: Readonly<Record<string, string>> = {
    'AWS::StackName': place.stack,
    'AWS::Region': place.region,
    'AWS::AccountId': place.account,
    'AWS::Partition': 'aws',
    'AWS::URLSuffix': 'amazonaws.com',
    ...options.refs,
  };
  const raw = new Map(section(document, 'Resources').map(([id, each]) => [id, asObject(each, id)]));
  const exists = (resource: JsonObject): boolean =>
    typeof resource.Condition !== 'string' || condition(resource.Condition);
  const typeOf = (id: string): string => {
    const resource = raw.get(id);
    if (resource !== undefined && exists(resource)) return String(resource.Type);
    // SAM creates a mapping of an event source, or a schedule and its role, for every event.
    const events = [...raw].flatMap(([owner, each]) =>
      each.Type === 'AWS::Serverless::Function'
        ? section(asObject(each.Properties, owner), 'Events').flatMap(([name]) => [owner + name, `${owner}${name}Role`])
        : [],
    );
    if (events.includes(id)) return 'event';
    throw new Error(`the stack has no resource ${id}`);
  };
  const condition = (name: string): boolean => {
    const found = section(document, 'Conditions').find(([each]) => each === name);
    if (found === undefined) throw new Error(`the template has no condition ${name}`);
    return resolveBoolean(found[1], scope);
  };
  const named = (id: string): string | undefined => {
    const property = NAME_PROPERTIES.get(typeOf(id));
    const name = property === undefined ? undefined : asObject(raw.get(id)?.Properties ?? {}, id)[property];
    const resolved = name === undefined ? undefined : resolve(name, scope);
    return typeof resolved === 'string' ? resolved : undefined;
  };
  const ref = (name: string): string => pseudo[name] ?? values[name] ?? named(name) ?? idOf(name, typeOf(name), place);
  const attribute = (id: string, name: string): string => {
    const output = /^Outputs\.(.*)/.exec(name)?.[1];
    if (output !== undefined) return outputOf(nested(id), output);
    return options.attributes?.[`${id}.${name}`] ?? attributeOf({ id, ref: ref(id), name }, typeOf(id), place);
  };
  const nestedStacks = new Map<string, Stack>();
  const nested = (id: string): Stack => {
    const known = nestedStacks.get(id);
    if (known !== undefined) return known;
    const resource = exists(raw.get(id) ?? {}) ? raw.get(id)?.Properties : undefined;
    const { TemplateURL: url, Parameters: passed } = nestedSchema.parse(resolve(resource ?? null, scope));
    const pseudoParameters = Object.entries(options.refs ?? {}).filter(([name]) => name.startsWith('AWS::'));
    const refs = { ...Object.fromEntries(pseudoParameters), 'AWS::StackName': ref(id) };
    const stack = readTemplate(join(dirname(file), url)).expand({ parameters: passed, refs });
    nestedStacks.set(id, stack);
    return stack;
  };
  const refOrList = (name: string): Json | undefined => {
    if (name === 'AWS::NoValue') return undefined;
    return parameters.get(name)?.Type === 'CommaDelimitedList' ? ref(name).split(',') : ref(name);
  };
  const scope: Scope = { ref: refOrList, attribute, condition };
  checkRules(document, scope);

  const resources = new Map(
    [...raw]
      .filter(([, each]) => exists(each))
      .map(([id, each]) => [id, toResource(id, withGlobals(document, each), scope)]),
  );
  return {
    parameters: values,
    conditions: Object.fromEntries(section(document, 'Conditions').map(([name]) => [name, condition(name)])),
    resources,
    outputs: Object.fromEntries(
      section(document, 'Outputs')
        .map(([name, each]) => [name, asObject(each, name)] as const)
        .filter(([, each]) => exists(each))
        .map(([name, each]) => [name, resolve(each.Value ?? null, scope) ?? null]),
    ),
    ofType: (type) => [...resources.values()].filter((resource) => resource.type === type),
    ref,
    attribute,
    nested,
  };
}

/** A stack, and the stacks that are nested in it. */
export function allStacks(stack: Stack): Stack[] {
  return [stack, ...stack.ofType('AWS::CloudFormation::Stack').flatMap(({ id }) => allStacks(stack.nested(id)))];
}

/** The alarms of a stack and of its nested stacks, with their ARNs. */
export function alarmsOf(stack: Stack): (Resource & { readonly arn: string })[] {
  return allStacks(stack).flatMap((of) =>
    of.ofType('AWS::CloudWatch::Alarm').map((alarm) => ({ ...alarm, arn: of.attribute(alarm.id, 'Arn') })),
  );
}

function outputOf(stack: Stack, name: string): string {
  const output = stack.outputs[name];
  if (typeof output !== 'string') throw new Error(`the nested stack has no output ${name}`);
  return output;
}

function checkRules(document: JsonObject, scope: Scope): void {
  for (const [name, each] of section(document, 'Rules')) {
    const { RuleCondition, Assertions } = asObject(each, name);
    if (RuleCondition !== undefined && !resolveBoolean(RuleCondition, scope)) continue;
    for (const assertion of Array.isArray(Assertions) ? Assertions : []) {
      const { Assert = null, AssertDescription } = asObject(assertion, name);
      if (!resolveBoolean(Assert, scope)) throw new Error(`rule ${name} is broken: ${String(AssertDescription)}`);
    }
  }
}

/** Merges the defaults of `Globals` into a function. The function's own properties win. */
function withGlobals(document: JsonObject, resource: JsonObject): JsonObject {
  if (resource.Type !== 'AWS::Serverless::Function') return resource;
  const globals = Object.fromEntries(section(asObject(document.Globals, 'Globals'), 'Function'));
  return { ...resource, Properties: merge(globals, resource.Properties ?? {}) };
}

function merge(below: Json, above: Json): Json {
  if (!isMap(below) || !isMap(above)) return above;
  const keys = new Set([...Object.keys(below), ...Object.keys(above)]);
  return Object.fromEntries(
    [...keys].map((key) => {
      const [under, over] = [below[key], above[key]];
      return [key, under === undefined || over === undefined ? (over ?? under ?? null) : merge(under, over)];
    }),
  );
}

function toResource(id: string, resource: JsonObject, scope: Scope): Resource {
  const text = (value: Json | undefined): string | undefined => (typeof value === 'string' ? value : undefined);
  return {
    id,
    type: String(resource.Type),
    properties: asObject(resolve(resource.Properties ?? {}, scope), id),
    deletionPolicy: text(resource.DeletionPolicy),
    updateReplacePolicy: text(resource.UpdateReplacePolicy),
  };
}

function section(document: JsonObject, name: string): [string, Json][] {
  return Object.entries(asObject(document[name] ?? {}, name));
}

function isMap(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
