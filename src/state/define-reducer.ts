import { checkValue, type Value } from '../codec/value.ts';
import { ReducerInvalidError } from '../errors.ts';
import type { NewEntry } from '../log/new-entry.ts';
import { checkOptionNames } from '../log/option-names.ts';
import type { Key, KeyKind } from '../tree/key.ts';
import type { RangeRead } from '../tree/read.ts';
import type { DraftOptions } from './draft.ts';
import type { DraftMap, LateValue } from './draft-map.ts';
import {
  bodyInvalid,
  checkType,
  type FoldEntry,
  HISTORY_SUFFIX,
  isReducer,
  REDUCER_PARTS,
  type Rebased,
  type RebaseSide,
  type Reducer,
  type ReducerDraft,
  type UnplacedEntry,
} from './reducer.ts';

/** How a reducer uses a map, and the types of its keys and values. */
export interface MapType<K extends Key, V extends Value> {
  readonly kind: KeyKind;
  readonly options: DraftOptions;
  /** Only for the compiler: no object has it. */
  readonly types?: readonly [K, V];
}

/** A map with strings as keys. The compiler checks the values, and no code does. */
export function stringMap<V extends Value>(options: DraftOptions = {}): MapType<string, V> {
  return { kind: 'string', options };
}

/** A map with whole numbers as keys. The compiler checks the values, and no code does. */
export function numberMap<V extends Value>(options: DraftOptions = {}): MapType<number, V> {
  return { kind: 'number', options };
}

/** A {@link DraftMap} whose keys and values have types, for reading. */
export interface TypedMapReader<K extends Key, V extends Value> extends Pick<DraftMap, 'count' | 'weight'> {
  get(key: K): Promise<V | undefined>;
  items(range?: RangeRead): AsyncGenerator<{ readonly key: K; readonly value: V }>;
  firstKey(from: K): Promise<K | undefined>;
}

/** A {@link DraftMap} whose keys and values have types. */
export interface TypedMap<K extends Key, V extends Value>
  extends TypedMapReader<K, V>,
    Pick<DraftMap, 'deleteRange' | 'atOffset'> {
  put(key: K, value: V | LateValue<V>, weight?: number): void;
  delete(key: K): void;
}

type MapTypes = { readonly [name: string]: MapType<Key, Value> };
type TypedMaps<M extends MapTypes> = {
  readonly [N in keyof M]: M[N] extends MapType<infer K, infer V> ? TypedMap<K, V> : never;
};
type TypedMapReaders<M extends MapTypes> = {
  readonly [N in keyof M]: M[N] extends MapType<infer K, infer V> ? TypedMapReader<K, V> : never;
};

/** The schemas of an entry type's bodies by version, from 1 on without a gap. */
export type BodySchemas = { readonly [version: number]: StandardSchema };
type EntryTypes = { readonly [type: string]: BodySchemas };
type VersionOf<S extends BodySchemas> = keyof S & number;

/** An entry of one type, with a checked body. Its version decides the type of the body. */
export type TypedEntry<S extends BodySchemas> = {
  [V in VersionOf<S>]: Omit<FoldEntry, 'version' | 'body'> & {
    readonly version: V;
    readonly body: SchemaOutput<S[V]>;
  };
}[VersionOf<S>];

/** An entry of one type without a place in the log, with a checked body. */
export type TypedUnplacedEntry<S extends BodySchemas> = {
  [V in VersionOf<S>]: Omit<UnplacedEntry, 'version' | 'body'> & {
    readonly version: V;
    readonly body: SchemaOutput<S[V]>;
  };
}[VersionOf<S>];

/** An entry of any type of a reducer. Its type and its version decide the type of its body. */
export type AnyUnplacedEntry<E extends EntryTypes> = {
  [T in keyof E & string]: TypedUnplacedEntry<E[T]> & { readonly type: T };
}[keyof E & string];

/** The bodies that take the place of an entry of one type; see {@link Rebased}. */
export interface TypedRebased<S extends BodySchemas> extends Omit<Rebased, 'bodies'> {
  readonly bodies: readonly SchemaInput<S[VersionOf<S>]>[];
}

