import { nativePlatform } from '../src/adapters/platform/native.ts';
import { chunkId, packChunk } from '../src/codec/chunk.ts';
import type { State } from '../src/state/state.ts';
import { encodeNode, isLeaf, type Leaf, type Node } from '../src/tree/node.ts';
import type { NodeStore } from '../src/tree/node-store.ts';
import type { Measured } from './measured.ts';
import { Stopwatch } from './stopwatch.ts';
import { openStore, readRoot } from './systems/logfold.ts';

/** The leaves of the trees of all maps, without buffered edits. */
export async function* treeLeaves(nodes: NodeStore, state: State): AsyncGenerator<Leaf> {
  for (const { tree } of state.maps.values()) {
    if (tree.top !== undefined) yield* leavesBelow(nodes, tree.top);
  }
}

async function* leavesBelow(nodes: NodeStore, top: Node): AsyncGenerator<Leaf> {
  if (isLeaf(top)) yield top;
  else for (const child of top.children) yield* leavesBelow(nodes, await nodes.load(child));
}

/**
 * Measures how long it takes to write every leaf of the newest snapshot again. An engine without a
 * write buffer does so for edits that touch all leaves.
 * @param into the directory for the leaves, so that the snapshot does not change
 */
export async function rewriteLeaves(directory: string, into: string): Promise<Measured> {
  const { blobs, nodes } = openStore(directory);
  const { state } = await readRoot(directory, blobs);
  const target = openStore(into).blobs;
  const clock = new Stopwatch();
  for await (const leaf of treeLeaves(nodes, state)) {
    await clock.time(async () => {
      const canonical = encodeNode(leaf);
      const stored = packChunk(nativePlatform, canonical);
      await target.put(chunkId(nativePlatform, canonical), stored);
    });
  }
  const { puts, bytesWritten } = target.usage();
  return { seconds: clock.seconds, cpuSeconds: clock.cpuSeconds, bytes: bytesWritten, objects: puts, requests: puts };
}
