import fc from 'fast-check';
import { checkValue, type Value } from '../../../src/codec/value.ts';
import type { ClientMutation } from '../../../src/log/entry.ts';
import type { DraftMap } from '../../../src/state/draft-map.ts';
import type { FoldEntry, Reducer, ReducerDraft } from '../../../src/state/reducer.ts';
import type { Key, KeyKind } from '../../../src/tree/key.ts';
import { values } from './values.ts';

/** The target of a step: a map by name, keys and options, or the metadata record. */
interface Target {
  readonly name: string;
  readonly kind: KeyKind;
  readonly buffers: boolean;
  /** True if the reducer keeps the map for later entries instead of asking the draft again. */
  readonly kept: boolean;
}

/**
 * Origin of a value. Every origin except a constant is an object that the reducer may share or
 * change.
 */
type Source =
  | { readonly from: 'constant'; readonly value: Value }
  | { readonly from: 'body' }
  | { readonly from: 'meta'; readonly name: string }
  | { readonly from: 'map'; readonly target: Target; readonly key: Key }
  | { readonly from: 'reads' };

/** One step of a reducer. */
type Step =
  | {
      readonly op: 'put';
      readonly target: Target;
      readonly key: Key;
      readonly source: Source;
      readonly weight: number;
      readonly changes: boolean;
      /** True if the value is late, unless it cannot be stored. */
      readonly late: boolean;
    }
  /** Adds an item to an object that the reducer keeps per draft, and puts the object late. */
  | { readonly op: 'grow'; readonly key: string; readonly weight: number }
  | { readonly op: 'drop'; readonly key: string }
  | { readonly op: 'drop range'; readonly from: string; readonly to: string }
  | { readonly op: 'get grown'; readonly key: string }
  | { readonly op: 'grown items' }
  | { readonly op: 'delete'; readonly target: Target; readonly key: Key }
  | { readonly op: 'delete range'; readonly target: Target; readonly from: Key; readonly to: Key }
  | { readonly op: 'empty'; readonly target: Target }
  | { readonly op: 'set'; readonly names: readonly string[]; readonly source: Source; readonly changes: boolean }
  | { readonly op: 'unset'; readonly name: string }
  | { readonly op: 'get'; readonly target: Target; readonly key: Key }
  | { readonly op: 'items' | 'count' | 'weight'; readonly target: Target }
  | { readonly op: 'first key' | 'at offset'; readonly target: Target; readonly from: Key }
  | { readonly op: 'meta' };

interface PlannedStep {
  readonly step: Step;
  /** True if earlier reads decide whether the step is taken. */
  readonly depends: boolean;
  /** True if the reducer continues after the step fails. */
  readonly catches: boolean;
}

/** The steps of a reducer for one entry, and the entry's body. */
export interface RandomEntry {
  readonly steps: readonly PlannedStep[];
  readonly body: Value;
  /** The client's number of the entry. The fold skips some entries. */
  readonly once?: ClientMutation | undefined;
}

/** Everything that a reducer has read, as text. */
export type Reads = string[];

/** How a random reducer puts values. */
export interface RandomReducerOptions {
  /** Puts late values as plain ones. False by default. */
  readonly eager?: boolean;
  /** Counts the late values that were put, and those that were evaluated. */
  readonly counts?: { put: number; evaluated: number };
}

/**
 * A reducer that takes these steps. It appends everything that it reads to `reads`. It fails if a
 * late value is evaluated twice.
 */
export function randomReducer(
  entries: readonly RandomEntry[],
  reads: Reads,
  options: RandomReducerOptions = {},
): Reducer {
  const kept = new WeakMap<object, Kept>();
  return {
    name: 'random',
    version: 1,
    fold: async (draft, { body, position }) => {
      const own = kept.get(draft) ?? { maps: new Map(), grown: new Map() };
      kept.set(draft, own);
      const run = new Run(draft, own, { body, reads, options });
      for (const { step, depends, catches } of entries[position.entry]?.steps ?? []) {
        if (depends && (reads.at(-1)?.length ?? 0) % 2 === 1) continue;
        try {
          await run.take(step);
        } catch (error) {
          if (!catches) throw error;
          reads.push('refused');
        }
      }
    },
  };
}