/** A reducer as its author writes it. */
export interface ReducerDefinition<M extends MapTypes, E extends EntryTypes> {
  readonly name: string;
  /** Must change if the same entries fold to another state, also because a schema changed. */
  readonly version: number;
  /** The maps of the state by name. */
  readonly maps: M;
  /** The schemas of bodies, by type and version of the entry. */
  readonly entries: E;
  /** Folds an entry of each type. Obeys the rules of {@link Reducer}. */
  readonly fold: {
    readonly [T in keyof E]: (maps: TypedMaps<M>, entry: TypedEntry<E[T]>, draft: ReducerDraft) => void | Promise<void>;
  };
  /** Refuses new entries of a type by throwing; see {@link Reducer.validate}. */
  readonly validate?: {
    readonly [T in keyof E]?: (
      maps: TypedMapReaders<M>,
      entry: TypedEntry<E[T]>,
      state: ReducerDraft,
    ) => void | Promise<void>;
  };
  /** Rewrites entries of a type over entries of others; see {@link Reducer.rebase}. */
  readonly rebase?: {
    readonly [T in keyof E]?: (
      entry: TypedUnplacedEntry<E[T]>,
      other: AnyUnplacedEntry<E>,
      side: RebaseSide,
    ) => TypedRebased<E[T]> | undefined | Promise<TypedRebased<E[T]> | undefined>;
  };
}

const DEFINITION_NAMES = [
  'name',
  'version',
  'maps',
  'entries',
  'fold',
  'validate',
  'rebase',
] satisfies (keyof ReducerDefinition<MapTypes, EntryTypes>)[];

/** A new entry of a type and a version whose body has the type that its schema accepts. */
type TypedNewEntry<E extends EntryTypes, T extends keyof E & string, V extends VersionOf<E[T]>> = NewEntry & {
  readonly type: T;
  readonly version: V;
  readonly body: SchemaInput<E[T][V]>;
};

/** The new entries of all types and versions. */
type TypedNewEntries<E extends EntryTypes> = {
  [T in keyof E & string]: { [V in VersionOf<E[T]>]: TypedNewEntry<E, T, V> }[VersionOf<E[T]>];
}[keyof E & string];

/** The new entries that a reducer folds; any if it is not one of `defineReducer`. */
export type NewEntryOf<R extends Reducer> = R extends { readonly newEntry?: infer N }
  ? unknown extends N
    ? NewEntry
    : Extract<N, NewEntry>
  : NewEntry;

/** A reducer with typed entries and maps. */
export interface DefinedReducer<M extends MapTypes, E extends EntryTypes> extends Reducer {
  /** Only for the compiler: no object has it. */
  readonly newEntry?: TypedNewEntries<E>;
  /** The maps of a document's state, or of a draft, for reading. */
  mapsOf(from: ReducerDraft | { readonly draft: ReducerDraft }): TypedMapReaders<M>;
  /**
   * A new entry, for `append` and `mutate`.
   * @throws ValueUnsupportedError if the body cannot be stored
   */
  entry<T extends keyof E & string, V extends VersionOf<E[T]>>(
    type: T,
    version: V,
    body: SchemaInput<E[T][V]>,
  ): TypedNewEntry<E, T, V>;
}

/**
 * Makes a reducer whose entries and maps have types. A body must fit the schema of its type and
 * version; its handler gets the value that the schema made of it.
 * @returns a reducer whose `fold` throws EntryTypeUnknownError, EntryVersionUnknownError, and
 * BodyInvalidError if a body does not fit
 * @throws ReducerInvalidError if the definition lacks a part, or versions have a gap
 * @throws UsageError if a part has a wrong name
 */
export function defineReducer<const M extends MapTypes, const E extends EntryTypes>(
  definition: ReducerDefinition<M, E>,
): DefinedReducer<M, E> {
  checkOptionNames('defineReducer', definition, DEFINITION_NAMES);
  const { name, version, maps: types, entries, validate, rebase } = definition;
  // The compiler knows the types of bodies, and the schemas check them.
  const folds = handlersOf(entries, definition.fold as Given<Handler<M>>);
  const validates = validate && handlersOf(entries, validate as Given<Handler<M>>);
  const rebases = rebase && handlersOf(entries, rebase as Given<RebaseHandler>);
  checkDefinition({ name, version, entries, folds });
  const versions = Object.fromEntries(Object.entries(entries).map(([type, each]) => [type, Object.keys(each).length]));
  const typed = new WeakMap<ReducerDraft, TypedMaps<M>>();

  const mapsOf = (draft: ReducerDraft): TypedMaps<M> => {
    const known = typed.get(draft) ?? typedMaps(types, draft);
    typed.set(draft, known);
    return known;
  };
  const run = async (
    handlers: ReadonlyMap<string, Handler<M>>,
    draft: ReducerDraft,
    entry: FoldEntry,
  ): Promise<void> => {
    checkType(entry, versions);
    const handler = handlers.get(entry.type);
    if (handler === undefined) return;
    const body = await checkBody(entries, entry);
    await handler(mapsOf(draft), { ...entry, body }, draft);
  };
  return {
    name,
    version,
    fold: (draft, entry) => run(folds, draft, entry),
    ...(validates !== undefined && {
      validate: (entry: FoldEntry, state: ReducerDraft) => run(validates, state, entry),
    }),
    ...(rebases !== undefined && {
      rebase: async (entry: UnplacedEntry, other: UnplacedEntry, side: RebaseSide) => {
        const handler = rebases.get(entry.type);
        if (handler === undefined) return undefined;
        const [body, otherBody] = [await checkBody(entries, entry), await checkBody(entries, other)];
        return handler({ ...entry, body }, { ...other, body: otherBody }, side);
      },
    }),
    mapsOf: (from) => mapsOf('draft' in from ? from.draft : from),
    entry: (type, entryVersion, body) => {
      checkValue(body, 'the body');
      return { type, version: entryVersion, body };
    },
  };
}

