import type { State } from '../state/state.ts';
import type { BufferedTree } from '../tree/buffered-tree.ts';
import { isLeaf } from '../tree/node.ts';
import { treeCount } from '../tree/tree.ts';

/** Why a map is due for settling: see {@link flushDue}. */
export type FlushReason = 'waiting share' | 'waiting depth' | 'waiting chunks';

/** A map that is due for settling, and why. */
export interface FlushDue {
  readonly map: string;
  readonly reason: FlushReason;
}

/** Edits may wait for at most one item in so many. */
export const ITEMS_PER_BUFFERED_EDIT = 8;

/**
 * How many chunks of one map's edits may wait. A snapshot whose edits are scattered writes all of them anew, so this
 * bounds what it writes besides leaves: at 45 kB each less than 3 MB, in four rounds of 16 PUTs, for $0.0003 by S3's
 * list prices. Edits wait for up to a seventh of a leaf, so a map in which so many chunks wait has some 450 leaves, and
 * settling it costs $0.0023: as much as seven such snapshots. Where 10,000 edits add a chunk it comes once in 64.
 */
export const MAX_BUFFER_CHUNKS = 64;

/**
 * Whether what waits in a state is worth settling: the first of its maps for which one of these holds, and which.
 *
 * - `waiting share`: more than one item in eight waits. A reader of the whole map reads them on top of it, and how many
 *   items there are is known no better than that. The threshold of a leaf alone lets a seventh of its bytes wait, and
 *   many more items than that where they are deletions, which take less room than what they delete.
 * - `waiting depth`: below the node that travels in the root there are two levels or more of waiting edits. Reading a
 *   key or a short range then fetches more than one chunk of them.
 * - `waiting chunks`: more than {@link MAX_BUFFER_CHUNKS}.
 *
 * Looks at nothing but the tops, which a root carries.
 * @returns undefined where it is not
 */
export function flushDue({ maps }: State): FlushDue | undefined {
  for (const [map, layers] of maps) {
    const reason = dueReason(layers);
    if (reason !== undefined) return { map, reason };
  }
  return undefined;
}

function dueReason({ tree, buffer }: BufferedTree): FlushReason | undefined {
  const top = buffer.top;
  if (top === undefined) return undefined;
  if (treeCount(buffer) * ITEMS_PER_BUFFERED_EDIT > treeCount(tree)) return 'waiting share';
  if (top.level > 1) return 'waiting depth';
  if (!isLeaf(top) && top.children.length > MAX_BUFFER_CHUNKS) return 'waiting chunks';
  return undefined;
}

/** How many edits wait in a state. */
export function bufferedEdits({ maps }: State): number {
  let total = 0;
  for (const { buffer } of maps.values()) total += treeCount(buffer);
  return total;
}
