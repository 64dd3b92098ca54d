import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { BodiesAhead } from '../log/body.ts';
import type { ClientMutation, Entry } from '../log/entry.ts';
import { type EntrySource, readUpTo } from '../log/read-entries.ts';
import type { FoldEntry, UnplacedEntry } from '../state/reducer.ts';
import type { State } from '../state/state.ts';
import type { BlobStore } from '../store/blob-store.ts';
import type { StateFolder } from './state-folder.ts';

/** An entry of the log that took effect. */
export interface ArrivedEntry {
  readonly id: Uint8Array | undefined;
  readonly once: ClientMutation | undefined;
  readonly entry: UnplacedEntry;
}

/** Entries that a document passed over when it loaded a newer snapshot. */
export interface SkippedRange {
  readonly from: Position;
  readonly to: Position;
  /** The state before them. */
  readonly state: State;
  readonly folder: StateFolder;
  /** Those that took effect, after the first read, unless they are many. */
  stretches?: readonly (readonly ArrivedEntry[])[];
}

/** Entries that a log got between two moments. */
export type LogChange = ArrivedEntry | SkippedRange;

/**
 * A moment of a document. Each knows the next one, so the holder of an older one can catch up.
 * Moments and changes before the oldest one that is held are freed.
 */
export class Arrival {
  #next: { readonly change: LogChange; readonly moment: Arrival } | undefined;

  /** The next moment, and what the log got until then; undefined for the newest. */
  get next(): { readonly change: LogChange; readonly moment: Arrival } | undefined {
    return this.#next;
  }

  /** Adds a change after this moment, which is the newest. @returns the new moment */
  add(change: LogChange): Arrival {
    const moment = new Arrival();
    this.#next = { change, moment };
    return moment;
  }
}

/** Entries of a read or an append, without those that took no effect. */
export function arrivedEntries(entries: readonly Entry[], folded: readonly FoldEntry[]): ArrivedEntry[] {
  let i = 0;
  return folded.map(({ position, type, version, body }) => {
    let stored = entries[i];
    while (stored !== undefined && comparePositions(stored.position, position) !== 0) stored = entries[++i];
    return { id: stored?.id, once: stored?.once, entry: { type, version, body } };
  });
}

/** The most stretches of skipped entries that are held at one time. */
export const MAX_HELD_STRETCHES = 100;

/**
 * Reads entries that a document passed over, in stretches: a page, or less up to a large body.
 * Requests several large bodies concurrently. Reads them once, unless they are many.
 * @throws EntryGapError if they have expired
 * @throws ChunkMissingError if chunks of the state before them are gone
 * @throws the errors of {@link BodiesAhead.load}
 */
export async function* readSkipped(
  source: EntrySource & { readonly blobs: BlobStore },
  log: LogId,
  range: SkippedRange,
): AsyncGenerator<readonly ArrivedEntry[]> {
  if (range.stretches !== undefined) return yield* range.stretches;
  const { from, to } = range;
  const isEffective = effectiveAfter(range);
  const held: (readonly ArrivedEntry[])[] = [];
  for await (const page of readUpTo(source, log, { from, to })) {
    const entries: Entry[] = [];
    for (const entry of page) if (!source.types.includes(entry.type) && (await isEffective(entry))) entries.push(entry);
    const bodies = new BodiesAhead(
      source.blobs,
      entries.filter(({ external }) => external !== undefined),
    );
    let stretch: ArrivedEntry[] = [];
    for (const entry of entries) {
      const { id, once, type, version } = entry;
      stretch.push({ id, once, entry: { type, version, body: await bodies.load(entry) } });
      if (entry.external === undefined && entry !== entries.at(-1)) continue;
      yield stretch;
      if (held.length <= MAX_HELD_STRETCHES) held.push(stretch);
      stretch = [];
    }
  }
  if (held.length <= MAX_HELD_STRETCHES) range.stretches = held;
}

/** Tells whether the next entry takes effect, as a fold of all entries after a state would. */
function effectiveAfter({ state, folder }: SkippedRange): (entry: Entry) => Promise<boolean> {
  const applied = new Map<string, number>();
  return async ({ once }) => {
    if (once === undefined) return true;
    const { client, mutation } = once;
    if (mutation <= (applied.get(client) ?? (await folder.highestMutation(state, client)))) return false;
    applied.set(client, mutation);
    return true;
  };
}