/** A handler that gets the output of the entry's schema as the body. */
type Handler<M extends MapTypes> = (
  maps: TypedMaps<M>,
  entry: Omit<FoldEntry, 'body'> & { readonly body: unknown },
  draft: ReducerDraft,
) => void | Promise<void>;
/** A rebase that gets the outputs of the entries' schemas as bodies. */
type RebaseHandler = (
  entry: Omit<UnplacedEntry, 'body'> & { readonly body: unknown },
  other: Omit<UnplacedEntry, 'body'> & { readonly body: unknown },
  side: RebaseSide,
) => Rebased | undefined | Promise<Rebased | undefined>;
type Given<F> = { readonly [type: string]: F | undefined };

/** The functions for entry types, also those that an object inherits from its class. */
function handlersOf<A extends unknown[], R>(
  entries: EntryTypes,
  given: Given<(...args: A) => R>,
): ReadonlyMap<string, (...args: A) => R> {
  const handlers = new Map<string, (...args: A) => R>();
  for (const type of Object.keys(entries)) {
    const handler = given[type];
    // An entry type may be called `constructor`.
    if (typeof handler !== 'function' || handler === Reflect.get(Object.prototype, type)) continue;
    handlers.set(type, (...args) => handler.apply(given, args));
  }
  return handlers;
}

async function checkBody(entries: EntryTypes, { type, version, body }: UnplacedEntry): Promise<unknown> {
  const schema = entries[type]?.[version];
  if (schema === undefined) throw bodyInvalid(type, `there is no schema for version ${version}`);
  const checked = await checkWithSchema(schema, body);
  if ('value' in checked) return checked.value;
  throw bodyInvalid(type, checked.reasons);
}

function typedMaps<M extends MapTypes>(types: M, draft: ReducerDraft): TypedMaps<M> {
  const maps = Object.entries(types).map(([name, { kind, options }]) => [name, draft.map(name, kind, options)]);
  // Only the handlers put values into these maps, and the compiler checks them there.
  return Object.fromEntries(maps) as TypedMaps<M>;
}

interface CheckedDefinition {
  readonly name: string;
  readonly version: number;
  readonly entries: EntryTypes;
  readonly folds: ReadonlyMap<string, unknown>;
}

function checkDefinition({ name, version, entries, folds }: CheckedDefinition): void {
  if (!isReducer({ name, version, fold: () => undefined })) {
    throw invalid(`it needs ${REDUCER_PARTS}`);
  }
  if (name.endsWith(HISTORY_SUFFIX)) throw invalid(`only withHistory gives names such as '${name}'`);
  for (const [type, schemas] of Object.entries(entries)) {
    const gap = Object.keys(schemas).findIndex((each, i) => each !== String(i + 1));
    if (gap >= 0 || Object.keys(schemas).length === 0) throw invalid(`the versions of '${type}' are not 1, 2, 3, …`);
    if (!folds.has(type)) throw invalid(`'fold' has no function for '${type}'`);
  }
}

function invalid(reason: string): ReducerInvalidError {
  return new ReducerInvalidError(`the definition of the reducer is not valid: ${reason}`, {
    advice: 'Correct the argument of defineReducer',
  });
}

/**
 * A schema of any library that follows Standard Schema (https://standardschema.dev), such as zod,
 * valibot or ArkType. These are the parts that logfold uses.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
  };
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The type of a value that a schema accepts. */
export type SchemaInput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input'];
/** The type of a value that a schema has checked. */
export type SchemaOutput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output'];

/**
 * Checks a value with a schema.
 * @returns the value that the schema made of it, or the reasons why it does not fit
 */
async function checkWithSchema(
  schema: StandardSchema,
  value: unknown,
): Promise<{ readonly value: unknown } | { readonly reasons: string }> {
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return { value: result.value };
  return { reasons: result.issues.map(describeIssue).join('; ') };
}

function describeIssue({ message, path = [] }: SchemaIssue): string {
  if (path.length === 0) return message;
  return `${path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')}: ${message}`;
}
