/** InfiniSheet's EventLog and WorkerHost on a log. README.md says how to use them. */
import type { Document, NewEntry, TypedMap, Value } from 'logfold';
import { BodyInvalidError, defineReducer, EntryRejectedError, numberMap, toValue } from 'logfold';
import { err, ok, type Result, ResultAsync } from 'neverthrow';
import * as z from 'zod';

/** The most entries in the answer of a query: the number that InfiniSheet's own log has. */
const PAGE_ENTRIES = 10;
const FIELDS = ['snapshot', 'history', 'pending'] as const;

export type Metadata = { [name in (typeof FIELDS)[number]]?: string | undefined };
export type LogEntry = Metadata & { type: string };
type StorageError = { type: 'StorageError'; message: string };
type OutOfRange = { type: 'InfinisheetRangeError'; message: string };
type Conflict = { type: 'ConflictError'; message: string; nextSequenceId: bigint };
type Newer = { lastSnapshot?: { sequenceId: bigint; blobId: string } };
type Page<T> = Newer & { startSequenceId: bigint; endSequenceId: bigint; isComplete: boolean; entries: T[] };
type Pending = { type: 'PendingWorkflowMessage'; workflow: string; sequenceId: bigint };
type Worker = { onReceiveMessage: ((message: Pending) => ResultAsync<void, unknown>) | undefined };
type Bounds = { start: number; end: number };
type Stored = { readonly [name: string]: Value };

/** The log has the entries from `start` up to but not including `end`. */
function boundsOf({ meta }: { meta: Pick<Document['state']['meta'], 'get'> }): Bounds {
  return { start: Number(meta.get('start') ?? 0), end: Number(meta.get('end') ?? 0) };
}

const sequence = z.int().min(0);
const newestFirst = (at: number): number => Number.MAX_SAFE_INTEGER - 1 - at;
const stored = z.record(z.string(), z.custom<Value>());

/** Folds the calls of an EventLog. The state has the entries that no call truncated. */
export const eventLog = defineReducer({
  name: 'infinisheet-event-log',
  version: 1,
  // The keys of `snapshots` go down, so that the newest comes first: see `newestFirst`.
  maps: { entries: numberMap<Stored>(), snapshots: numberMap<string>(), pending: numberMap<string>() },
  entries: {
    Add: { 1: z.object({ sequence, entry: stored }) },
    Metadata: { 1: z.object({ sequence, fields: z.partialRecord(z.enum(FIELDS), z.string().nullable()) }) },
    Truncate: { 1: z.object({ sequence }) },
  },
  validate: {
    Add: (_, { body }, state) => checkRange(body.sequence, { ...boundsOf(state), start: boundsOf(state).end }),
    Metadata: (_, { body }, state) => checkRange(body.sequence, { ...boundsOf(state), end: boundsOf(state).end - 1 }),
    Truncate: (_, { body }, state) => checkRange(body.sequence, boundsOf(state)),
  },
  fold: {
    Add(maps, { body }, draft) {
      const { end } = boundsOf(draft);
      draft.meta.set('end', end + 1);
      putEntry(maps, end, body.entry);
    },
    async Metadata(maps, { body }) {
      const entry = await maps.entries.get(body.sequence);
      if (entry !== undefined) putEntry(maps, body.sequence, { ...entry, ...body.fields });
    },
    Truncate({ entries, snapshots, pending }, { body }, draft) {
      const { start, end } = boundsOf(draft);
      const to = Math.min(Math.max(body.sequence, start), end);
      draft.meta.set('start', to);
      for (const map of [entries, pending]) map.deleteRange({ from: start, to });
      snapshots.deleteRange({ from: newestFirst(to) + 1, to: newestFirst(start) + 1 });
    },
  },
});

function checkRange(given: number, { start, end }: Bounds): void {
  if (given < start || given > end) throw new RangeError(`sequence id ${given} is not from ${start} to ${end}`);
}

type Maps = { entries: TypedMap<number, Stored> } & { [name in 'snapshots' | 'pending']: TypedMap<number, string> };

function putEntry({ entries, snapshots, pending }: Maps, at: number, entry: Stored): void {
  const putText = (map: TypedMap<number, string>, key: number, text: Value | undefined) =>
    typeof text === 'string' && text !== '' ? map.put(key, text) : map.delete(key);
  entries.put(at, entry);
  putText(snapshots, newestFirst(at), entry.snapshot);
  putText(pending, at, entry.pending);
}

/**
 * An EventLog on a document that was opened with the reducer {@link eventLog}.
 * @param read gives an entry its type; check it there if others write to the log
 */
