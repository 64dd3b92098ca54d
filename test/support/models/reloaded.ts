import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { decodeRoot, encodeRoot } from '../../../src/snapshot/root.ts';
import { type State, saveState } from '../../../src/state/state.ts';
import type { NodeStore } from '../../../src/tree/node-store.ts';
import { LOG } from '../logs.ts';

/** The state that another process loads from a snapshot of this one. */
export async function reloaded(nodes: NodeStore, state: State, entry: number): Promise<State> {
  await saveState(nodes, state);
  const position = { segment: 0, entry };
  const reducer = { name: 'random', version: 1 };
  const { id, stored } = encodeRoot(nativePlatform, { log: LOG, position, reducer, state });
  return decodeRoot(nativePlatform, stored, { log: LOG, position, id }).state;
}
