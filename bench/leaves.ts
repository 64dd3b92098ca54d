import { nativePlatform } from '../src/adapters/platform/native.ts';
import { chunkId, packChunk } from '../src/codec/chunk.ts';
import type { State } from '../src/state/state.ts';
import { encodeNode, isLeaf, type Leaf, type Node } from '../src/tree/node.ts';
import type { NodeStore } from '../src/tree/node-store.ts';
import type { Measured } from './measured.ts';
import { Stopwatch } from './stopwatch.ts';
import { openStore, readRoot } from './systems/logfold.ts';

/** The leaves of all maps of a state, but not those of edits that wait. */
export async function* settledLeaves(nodes: NodeStore, state: State): AsyncGenerator<Leaf> {
  for (const { tree } of state.maps.values()) {
    if (tree.top !== undefined) yield* leavesBelow(nodes, tree.top);
  }
}

async function* leavesBelow(nodes: NodeStore, top: Node): AsyncGenerator<Leaf> {
  if (isLeaf(top)) yield top;
  else for (const child of top.children) yield* leavesBelow(nodes, await nodes.load(child));
}

/**
 * What it costs to write every leaf of the newest snapshot once more, as an engine without pending edits does for
 * edits that touch them all.
 * @param into where they are written, so that the snapshot stays as it is
 */
export async function rewriteLeaves(directory: string, into: string): Promise<Measured> {
  const { blobs, nodes } = openStore(directory);
  const { state } = await readRoot(directory, blobs);
  const target = openStore(into).blobs;
  const clock = new Stopwatch();
  for await (const leaf of settledLeaves(nodes, state)) {
    await clock.time(async () => {
      const canonical = encodeNode(leaf);
      const stored = packChunk(nativePlatform, canonical);
      await target.put(chunkId(nativePlatform, canonical), stored);
    });
  }
  const { puts, bytesWritten } = target.usage();
  return { seconds: clock.seconds, bytes: bytesWritten, objects: puts, requests: puts };
}
