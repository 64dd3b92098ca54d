import type { LogId } from '../../ids/log-id.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import { guardArchive } from '../../log/guard.ts';
import type { LogReader } from '../../log/log-store.ts';
import { mayLackEntries, type Segment } from '../../log/segment.ts';
import type { BlobInfo } from '../../store/blob-store.ts';
import type { Reaper } from './reaper.ts';

/** Milliseconds for errors of clients' clocks, and for the time between an upload and its entry. */
const WINDOW_MS = 48 * 3600 * 1000;

/** Knowledge from before bodies are listed. */
export interface KnownBodies {
  readonly segments: readonly Segment[];
  /** Bodies that entries in the table name. */
  readonly externals: ReadonlySet<string>;
  /**
   * An earlier collection has checked the bodies that were written before this time. Epoch
   * milliseconds.
   */
  readonly seen: number;
  readonly reaper: Reaper;
}

/**
 * Tells which external bodies are kept without a look into archives: bodies that entries in the
 * table name, young bodies, and bodies that an earlier collection found named, because names are
 * permanent. Keeps all bodies of a log of which another program archived a segment.
 */
export function keptBodies({ segments, externals, seen, reaper }: KnownBodies): (body: BlobInfo) => boolean {
  // If entries expired without an archive, their bodies have lost their names.
  const forgets = segments.some(mayLackEntries);
  // The entries in an archive of another program may name any body.
  const keepsAll = segments.some((segment) => guardArchive(segment) !== undefined);
  return (body) => {
    if (keepsAll) return true;
    const isNew = forgets || body.modified >= seen || reaper.wasCondemned(body);
    return !isNew || externals.has(body.key) || !reaper.isOld(body);
  };
}

/**
 * Judges the bodies that archived entries do not name either, and keeps the others.
 * @param segments all of the log, in ascending order
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
 * Removes from `bodies` those that an entry of an archived segment names. A segment is skipped if
 * it was created after all bodies were written, by the clocks of two clients: the client that
 * created it, and the one that created the previous segment. All older segments are read, because a
 * body from a backup or a copied bucket is newer than its entry.
 * @param bodies by key; afterwards it has the bodies without a name
 */
async function dropArchivedBodies(
  store: LogReader,
  { log, segments }: { readonly log: LogId; readonly segments: readonly Segment[] },
  bodies: Map<string, BlobInfo>,
): Promise<void> {
  let before = 0;
  for (const { segment, archive, created } of segments) {
    // If one client's clock is days ahead, the creation time of the segment before limits the
    // error.
    const from = Math.min(created, before) * 1000 - WINDOW_MS;
    before = created;
    if (archive === undefined) continue;
    if (!bodies.values().some(({ modified }) => modified >= from)) continue;
    for await (const page of store.items(log, { segment, from: 0, to: MAX_NUMBER + 1 }, { consistent: true })) {
      for (const { E } of page) if (E?.S !== undefined) bodies.delete(E.S);
    }
  }
}
