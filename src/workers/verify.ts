import { LogfoldError } from '../errors.ts';
import { RESERVED_TYPES, type ReservedTypes } from '../log/entry.ts';
import type { LogId } from '../log/log-id.ts';
import { formatPosition, type Position, START } from '../log/position.ts';
import { readEntries } from '../log/read-entries.ts';
import { rootOf } from '../log/root-ref.ts';
import { loadRoot, nodeStore, type SnapshotStores } from '../snapshot/snapshots.ts';
import { stateTops } from '../state/state.ts';
import { at } from '../tree/array.ts';
import type { ChunkId } from '../tree/chunk.ts';
import { isLeaf, type Node, valueBytes } from '../tree/node.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { referencedId } from '../tree/read.ts';

export interface VerifyDeps extends SnapshotStores {
  readonly types?: ReservedTypes | undefined;
  /** Called as chunks are checked, with their number so far. */
  readonly onProgress?: ((chunks: number) => void) | undefined;
}

/** Something of a snapshot that is missing or damaged. */
export interface Problem {
  readonly snapshot: Position;
  /** The chunk's id, or undefined where it is the root. */
  readonly chunk: ChunkId | undefined;
  readonly code: string;
  readonly message: string;
}

export interface Verified {
  readonly snapshots: number;
  /** Different chunks that were read and hash to their names. */
  readonly chunks: number;
  readonly bytes: number;
  readonly problems: readonly Problem[];
}

/**
 * Reads every chunk of every completed snapshot of a log once, and checks that it is there and hashes to its name. Goes
 * on after a problem, so that all of them are known.
 */
export async function verify(deps: VerifyDeps, log: LogId): Promise<Verified> {
  const nodes = nodeStore(deps, log);
  const seen = new Set<ChunkId>();
  const problems: Problem[] = [];
  let snapshots = 0;
  const types = deps.types ?? RESERVED_TYPES;
  for await (const page of readEntries({ store: deps.store, types }, log, { from: START, to: 'end' })) {
    for (const entry of page) {
      const ref = entry.type === types.snapshot ? rootOf(entry) : undefined;
      if (ref === undefined) continue;
      snapshots++;
      const check = async (chunk: ChunkId | undefined, read: () => Promise<void>): Promise<void> => {
        try {
          await read();
        } catch (error) {
          if (!(error instanceof LogfoldError && error.stopsLog)) throw error;
          problems.push({ snapshot: entry.position, chunk, code: error.code, message: error.message });
        }
      };
      await check(undefined, async () => {
        const root = await loadRoot(deps, { log, position: entry.position }, ref);
        for (const top of stateTops(root.state)) await checkBelow(nodes, top, seen, check);
      });
      deps.onProgress?.(nodes.counts.read);
    }
  }
  return { snapshots, chunks: nodes.counts.read, bytes: nodes.counts.bytesRead, problems };
}

type Check = (chunk: ChunkId, read: () => Promise<void>) => Promise<void>;

async function checkBelow(nodes: NodeStore, node: Node, seen: Set<ChunkId>, check: Check): Promise<void> {
  if (isLeaf(node)) {
    for (let i = 0; i < node.keys.length; i++) {
      const id = referencedId(valueBytes(node, i));
      if (id === undefined || seen.has(id)) continue;
      seen.add(id);
      await check(id, async () => {
        await nodes.loadValue(id);
      });
    }
    return;
  }
  for (let i = 0; i < node.children.length; i++) {
    const child = at(node.children, i);
    if (child.id === undefined || seen.has(child.id)) continue;
    seen.add(child.id);
    await check(child.id, async () => checkBelow(nodes, await nodes.load(child), seen, check));
  }
}

/** One line for a person. */
export function describeProblem({ snapshot, chunk, code, message }: Problem): string {
  return `snapshot ${formatPosition(snapshot)}, ${chunk === undefined ? 'root' : `chunk ${chunk}`}: ${code}: ${message}`;
}