/** Everything that a random reducer keeps for a draft. */
interface Kept {
  readonly maps: Map<string, DraftMap>;
  /** Objects that change with each entry that grows them. Each is also an item of map `late`. */
  readonly grown: Map<string, Value[]>;
}

class Run {
  readonly #draft: ReducerDraft;
  readonly #kept: Kept;
  readonly #body: FoldEntry['body'];
  readonly #reads: Reads;
  readonly #options: RandomReducerOptions;

  constructor(
    draft: ReducerDraft,
    kept: Kept,
    run: { readonly body: Value; readonly reads: Reads; readonly options: RandomReducerOptions },
  ) {
    this.#draft = draft;
    this.#kept = kept;
    this.#body = run.body;
    this.#reads = run.reads;
    this.#options = run.options;
  }

  async take(step: Step): Promise<void> {
    const { meta } = this.#draft;
    switch (step.op) {
      case 'put': {
        const value = await this.#value(step.source);
        // An absent value cannot be put, and the draft must refuse it.
        this.#map(step.target).put(step.key, step.late ? this.#late(value) : (value as Value), step.weight);
        if (step.changes) change(value);
        return;
      }
      case 'grow': {
        const items = await this.#grown(step.key);
        items.push(items.length, copyOf(this.#body));
        const weight = step.key < 'm' ? step.weight : 1;
        return this.#lateMap(step.key).put(
          step.key,
          this.#evaluatedOnce(() => items),
          weight,
        );
      }
      case 'drop':
        this.#kept.grown.delete(step.key);
        return this.#lateMap(step.key).delete(step.key);
      case 'drop range': {
        const { from, to } = step;
        for (const key of this.#kept.grown.keys()) if (from <= key && key < to) this.#kept.grown.delete(key);
        for (const key of ['a', 'z']) this.#lateMap(key).deleteRange({ from, to });
        return;
      }
      case 'get grown':
        return this.#saw(await this.#lateMap(step.key).get(step.key));
      case 'grown items':
        return this.#saw(await Array.fromAsync(this.#lateMap('a').items()), await this.#lateMap('a').weight());
      case 'delete':
        return this.#map(step.target).delete(step.key);
      case 'delete range':
        return this.#map(step.target).deleteRange({ from: step.from, to: step.to });
      case 'empty': {
        const map = this.#map(step.target);
        for await (const { key } of map.items()) map.delete(key);
        return;
      }
      case 'set': {
        const value = await this.#value(step.source);
        for (const name of step.names) meta.set(name, value as Value);
        if (step.changes) change(value);
        return;
      }
      case 'unset':
        this.#saw(meta.delete(step.name));
        return;
      case 'meta':
        return this.#saw([...meta], meta.size);
      case 'get':
        return this.#saw(await this.#map(step.target).get(step.key));
      case 'items': {
        // Changes of a read value must not affect later reads.
        const items = await Array.fromAsync(this.#map(step.target).items());
        this.#saw(items);
        return items.forEach(({ value }) => {
          change(value);
        });
      }
      case 'count':
        return this.#saw(await this.#map(step.target).count());
      case 'weight':
        return this.#saw(await this.#map(step.target).weight());
      case 'first key':
        return this.#saw(await this.#map(step.target).firstKey(step.from));
      case 'at offset':
        return this.#saw(await this.#map(step.target).atOffset(Number(step.from)));
    }
  }

  #map(target: Target): DraftMap {
    const { name, kind, buffers } = target;
    if (!target.kept) return this.#draft.map(name, kind, { buffers });
    const id = `${name} ${kind} ${buffers}`;
    const map = this.#kept.maps.get(id) ?? this.#draft.map(name, kind, { buffers });
    this.#kept.maps.set(id, map);
    return map;
  }

  /** The map of an object that grows. One of the two buffers edits. */
  #lateMap(key: string): DraftMap {
    return key < 'm'
      ? this.#draft.map('late', 'string')
      : this.#draft.map('late buffered', 'string', { buffers: true });
  }

  /** An object that grows. The first use in a draft derives it from the stored value. */
  async #grown(key: string): Promise<Value[]> {
    const known = this.#kept.grown.get(key);
    if (known !== undefined) return known;
    const stored = (await this.#lateMap(key).get(key)) ?? [];
    const items = isArray(stored) ? [...stored] : [];
    this.#kept.grown.set(key, items);
    return items;
  }

  /** A value as a late one that does not change, unless it cannot be stored. */
  #late(value: Value | undefined): Value | (() => Value) {
    try {
      checkValue(value as Value);
    } catch {
      return value as Value;
    }
    const copied = copyOf(value as Value);
    return this.#evaluatedOnce(() => copied);
  }

