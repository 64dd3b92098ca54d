import { AssertionError, deepStrictEqual } from 'node:assert';
import type { DocumentState } from '../client/document-state.ts';
import { encodeValue } from '../codec/canonical.ts';
import { decodeValue } from '../codec/message-pack.ts';
import { toValue, type Value } from '../codec/value.ts';
import { EntryDroppedError, EntryRejectedError, isLogfoldError, textOf, UsageError } from '../errors.ts';
import { checkOptionNames } from '../log/option-names.ts';
import type { NewEntryOf } from '../state/define-reducer.ts';
import type { Reducer } from '../state/reducer.ts';
import type { Key } from '../tree/key.ts';
import type { FakeClock } from './fake-clock.ts';
import { MemoryLogs } from './memory-logs.ts';

/** The whole content of a state, as a test writes it. */
export interface ExpectedState {
  /**
   * The maps with items, by name: an object with the values by key, or a `Map`, which also checks
   * whether keys are numbers. None by default.
   */
  readonly maps?: { readonly [map: string]: { readonly [key: string]: Value } | ReadonlyMap<Key, Value> };
  /** The metadata record. Empty by default. */
  readonly meta?: { readonly [name: string]: Value };
}

export interface ReducerTestOptions {
  /** The clock of new entries; one that begins in 2025 by default. */
  readonly clock?: FakeClock | undefined;
}

/**
 * Begins a test of a reducer: `await given(votes, []).when(vote).thenState({ maps: … })`. Works
 * with every test runner, because a failed expectation is an `AssertionError` of Node with the
 * difference in its message, in `actual` and in `expected`.
 *
 * No method is called `then`: JavaScript takes an object with this method for a promise. An `await`
 * in the wrong place, or a helper function that is `async`, would call it with functions instead of
 * a state, and the test would hang or check nothing.
 * @param entries entries that are in the log already; `validate` does not see them
 * @throws UsageError if an option has a wrong name
 */
export function given<R extends Reducer>(
  reducer: R,
  entries: readonly NewEntryOf<R>[],
  options: ReducerTestOptions = {},
): GivenEntries<R> {
  checkOptionNames('given', options, ['clock'] satisfies (keyof ReducerTestOptions)[]);
  return new GivenEntries(reducer, entries, options);
}

/** The beginning of a test of a reducer: see {@link given}. */
export class GivenEntries<R extends Reducer> {
  readonly #reducer: R;
  readonly #entries: readonly NewEntryOf<R>[];
  readonly #options: ReducerTestOptions;

  constructor(reducer: R, entries: readonly NewEntryOf<R>[], options: ReducerTestOptions) {
    this.#reducer = reducer;
    this.#entries = entries;
    this.#options = options;
  }

