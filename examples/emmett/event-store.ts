/** Emmett's EventStore on logs, with snapshots. README.md says how to use it. */
import * as emmett from '@event-driven-io/emmett';
import type { Logs, QueryRange, Reducer, Value } from 'logfold';
import { type EntryExistsError, LogNotFoundError, parseLogId, toValue } from 'logfold';

type Definition<S, E> = Pick<Reducer, 'name' | 'version'> & { evolve(state: S, event: E): S; initialState(): S };
type StreamReducer = Reducer & { readonly evolve: unknown };
type EventStore = emmett.EventStore<emmett.ReadEventMetadataWithoutGlobalPosition>;

const logOf = (streamName: string) => parseLogId(`emmett/${streamName}`);
/** The types of events and states are the word of the caller, as in every store of Emmett. */
const claimed = (value: unknown): never => value as never;
const unless = (kind: new (...args: never[]) => Error) => (error: unknown) => {
  if (!(error instanceof kind)) throw error;
};
function eventOf({ type, body, number = 0 }: { type: string; body: Value; number?: number | undefined }) {
  const { data, metadata }: emmett.ReadEvent = claimed(body);
  return { type, kind: 'Event', data, metadata: { ...metadata, streamPosition: BigInt(number) } } as const;
}

/** Folds streams as `evolve` does: for the pipeline, and for {@link getLogfoldEventStore}. */
export function streamReducer<S, E>({ name, version, evolve, initialState }: Definition<S, E>): StreamReducer {
  const fold: Reducer['fold'] = async (draft, entry) => {
    const states = draft.map('states', 'string');
    const state = (await states.get('state')) ?? initialState();
    states.put('state', toValue(evolve(claimed(state), claimed(eventOf(entry)))));
  };
  return { name, version, evolve, fold };
}

/** @param reducer its snapshots answer `aggregateStream` calls with the same `evolve` */
export function getLogfoldEventStore(logs: Logs, reducer?: StreamReducer): EventStore {
  const read = async (streamName: string, range: QueryRange) => {
    const entries = Array.fromAsync(logs.client.read(logOf(streamName), range), eventOf);
    return (await entries.catch(unless(LogNotFoundError))) ?? [];
  };
  const versionOf = async (stream: string) =>
    (await read(stream, { from: 'start', reverse: true, limit: 1 }))[0]?.metadata.streamPosition ?? 0n;
  return {
    streamExists: async (streamName) => (await versionOf(streamName)) > 0n,
    async readStream(streamName, { from = 0n, to, maxCount, expectedStreamVersion, schema } = {}) {
      const current = await versionOf(streamName);
      emmett.assertExpectedVersionMatchesCurrent(current, expectedStreamVersion, 0n);
      const end = Math.min(Number(to ?? (maxCount ? from + maxCount : current)), Number(current));
      const range = { from: { number: Number(from) + 1 }, to: { number: end + 1 } };
      const events = from < end ? await read(streamName, range) : [];
      const upcasted = emmett.upcastRecordedMessages(events, claimed(schema?.versioning));
      return { currentStreamVersion: current, events: claimed(upcasted), streamExists: current > 0n };
    },
    async aggregateStream(streamName, { evolve, initialState, read: options = {} }) {
      const { expectedStreamVersion, from, to, maxCount, schema } = options;
      if ((from ?? to ?? maxCount ?? schema) !== undefined || reducer === undefined || reducer.evolve !== evolve) {
        const { events, ...stream } = await this.readStream(streamName, claimed(options));
        return { ...stream, state: events.reduce(claimed(evolve), initialState()) };
      }
      const document = await logs.open(logOf(streamName), { reducer }).catch(unless(LogNotFoundError));
      document?.close();
      const current = BigInt(document?.number ?? 0);
      emmett.assertExpectedVersionMatchesCurrent(current, expectedStreamVersion, 0n);
      const state = (await document?.map('states').get('state')) ?? initialState();
      return { currentStreamVersion: current, state: claimed(state), streamExists: current > 0n };
    },
    async appendToStream(streamName, events, { expectedStreamVersion: expected, schema } = {}) {
      const given = expected === emmett.STREAM_DOES_NOT_EXIST ? 0n : expected;
      const current = typeof given === 'bigint' ? given : await versionOf(streamName);
      emmett.assertExpectedVersionMatchesCurrent(current, expected, 0n);
      if (current === 0n) await logs.create(logOf(streamName), { ifMissing: true });
      const stored = emmett.downcastRecordedMessages<emmett.AnyEvent>(events, claimed(schema?.versioning));
      const entries = stored.map(({ type, data, ...event }) => {
        const metadata = { ...event.metadata, messageId: crypto.randomUUID(), streamName };
        return { type, version: 1, body: toValue({ data, metadata }) };
      });
      const options = typeof given === 'bigint' ? { after: { number: Number(given) } } : {};
      const added = await logs.client.addEntries(logOf(streamName), entries, options).catch(async (error: unknown) => {
        const { code }: EntryExistsError = claimed(error);
        if (!['ENTRY_EXISTS', 'ENTRY_NOT_FOUND', 'LOG_NOT_FOUND'].includes(code)) throw error;
        throw new emmett.ExpectedVersionConflictError(await versionOf(streamName), claimed(expected));
      });
      const { firstNumber: first = 1 } = added;
      return { nextExpectedStreamVersion: BigInt(first + events.length - 1), createdNewStream: first === 1 };
    },
  };
}
