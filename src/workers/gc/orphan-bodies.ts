import type { LogId } from '../../ids/log-id.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { LogReader } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import type { BlobInfo } from '../../store/blob-store.ts';
import type { Reaper } from './reaper.ts';

/** By how much, in milliseconds, clients' clocks may be wrong, and how long they may take to name what they uploaded. */
const WINDOW_MS = 48 * 3600 * 1000;

/** What is known before bodies are listed. */
export interface KnownBodies {
  readonly segments: readonly Segment[];
  /** Those that entries in the table name. */
  readonly externals: ReadonlySet<string>;
  /** Those that were written before this moment, an earlier collection has looked at. */
  readonly seen: number;
  readonly reaper: Reaper;
}

/**
 * Tells which external bodies stay without another look for now: those that are named, or too young. Whatever an earlier
 * collection found named, is named for ever.
 */
export function settledBodies({ segments, externals, seen, reaper }: KnownBodies): (body: BlobInfo) => boolean {
  // Entries that left the table without an archive took the names of their bodies with them.
  const forgets = segments.some(({ archive, expires }) => archive === undefined && expires !== undefined);
  return (body) => {
    const isNew = forgets || body.modified >= seen || reaper.wasCondemned(body);
    return !isNew || externals.has(body.key) || !reaper.isOld(body);
  };
}

/**
 * Judges those bodies that no archived entry names either.
 * @param segments all of the log, ascending
 */
export async function judgeBodies(
  store: LogReader,
  { log, segments }: { readonly log: LogId; readonly segments: readonly Segment[] },
  { bodies, reaper }: { readonly bodies: readonly BlobInfo[]; readonly reaper: Reaper },
): Promise<void> {
  const unnamed = new Map(bodies.map((body) => [body.key, body]));
  await dropArchivedBodies(store, { log, segments }, unnamed);
  for (const body of bodies) {
    if (unnamed.has(body.key)) await reaper.judge(body);
    else reaper.keep(body);
  }
}

/**
 * Takes those bodies out of `bodies` that an entry of an archived segment names. A segment that was begun only after
 * all of them were written is not read, if the clocks say so of two clients: of who began it, and of who began the one
 * before. Older ones all are: a body that was put back from a backup, or copied with its bucket, was written long after
 * it was named.
 * @param bodies by key; those that are left are named by nobody
 */
async function dropArchivedBodies(
  store: LogReader,
  { log, segments }: { readonly log: LogId; readonly segments: readonly Segment[] },
  bodies: Map<string, BlobInfo>,
): Promise<void> {
  let before = 0;
  for (const { segment, archive, created } of segments) {
    // A clock that is days ahead would hide what is older than it says; the segment before was begun earlier still.
    const from = Math.min(created, before) * 1000 - WINDOW_MS;
    before = created;
    if (archive === undefined) continue;
    if (!bodies.values().some(({ modified }) => modified >= from)) continue;
    for await (const page of store.items(log, { segment, from: 0, to: MAX_NUMBER + 1 }, { consistent: true })) {
      for (const { E } of page) if (E?.S !== undefined) bodies.delete(E.S);
    }
  }
}