  /**
   * The entries that a document appends, in one request. Runs nothing: the expectation does.
   * @param entries one by one or as a list; none for the state of the given entries
   */
  when(...entries: readonly (NewEntryOf<R> | readonly NewEntryOf<R>[])[]): ReducerTest<R> {
    const appended = entries.flatMap((each) => each);
    return new ReducerTest({ reducer: this.#reducer, given: this.#entries, appended, ...this.#options });
  }
}

interface ReducerCase<R extends Reducer> extends ReducerTestOptions {
  readonly reducer: R;
  readonly given: readonly NewEntryOf<R>[];
  readonly appended: readonly NewEntryOf<R>[];
}

/** Entries in one request of the given ones. */
const GIVEN_AT_ONCE = 25;

/**
 * A test of a reducer that lacks its expectation: await one of the methods. Each folds the entries
 * twice: as a document does, entry by entry, and as a worker does, from the beginning. It throws an
 * AssertionError if the two states differ: the reducer then uses a clock or randomness, or keeps
 * data outside of the draft.
 */
export class ReducerTest<R extends Reducer> {
  readonly #case: ReducerCase<R>;

  constructor(reducerCase: ReducerCase<R>) {
    this.#case = reducerCase;
  }

  /**
   * Expects the whole state.
   * @throws AssertionError if the state differs
   * @throws EntryRejectedError if the reducer refuses an entry
   * @throws the errors of `Logs.open` and `Document.append`, such as FoldFailedError for a given
   * entry
   */
  async thenState(expected: ExpectedState): Promise<void> {
    const wanted = wantedContent(expected);
    await this.#run(async (state) => deepStrictEqual(await contentOf(state, wanted.kinds), wanted.content));
  }

  /**
   * Expects what a function checks, with the assertions of any library: for reducers whose maps
   * are not for reading, such as those of sheets.
   * @throws the errors of the function
   * @throws the errors of {@link thenState}
   */
  async thenCheck(check: (state: DocumentState) => unknown): Promise<void> {
    if (typeof check !== 'function') throw new UsageError('thenCheck takes a function');
    await this.#run(check);
  }

  /**
   * Expects that the reducer refuses the entries, and that nothing is appended.
   * @param reason matches the error with its causes, such as `ENTRY_REJECTED: …`; any by default
   * @returns the error; its `cause` is what the reducer threw
   * @throws AssertionError if the reducer takes the entries, or refuses them for another reason
   */
  async thenRejected(reason?: RegExp): Promise<EntryRejectedError | EntryDroppedError> {
    let rejected: EntryRejectedError | EntryDroppedError | undefined;
    try {
      await this.#run(() => undefined);
    } catch (error) {
      if (!(error instanceof EntryRejectedError || error instanceof EntryDroppedError)) throw error;
      rejected = error;
    }
    if (rejected === undefined) {
      const message = `reducer '${this.#case.reducer.name}' takes the entries, and the test expects that it refuses`;
      throw new AssertionError({
        message,
        expected: reason ?? 'an EntryRejectedError',
        stackStartFn: this.thenRejected,
      });
    }
    const text = textOfCauses(rejected);
    if (reason !== undefined && text.search(reason) < 0) {
      const message = `the reducer refuses the entries for another reason:\n${text}\ndoes not match ${reason}`;
      throw new AssertionError({ message, actual: text, expected: reason, operator: 'match' });
    }
    return rejected;
  }

  async #run(check: (state: DocumentState) => unknown): Promise<void> {
    const { reducer, given: entries, appended, clock } = this.#case;
    const logs = new MemoryLogs({ reducer, clock });
    try {
      const log = await logs.create();
      for (let i = 0; i < entries.length; i += GIVEN_AT_ONCE) {
        await logs.client.addEntries(log, entries.slice(i, i + GIVEN_AT_ONCE));
      }
      const document = await logs.open(log, { reducer });
      if (appended.length > 0) await document.append(appended);
      const { state } = document;
      await check(state);
      await logs.client.addSnapshot(log);
      await logs.pipeline.run();
      const again = await logs.open(log, { reducer });
      const [once, twice] = [await wholeContentOf(state), await wholeContentOf(again.state)];
      const message = `reducer '${reducer.name}' is not deterministic: another fold of the same entries gives another state`;
      requireSame(twice, once, message);
    } finally {
      await logs.close();
    }
  }
}

/** The content of a state as an error shows it: maps are objects, or of the type `Map`. */
interface StateContent {
  readonly maps: { readonly [map: string]: object };
  readonly meta: Value;
}

type MapForm = 'object' | 'Map';

function wantedContent(expected: ExpectedState): {
  readonly content: StateContent;
  readonly kinds: ReadonlyMap<string, MapForm>;
} {
  checkOptionNames('thenState', expected, ['maps', 'meta'] satisfies (keyof ExpectedState)[]);
  const { maps = {}, meta = {} } = expected;
  const kinds = new Map<string, MapForm>();
  const shown = Object.entries(maps).flatMap(([name, items]) => {
    const form = items instanceof Map ? 'Map' : 'object';
    kinds.set(name, form);
    const pairs: [Key, Value][] = items instanceof Map ? [...items] : Object.entries(items);
    // A state has no map without items.
    return pairs.length === 0 ? [] : [[name, shownMap(pairs, form)] as const];
  });
  return { content: { maps: Object.fromEntries(shown), meta: canonicalValue(meta) }, kinds };
}

/** The content with the maps for bookkeeping, such as those of collections. */
function wholeContentOf(state: DocumentState): Promise<StateContent> {
  return contentOf(state, new Map(), [...state.content.maps.keys()]);
}

async function contentOf(
  state: DocumentState,
  kinds: ReadonlyMap<string, MapForm>,
  names: readonly string[] = state.mapNames,
): Promise<StateContent> {
  const maps: [string, object][] = [];
  for (const name of names) {
    const items: [Key, Value][] = [];
    for await (const { key, value } of state.map(name).range()) items.push([key, value]);
    if (items.length > 0) maps.push([name, shownMap(items, kinds.get(name) ?? 'object')]);
  }
  return { maps: Object.fromEntries(maps), meta: canonicalValue(state.content.meta) };
}

function shownMap(items: readonly [Key, Value][], form: MapForm): object {
  const canonical = items.map(([key, value]) => [key, canonicalValue(value)] as const);
  // `fromEntries` defines keys instead of assigning them, so `__proto__` is a key like any other.
  return form === 'Map' ? new Map(canonical) : Object.fromEntries(canonical);
}

/** The value as a state has it: a whole number that a number can hold is not a bigint. */
function canonicalValue(value: Value): Value {
  return decodeValue(encodeValue(toValue(value)));
}

function requireSame(actual: StateContent, expected: StateContent, message: string): void {
  try {
    deepStrictEqual(actual, expected);
  } catch (error) {
    if (!(error instanceof AssertionError)) throw error;
    // With the operator of the cause, Node 24 adds the difference to the message again.
    throw new AssertionError({ message: `${message}\n${error.message}`, actual, expected, operator: 'equal' });
  }
}

/** The texts of an error and of its causes. */
function textOfCauses(error: Error): string {
  const texts: string[] = [];
  for (let at: unknown = error; at !== undefined && texts.length < 10; ) {
    texts.push(isLogfoldError(at) ? `${at.code}: ${at.message}` : textOf(at));
    at = at instanceof Error ? at.cause : undefined;
  }
  return texts.join('\ncaused by ');
}
