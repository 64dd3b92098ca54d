import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { loadBody } from '../log/body.ts';
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
  /** Those that took effect, after the first read. */
  entries?: readonly ArrivedEntry[];
}

/**
 * A moment of a document: what its log got since the moment before. Each moment knows the next one,
 * so the holder of an older one can catch up. Moments before the oldest one that is held are freed.
 */
export class Arrival {
  readonly change: ArrivedEntry | SkippedRange | undefined;
  #next: Arrival | undefined;

  constructor(change?: ArrivedEntry | SkippedRange) {
    this.change = change;
  }

  get next(): Arrival | undefined {
    return this.#next;
  }

  /** Adds a change after this moment, which is the newest. @returns the new moment */
  add(change: ArrivedEntry | SkippedRange): Arrival {
    this.#next = new Arrival(change);
    return this.#next;
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

/**
 * Reads entries that a document passed over, once.
 * @throws EntryGapError if they have expired
 * @throws ChunkMissingError if chunks of the state before them are gone
 * @throws the errors of {@link loadBody}
 */
export async function readSkippedRange(
  source: EntrySource & { readonly blobs: BlobStore },
  log: LogId,
  range: SkippedRange,
): Promise<readonly ArrivedEntry[]> {
  if (range.entries !== undefined) return range.entries;
  const { from, to, state, folder } = range;
  const applied = new Map<string, number>();
  const arrived: ArrivedEntry[] = [];
  for await (const page of readUpTo(source, log, { from, to })) {
    for (const entry of page) {
      const { id, once, type, version } = entry;
      if (source.types.includes(type)) continue;
      if (once !== undefined) {
        const { client, mutation } = once;
        if (mutation <= (applied.get(client) ?? (await folder.highestMutation(state, client)))) continue;
        applied.set(client, mutation);
      }
      arrived.push({ id, once, entry: { type, version, body: await loadBody(source.blobs, entry) } });
    }
  }
  range.entries = arrived;
  return arrived;
}
