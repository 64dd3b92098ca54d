import { EntryNotFoundError, LogfoldError, MessageInvalidError, SnapshotMismatchError } from '../errors.ts';
import { RESERVED_TYPES } from '../log/entry.ts';
import { formatPosition, type Position } from '../log/position.ts';
import { type RootRef, rootOf } from '../log/root-ref.ts';
import { type BuildDeps, type Built, buildState, otherReducer } from '../snapshot/build.ts';
import { encodeRoot, type Root } from '../snapshot/root.ts';
import { loadRoot, saveRoot } from '../snapshot/snapshots.ts';
import { clearStop, contains, readStop, type Stop, stopHolds, writeStop } from '../snapshot/stop.ts';
import { equalBytes } from '../tree/bytes.ts';
import type { SnapshotJob } from './job.ts';

export interface SnapshotDeps extends BuildDeps {
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** How a snapshot job ended. */
export type SnapshotResult =
  | {
      readonly outcome: 'built';
      readonly position: Position;
      /** Undefined where edits wait: see {@link stateHash}. */
      readonly stateHash: string | undefined;
      /** The snapshot it was built from; undefined where it was built from the log's beginning. */
      readonly base: Position | undefined;
      readonly rebuiltBecause?: string | undefined;
      readonly entries: number;
      readonly chunksWritten: number;
      readonly bytesWritten: number;
      readonly rootBytes: number;
    }
  | { readonly outcome: 'present'; readonly position: Position }
  | { readonly outcome: 'stopped'; readonly position: Position; readonly stop: Stop };

/**
 * Completes the snapshot that a Snapshot entry asks for: builds it, writes its chunks, then its root, then the root's
 * name onto the entry, then moves Last Snapshot. Each step leaves everything before it right, and may be done twice or
 * beside its twin, so a job that died anywhere is simply done again. What is wrong with the log itself stops the log.
 * @throws whatever may pass: the job is to be delivered again
 */
export async function completeSnapshot(deps: SnapshotDeps, job: SnapshotJob): Promise<SnapshotResult> {
  const { log, position } = job;
  const stop = await readStop(deps.blobs, log);
  if (stop !== undefined && stopHolds(stop, deps.reducer, position)) return { outcome: 'stopped', position, stop };
  try {
    const result = await complete(deps, job);
    if (stop !== undefined && contains(position, stop)) await clearStop(deps.blobs, log);
    return result;
  } catch (error) {
    if (!(error instanceof LogfoldError && error.stopsLog)) throw error;
    const written = await writeStop(deps.blobs, log, {
      error: error.at({ log }),
      reducer: deps.reducer,
      since: deps.now(),
    });
    return { outcome: 'stopped', position, stop: written };
  }
}

async function complete(deps: SnapshotDeps, { log, position }: SnapshotJob): Promise<SnapshotResult> {
  const where = { log, ...position };
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  if (entry === undefined) {
    throw new EntryNotFoundError('a snapshot is asked for at an entry that does not exist', {
      ...where,
      advice: 'The log or its segment was removed, or the job belongs to another deployment',
    });
  }
  if (entry.type !== (deps.types ?? RESERVED_TYPES).snapshot) {
    throw new MessageInvalidError(`a snapshot is asked for at an entry of type '${entry.type}'`, {
      ...where,
      advice: 'Check that router and worker are configured with the same type names',
    });
  }
  if (rootOf(entry) !== undefined) {
    await deps.store.advanceLastSnapshot(log, position);
    return { outcome: 'present', position };
  }
  const built = await buildState(deps, log, { at: position });
  const encoded = encodeRoot(deps.platform, built.root);
  const ref = await saveRoot(deps.blobs, { log, position }, encoded);
  const carried = await deps.store.completeSnapshot(log, position, ref);
  const twin = sameRef(ref, carried) ? undefined : await loadRoot(deps, { log, position }, carried);
  // While a new version is being deployed the twin may be of the old one: its snapshot stands, as a finished one does.
  if (twin !== undefined && otherReducer(twin, deps.reducer) === undefined) {
    if (differs(twin, built.root)) throw mismatch(built, twin.stateHash);
  }
  await deps.store.advanceLastSnapshot(log, position);
  if (twin !== undefined) return { outcome: 'present', position };
  return {
    outcome: 'built',
    position,
    stateHash: built.root.stateHash,
    base: built.base,
    rebuiltBecause: built.rebuiltBecause,
    entries: built.entries,
    chunksWritten: built.chunks.written,
    bytesWritten: built.chunks.bytesWritten,
    rootBytes: encoded.stored.length,
  };
}

function sameRef(a: RootRef, b: RootRef): boolean {
  if ('key' in a) return 'key' in b && a.key === b.key;
  return 'inline' in b && equalBytes(a.inline, b.inline);
}

/** Whether two roots surely say different states; where edits wait in one, only a replay can tell. */
function differs(a: Root, b: Root): boolean {
  return a.stateHash !== undefined && b.stateHash !== undefined && a.stateHash !== b.stateHash;
}

function mismatch(built: Built, other: string | undefined): SnapshotMismatchError {
  const { log, position } = built.root;
  return new SnapshotMismatchError(
    `two builds of the snapshot at ${formatPosition(position)} have different states: ${built.root.stateHash} and ${other}`,
    {
      log,
      ...position,
      advice: 'The reducer is not deterministic, or stored objects were changed: replay the log to see which is right',
    },
  );
}