  #evaluatedOnce(give: () => Value): Value | (() => Value) {
    const { eager = false, counts = { put: 0, evaluated: 0 } } = this.#options;
    if (eager) return give();
    counts.put++;
    let isEvaluated = false;
    return () => {
      if (isEvaluated) throw new Error('the late value was evaluated twice');
      isEvaluated = true;
      counts.evaluated++;
      return give();
    };
  }

  async #value(source: Source): Promise<Value | undefined> {
    if (source.from === 'constant') return copyOf(source.value);
    if (source.from === 'body') return this.#body;
    if (source.from === 'reads') return { last: this.#reads.slice(-2) };
    const value =
      source.from === 'meta' ? this.#draft.meta.get(source.name) : await this.#map(source.target).get(source.key);
    this.#saw(value);
    return value;
  }

  #saw(...read: unknown[]): void {
    this.#reads.push(read.map(show).join(' '));
  }
}

/** A copy with its own version of all parts that {@link change} changes. */
function copyOf(value: Value): Value {
  if (value instanceof Date) return new Date(value);
  // The slice of a Buffer is only a view.
  if (value instanceof Buffer) return Buffer.from(value);
  if (value instanceof Uint8Array) return value.slice();
  if (isArray(value)) return value.map(copyOf);
  if (typeof value !== 'object' || value === null) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  const copied = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copyOf(item)]));
  return prototype === null ? Object.setPrototypeOf(copied, null) : copied;
}

