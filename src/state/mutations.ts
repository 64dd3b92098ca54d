import type { ClientMutation } from '../log/entry.ts';
import { getMerged } from '../tree/buffered-tree.ts';
import type { NodeStore } from '../tree/node-store.ts';
import type { Draft } from './draft.ts';
import { MUTATIONS_MAP, type State } from './state.ts';

/**
 * The highest mutation of a client that a state has applied; 0 if there is none. A client that
 * continues after a crash appends only higher ones. Fetches one leaf at most.
 */
export async function appliedMutation(store: NodeStore, state: State, client: string): Promise<number> {
  const map = state.maps.get(MUTATIONS_MAP);
  return Number((map && (await getMerged(store, map, client))) ?? 0);
}

/**
 * Records a mutation as applied, unless the draft has applied this or a later mutation of the
 * client.
 * @returns whether the entry with the mutation takes effect
 */
export async function applyMutation({ mutations }: Draft, { client, mutation }: ClientMutation): Promise<boolean> {
  if (mutation <= Number((await mutations.get(client)) ?? 0)) return false;
  mutations.put(client, mutation);
  return true;
}
