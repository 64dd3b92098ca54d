import { type CollectionTag, parse, type ScalarTag, YAMLMap } from 'yaml';

/** A parsed template. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Names that the functions of a template refer to. */
export interface Scope {
  /**
   * The value of a parameter, a pseudo parameter or a resource.
   * @throws Error if there is none of that name
   */
  readonly ref: (name: string) => Json | undefined;
  /**
   * An attribute of a resource.
   * @throws Error if the attribute is unknown
   */
  readonly attribute: (resource: string, attribute: string) => Json;
  /** @throws Error if there is no condition of that name */
  readonly condition: (name: string) => boolean;
}

const TAGS = ['Ref', 'Sub', 'GetAtt', 'If', 'Equals', 'Not', 'And', 'Or', 'Condition', 'Join', 'Select', 'Split'];

/**
 * Parses a template's YAML. Short forms of functions (`!Ref x`) become long ones (`{ Ref: x }`).
 * Aliases and merge keys are replaced, as by SAM.
 */
export function parseTemplate(text: string): JsonObject {
  const options = { customTags: TAGS.flatMap(tagsOf), merge: true, maxAliasCount: -1 };
  return asObject(parse(text, options), 'the template');
}

/**
 * Resolves all functions in a value like CloudFormation. Values that resolve to `AWS::NoValue` are
 * left out.
 * @returns undefined if the whole value is left out
 * @throws Error if a function is unknown here
 */
export function resolve(value: Json, scope: Scope): Json | undefined {
  if (isList(value)) return value.flatMap((item) => defined(resolve(item, scope)));
  if (typeof value !== 'object' || value === null) return value;
  const [[name, argument] = [], ...others] = Object.entries(value);
  if (name !== undefined && argument !== undefined && others.length === 0) {
    if (name === 'Ref') return scope.ref(asText(argument));
    if (name === 'Condition') return scope.condition(asText(argument));
    if (name.startsWith('Fn::')) return call(name, argument, scope);
  }
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => defined(resolve(item, scope)).map((resolved) => [key, resolved])),
  );
}

/** Like {@link resolve}, for a condition or an assertion. */
export function resolveBoolean(value: Json, scope: Scope): boolean {
  const resolved = resolve(value, scope);
  if (typeof resolved !== 'boolean') throw new Error(`${JSON.stringify(value)} is not a condition`);
  return resolved;
}

/** @throws Error if the value is not a map */
export function asObject(value: unknown, subject: string): JsonObject {
  if (isJson(value) && typeof value === 'object' && value !== null && !isList(value)) return value;
  throw new Error(`${subject} is not a map`);
}

function call(name: string, argument: Json, scope: Scope): Json | undefined {
  const list = isList(argument) ? argument : [];
  const [first, second, third] = list;
  switch (name) {
    case 'Fn::Sub':
      return first === undefined
        ? substitute(asText(argument), {}, scope)
        : substitute(asText(first), asObject(second, 'the argument of Fn::Sub'), scope);
    case 'Fn::GetAtt': {
      const [resource, ...attribute] = isList(argument) ? argument.map(asText) : asText(argument).split('.');
      return scope.attribute(resource ?? '', attribute.join('.'));
    }
    case 'Fn::If': {
      if (first === undefined || second === undefined || third === undefined)
        throw new Error('Fn::If needs three arguments');
      // Resolve only the chosen branch: the other one may be invalid, such as the ARN of a missing
      // table.
      return resolve(scope.condition(asText(first)) ? second : third, scope);
    }
    case 'Fn::Equals': {
      if (first === undefined || second === undefined) throw new Error('Fn::Equals needs two arguments');
      return String(resolve(first, scope)) === String(resolve(second, scope));
    }
    case 'Fn::Not':
      if (first === undefined) throw new Error('Fn::Not needs one argument');
      return !resolveBoolean(first, scope);
    case 'Fn::And':
      return list.every((item) => resolveBoolean(item, scope));
    case 'Fn::Or':
      return list.some((item) => resolveBoolean(item, scope));
    case 'Fn::Join': {
      const parts = second === undefined ? undefined : resolve(second, scope);
      if (first === undefined || parts === undefined || !isList(parts)) throw new Error('Fn::Join needs two arguments');
      return parts.map(asText).join(asText(first));
    }
    case 'Fn::Split': {
      if (first === undefined || second === undefined) throw new Error('Fn::Split needs two arguments');
      return asText(resolve(second, scope)).split(asText(first));
    }
    case 'Fn::Select': {
      const parts = second === undefined ? undefined : resolve(second, scope);
      const part = parts !== undefined && isList(parts) ? parts[Number(first)] : undefined;
      if (part === undefined) throw new Error('Fn::Select finds no such part');
      return part;
    }
    default:
      throw new Error(`unknown function ${name}. Add it to cloudformation.ts.`);
  }
}

function substitute(text: string, own: JsonObject, scope: Scope): string {
  return text.replaceAll(/\$\{([^!}]+)\}/g, (_, name: string) => {
    const value = own[name];
    if (value !== undefined) return asText(resolve(value, scope));
    const dot = name.indexOf('.');
    return asText(dot < 0 ? scope.ref(name) : scope.attribute(name.slice(0, dot), name.slice(dot + 1)));
  });
}

/** `!Name` before a scalar, a list and a map. */
function tagsOf(name: string) {
  const long = name === 'Ref' || name === 'Condition' ? name : `Fn::${name}`;
  const tag = `!${name}`;
  const onScalar: ScalarTag = { tag, resolve: (text) => ({ [long]: text }) };
  const onCollection = (collection: 'seq' | 'map'): CollectionTag => ({
    tag,
    collection,
    resolve: (node) => {
      const call = new YAMLMap();
      call.set(long, node);
      return call;
    },
  });
  return [onScalar, onCollection('seq'), onCollection('map')];
}

function asText(value: Json | undefined): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  throw new Error(`${JSON.stringify(value)} is not a string`);
}

function defined<T>(value: T | undefined): T[] {
  return value === undefined ? [] : [value];
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function isJson(value: unknown): value is Json {
  if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return true;
  return typeof value === 'object' && Object.values(value).every(isJson);
}