function isArray(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/** Changes an object in place. */
function change(value: unknown): void {
  if (value instanceof Date) value.setTime(value.getTime() + 1);
  else if (value instanceof Uint8Array) value.fill(7);
  else if (Array.isArray(value)) value.push('changed');
  else if (typeof value === 'object' && value !== null) Object.assign(value, { changed: 1 });
}

/**
 * Everything that a program can observe of a value, as text: kinds of numbers, classes, the order
 * of keys.
 */
export function show(value: unknown): string {
  if (value === undefined || value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value);
  if (Array.isArray(value)) return `[${value.map(show).join(',')}]`;
  if (value instanceof Date) return `${value.constructor.name} ${value.getTime()}`;
  if (value instanceof Uint8Array) return `${value.constructor.name} ${[...value].join(' ')}`;
  const fields = Object.entries(Object(value)).map(([key, item]) => `${JSON.stringify(key)}:${show(item)}`);
  return `{${fields.join(',')}}`;
}

const LONE_SURROGATE = '\ud800';

const numberKeys: fc.Arbitrary<Key> = fc.oneof(
  { weight: 30, arbitrary: fc.nat({ max: 60 }) },
  { weight: 2, arbitrary: fc.constantFrom(2 ** 40, Number.MAX_SAFE_INTEGER) },
);
const stringKeys: fc.Arbitrary<Key> = fc.oneof(
  { weight: 30, arbitrary: fc.nat({ max: 30 }).map((number) => `k${number}`) },
  { weight: 3, arbitrary: fc.constantFrom('', '5', '__proto__', 'é', '\ufeffx', '\u{1f600}', '\uffff') },
);
const oddKeys: fc.Arbitrary<Key> = fc.constantFrom<Key[]>(
  -1,
  -0,
  1.5,
  Number.NaN,
  2 ** 53,
  LONE_SURROGATE,
  'x'.repeat(1025),
);

function keysOf(kind: KeyKind): fc.Arbitrary<Key> {
  const [own, other] = kind === 'number' ? [numberKeys, stringKeys] : [stringKeys, numberKeys];
  return fc.oneof({ weight: 120, arbitrary: own }, { weight: 1, arbitrary: other }, { weight: 1, arbitrary: oddKeys });
}

/**
 * Map `n` mostly has number keys, `s` string keys. Map `x` is emptied and filled with keys of
 * either kind.
 */
const targets: fc.Arbitrary<Target> = fc
  .record({
    name: fc.oneof(
      { weight: 60, arbitrary: fc.constantFrom('n', 's', 'x') },
      { weight: 4, arbitrary: fc.constantFrom('', '__proto__', '10', '9') },
      { weight: 1, arbitrary: fc.constantFrom(LONE_SURROGATE, 'n'.repeat(2000)) },
    ),
    other: fc.nat({ max: 60 }).map((number) => number === 0),
    kind: fc.constantFrom<KeyKind[]>('number', 'string'),
    buffers: fc.boolean(),
    kept: fc.boolean(),
  })
  .map(({ name, other, kind, buffers, kept }) => {
    const usual: KeyKind = name === 'n' ? 'number' : name === 's' ? 'string' : kind;
    return { name, kind: other ? kind : usual, buffers: buffers && name !== 's', kept };
  });

const metaNames = fc.constantFrom('count', 'b', 'a', '10', '9', '__proto__', '');

const oddValues: fc.Arbitrary<Value> = fc.constantFrom<Value[]>(
  Buffer.from('bytes'),
  new Uint8Array([1, 2, 3]).subarray(1),
  { b: 1, a: 2, 10: 3, 9: { z: 1n, y: -0 } },
  [5n, Number.NaN, -0, 0.1, 2 ** 53],
  Object.create(null, { a: { value: 1, enumerable: true } }),
);
/** Values that cannot be stored. Untyped programs may still try. */
const refused: fc.Arbitrary<unknown> = fc.constantFrom<unknown[]>(
  undefined,
  { a: undefined },
  new Map([['a', 1]]),
  new Set([1]),
  new Float64Array(2),
  LONE_SURROGATE,
  2n ** 64n,
  new Date(Number.NaN),
  Symbol('no'),
  Array.from({ length: 127 }).reduce<unknown>((inner) => [inner], 1),
);
const large = fc.integer({ min: 4085, max: 4100 }).map((length): Value => ({ text: 'x'.repeat(length) }));
const constants: fc.Arbitrary<Value> = fc.oneof(
  { weight: 30, arbitrary: fc.string({ maxLength: 12 }) },
  { weight: 20, arbitrary: fc.oneof(fc.integer(), fc.double(), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n })) },
  { weight: 10, arbitrary: fc.bigInt({ min: -5n, max: 5n }) },
  { weight: 20, arbitrary: values.filter((value) => show(value).length < 6000) },
  { weight: 20, arbitrary: oddValues },
  { weight: 5, arbitrary: large },
  { weight: 1, arbitrary: refused.map((value) => value as Value) },
);

const sources: fc.Arbitrary<Source> = fc.oneof<fc.WeightedArbitrary<Source>[]>(
  { weight: 5, arbitrary: fc.record({ from: fc.constant('constant'), value: constants }) },
  { weight: 2, arbitrary: fc.constant({ from: 'body' }) },
  { weight: 2, arbitrary: fc.constant({ from: 'reads' }) },
  { weight: 2, arbitrary: fc.record({ from: fc.constant('meta'), name: metaNames }) },
  { weight: 2, arbitrary: keyed((target, key) => ({ from: 'map', target, key })) },
);
const weights = fc.oneof(
  { weight: 40, arbitrary: fc.constant(1) },
  { weight: 8, arbitrary: fc.integer({ min: 2, max: 1000 }) },
  { weight: 2, arbitrary: fc.constantFrom(2 ** 51, 2 ** 52 - 100) },
  { weight: 1, arbitrary: fc.constantFrom(0, -1, 1.5, 2 ** 60, Number.NaN, Number.POSITIVE_INFINITY) },
);

