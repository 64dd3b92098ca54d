import type { State } from '../state/state.ts';
import type { BufferedTree } from '../tree/buffered-tree.ts';
import { isLeaf } from '../tree/node.ts';
import { treeCount } from '../tree/tree.ts';

/** Why a map is due for a flush: see {@link flushDue}. */
export type FlushReason = 'buffer share' | 'buffer depth' | 'buffer chunks';

/** A map that is due for a flush, with the reason. */
export interface FlushDue {
  readonly map: string;
  readonly reason: FlushReason;
}

/** A map may buffer at most one edit per this many items. */
export const ITEMS_PER_BUFFERED_EDIT = 8;

/**
 * The most chunks in the write buffer of one map. A snapshot with scattered edits rewrites all of
 * them, so this bounds what a snapshot writes besides leaves. At 45 kB each, the chunks take less
 * than 3 MB, in four rounds of 16 PUTs, for $0.0003 at S3's list prices.
 *
 * The buffer holds up to a seventh of a leaf for each leaf. So a map with this many buffer chunks
 * has some 450 leaves, and a flush costs $0.0023, as much as seven such snapshots. If 10,000 edits
 * add a chunk, a flush comes once in 64 snapshots.
 */
export const MAX_BUFFER_CHUNKS = 64;

/**
 * The first map of a state whose write buffer is worth a flush, with the reason:
 *
 * - `buffer share`: the buffer has more than one edit per eight items. A reader of the whole map
 *   reads the buffer too, and the number of items is only known up to the number of edits. The
 *   threshold of a leaf alone allows a seventh of its bytes in the buffer. These may be many more
 *   edits if they are deletions, which take less room than the items they delete.
 * - `buffer depth`: the buffer has two or more levels below its top. Reading a key or a short range
 *   then fetches more than one chunk of it.
 * - `buffer chunks`: the buffer has more than {@link MAX_BUFFER_CHUNKS}.
 *
 * Looks only at the tops, which the root contains.
 * @returns undefined if no map is due
 */
export function flushDue({ maps }: State): FlushDue | undefined {
  for (const [map, buffered] of maps) {
    const reason = dueReason(buffered);
    if (reason !== undefined) return { map, reason };
  }
  return undefined;
}

function dueReason({ tree, buffer }: BufferedTree): FlushReason | undefined {
  const top = buffer.top;
  if (top === undefined) return undefined;
  if (treeCount(buffer) * ITEMS_PER_BUFFERED_EDIT > treeCount(tree)) return 'buffer share';
  if (top.level > 1) return 'buffer depth';
  if (!isLeaf(top) && top.children.length > MAX_BUFFER_CHUNKS) return 'buffer chunks';
  return undefined;
}

/** Number of buffered edits in a state. */
export function bufferedEdits({ maps }: State): number {
  let total = 0;
  for (const { buffer } of maps.values()) total += treeCount(buffer);
  return total;
}