export function eventLogOf<T extends LogEntry>(
  document: Document | Promise<Document>,
  read: (entry: { readonly [name: string]: unknown }) => T,
) {
  const change = (entry: () => NewEntry) =>
    answer<void, OutOfRange>(async () => {
      const refused = await append(await document, entry());
      return refused === undefined ? ok() : outOfRange(refused);
    });
  return {
    addEntry: (entry: T, sequenceId: bigint, snapshotId?: bigint) =>
      answer<Newer, Conflict>(async () => {
        const body = { sequence: Number(sequenceId), entry: stored.parse(toValue(entry)) };
        const refused = await append(await document, eventLog.entry('Add', 1, body));
        const { state } = await document;
        if (refused === undefined) return ok(await newerSnapshot(state, snapshotId));
        return err({ type: 'ConflictError', message: refused, nextSequenceId: BigInt(boundsOf(state).end) });
      }),
    setMetadata(sequenceId: bigint, metadata: Metadata) {
      const given = FIELDS.filter((name) => name in metadata).map((name) => [name, metadata[name] ?? null]);
      const body = { sequence: Number(sequenceId), fields: Object.fromEntries(given) };
      return change(() => eventLog.entry('Metadata', 1, body));
    },
    truncate: (start: bigint) => change(() => eventLog.entry('Truncate', 1, { sequence: Number(start) })),
    query: (from: bigint | 'snapshot' | 'start', to: bigint | 'end', snapshotId?: bigint) =>
      answer<Page<T>, OutOfRange>(async () => {
        await (await document).refresh();
        const { state } = await document;
        const { start, end } = boundsOf(state);
        const newest = from === 'snapshot' ? (await newerSnapshot(state, -1n)).lastSnapshot : undefined;
        const first = Number(typeof from === 'bigint' ? from : (newest?.sequenceId ?? start));
        if (first < start || first > end) return outOfRange(`the log does not reach ${first}`);
        const last = to === 'end' ? end : Number(to);
        const page = { from: first, to: Math.min(last, first + PAGE_ENTRIES) };
        const entries = await Array.fromAsync(eventLog.mapsOf(state).entries.items(page));
        return ok({
          ...(await newerSnapshot(state, snapshotId)),
          startSequenceId: BigInt(first),
          endSequenceId: BigInt(first + entries.length),
          isComplete: last - first <= PAGE_ENTRIES,
          entries: entries.map(({ value }) => read(withUndefined(value))),
        });
      }),
  };
}

/** @returns why the reducer refused the entry on the newest state; undefined if the log has it */
async function append(document: Document, entry: NewEntry, isFresh = false): Promise<string | undefined> {
  try {
    return await document.append(entry).then(() => undefined);
  } catch (error) {
    const { cause = undefined } = error instanceof EntryRejectedError ? error : {};
    if (!(cause instanceof RangeError || cause instanceof BodyInvalidError)) throw error;
    return !isFresh && (await document.refresh()) ? append(document, entry, true) : cause.message;
  }
}

/** The newest snapshot if a caller knows another one; nothing if the caller did not ask. */
async function newerSnapshot(state: Document['state'], known: bigint | undefined): Promise<Newer> {
  for await (const { key, value: blobId } of eventLog.mapsOf(state).snapshots.items()) {
    const sequenceId = BigInt(newestFirst(key));
    return known === undefined || sequenceId === known ? {} : { lastSnapshot: { sequenceId, blobId } };
  }
  return {};
}

/** An entry as its writers gave it: a field that was set to undefined is stored as null. */
function withUndefined(entry: Stored): { readonly [name: string]: unknown } {
  return { ...entry, ...Object.fromEntries(FIELDS.flatMap((name) => (entry[name] === null ? [[name]] : []))) };
}

const outOfRange = (message: string) => err<never, OutOfRange>({ type: 'InfinisheetRangeError', message });

function answer<T, E>(work: () => Promise<Result<T, E>>): ResultAsync<T, E | StorageError> {
  const failed = (error: unknown) => err<T, StorageError>({ type: 'StorageError', message: String(error) });
  return new ResultAsync<T, E | StorageError>(work().catch(failed));
}

/**
 * Gives a worker what is pending in a log, one message at a time. The log is the queue: a message
 * comes again, also in another process, until its entry is no longer pending.
 */
export class LogWorkerHost {
  /** Looks for pending entries. Each change of the document does it too. */
  readonly postMessage: () => void;

  constructor(document: Document, worker: Worker, onError: (error: unknown) => void) {
    const deliver = async () => {
      for await (const { key, value: workflow } of eventLog.mapsOf(document.state).pending.items()) {
        const message = { type: 'PendingWorkflowMessage', workflow, sequenceId: BigInt(key) } as const;
        const done = await worker.onReceiveMessage?.(message);
        if (done?.isErr() === true) onError(done.error);
      }
    };
    let work = Promise.resolve();
    this.postMessage = () => {
      work = work.then(deliver).catch(onError);
    };
    document.subscribe(this.postMessage);
    this.postMessage();
  }

  isHost(): this is this {
    return true;
  }
}