function keyed<T>(make: (target: Target, key: Key) => T): fc.Arbitrary<T> {
  return targets.chain((target) => keysOf(target.kind).map((key) => make(target, key)));
}

const puts = fc
  .tuple(
    keyed((target, key) => ({ target, key })),
    fc.record({ source: sources, weight: weights, changes: fc.boolean(), late: fc.boolean() }),
  )
  .map(([place, rest]): Step => {
    // Most weights are allowed at their target.
    const weight = place.target.buffers && rest.weight < 2000 ? 1 : rest.weight;
    return { op: 'put', ...place, ...rest, weight };
  });

const grownKeys = fc.constantFrom('a', 'b', 'y', 'z');

const steps: fc.Arbitrary<Step> = fc.oneof<fc.WeightedArbitrary<Step>[]>(
  { weight: 20, arbitrary: puts },
  { weight: 6, arbitrary: keyed((target, key) => ({ op: 'delete', target, key })) },
  {
    weight: 2,
    arbitrary: targets.chain((target) =>
      fc.record({
        op: fc.constant('delete range'),
        target: fc.constant(target),
        from: keysOf(target.kind),
        to: keysOf(target.kind),
      }),
    ),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('empty'), target: targets }) },
  {
    weight: 10,
    arbitrary: fc.record({
      op: fc.constant('set'),
      names: fc.array(metaNames, { minLength: 1, maxLength: 2 }),
      source: sources,
      changes: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('unset'), name: metaNames }) },
  { weight: 4, arbitrary: keyed((target, key) => ({ op: 'get', target, key })) },
  { weight: 6, arbitrary: fc.record({ op: fc.constantFrom('items', 'count', 'weight'), target: exactTargets() }) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.constantFrom('first key', 'at offset'), exactTargets())
      .chain(([op, target]) => keysOf(target.kind).map((from) => ({ op, target, from }))),
  },
  { weight: 2, arbitrary: fc.constant({ op: 'meta' }) },
  {
    weight: 8,
    arbitrary: fc.record({ op: fc.constant('grow'), key: grownKeys, weight: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('drop'), key: grownKeys }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('drop range'), from: grownKeys, to: grownKeys }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('get grown'), key: grownKeys }) },
  { weight: 1, arbitrary: fc.constant({ op: 'grown items' }) },
);

/** Targets that mostly have exact counts. */
function exactTargets(): fc.Arbitrary<Target> {
  return fc
    .tuple(targets, fc.nat({ max: 20 }))
    .map(([target, number]) => ({ ...target, buffers: number === 0 && target.buffers }));
}

const entry: fc.Arbitrary<RandomEntry> = fc.record({
  steps: fc.array(
    fc.record({
      step: steps,
      depends: fc.nat({ max: 4 }).map((number) => number === 0),
      catches: fc.nat({ max: 1 }).map((number) => number === 0),
    }),
    { maxLength: 8, size: 'max' },
  ),
  body: values.filter((value) => show(value).length < 5000),
  once: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    {
      weight: 1,
      arbitrary: fc.record({ client: fc.constantFrom('a', 'b'), mutation: fc.integer({ min: 1, max: 5 }) }),
    },
  ),
});

/** Enough items for several leaves; smaller maps buffer no edits. */
const full: RandomEntry = {
  steps: Array.from({ length: 60 }, (_, key) => ({
    step: {
      op: 'put',
      target: { name: 'n', kind: 'number', buffers: true, kept: false },
      key,
      source: { from: 'constant', value: `value ${key}` },
      weight: 1,
      changes: false,
      late: false,
    },
    depends: false,
    catches: false,
  })),
  body: null,
};

/** Random steps of a reducer for each entry of a log. */
export const randomEntries: fc.Arbitrary<RandomEntry[]> = fc
  .tuple(fc.boolean(), fc.array(entry, { minLength: 1, maxLength: 12, size: 'max' }))
  .map(([fills, entries]) => (fills ? [full, ...entries] : entries));
