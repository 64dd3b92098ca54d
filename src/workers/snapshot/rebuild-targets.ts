import { openArchive } from '../../archive/reader.ts';
import { ArchiveCorruptError, ArchiveMissingError, EntryGapError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, MAX_NUMBER, type Position, START } from '../../ids/position.ts';
import { type Entry, rootOf } from '../../log/entry.ts';
import { guardArchive, guardPointer, guardRoot, type OnForeign } from '../../log/guard.ts';
import { snapshotEntries } from '../../log/read-entries.ts';
import type { LastSnapshot, Segment } from '../../log/segment.ts';
import { rearchiveSegment } from '../retention/archive-segment.ts';
import type { ArchiveDeps } from '../retention/write-archive.ts';
import type { SnapshotDeps } from './build-snapshot.ts';
import { requireSnapshotEntry } from './snapshot-entry.ts';

type RebuildTargetDeps = SnapshotDeps & Pick<ArchiveDeps, 'tables' | 'random'>;

export interface RebuildTarget extends Pick<Entry, 'position' | 'created'> {
  /** Its segment, if the segment is archived. */
  readonly archived?: Segment;
  /** The body that another program wrote onto the Snapshot entry. */
  readonly replaces?: ReturnType<typeof guardRoot>;
  /** Last Snapshot of the segment, if logfold wrote it. */
  readonly last?: LastSnapshot | undefined;
}

/**
 * The snapshots to rebuild after a position, in order. In a scheduled log these are the complete
 * ones and the newest: nothing asked for the others, and there may be one for every few items.
 * Reads each archive completely before entries of its segment are folded.
 * @param pass called for what another program wrote and the rebuild leaves alone
 */
export async function* rebuildTargets(
  deps: RebuildTargetDeps,
  { log, segments }: { readonly log: LogId; readonly segments: readonly Segment[] },
  { after, pass }: { readonly after: Position | undefined; readonly pass: OnForeign },
): AsyncGenerator<RebuildTarget> {
  const { types, replaceForeign = false } = deps;
  for (const segment of segments) {
    if (segment.segment < (after?.segment ?? 0)) continue;
    const from = segment.segment === after?.segment ? after.entry + 1 : 0;
    if (segment.archive !== undefined) {
      const archived = await requireArchive(deps, segment);
      const { position } = archived.lastSnapshot ?? {};
      if (position === undefined || position.entry < from) continue;
      const { created } = await requireSnapshotEntry(deps, { log, position });
      yield { position, created, archived };
      continue;
    }
    const archive = guardArchive(segment);
    if (archive !== undefined) {
      pass(archive);
      continue;
    }
    const pointer = await guardPointer(deps.store, segment);
    const isPending = pointer?.entry !== undefined && (await isPendingSnapshot(deps, log, segment));
    if (pointer !== undefined && !isPending && !replaceForeign) {
      pass(pointer);
      continue;
    }
    const last = pointer === undefined || isPending ? segment.lastSnapshot : undefined;
    const range = { segment: segment.segment, from, to: MAX_NUMBER + 1 };
    const entries: (RebuildTarget & { readonly isAsked: boolean })[] = [];
    const found = snapshotEntries({ store: deps.store, types }, log, range, { consistent: true });
    for await (const entry of found) {
      const { position, created } = entry;
      const replaces = guardRoot(entry);
      if (replaces !== undefined && !replaceForeign) pass(replaces);
      else {
        const isAsked =
          replaces !== undefined ||
          rootOf(entry) !== undefined ||
          position.entry === segment.lastSnapshot?.position.entry;
        entries.push({ position, created, replaces, isAsked, last });
      }
    }
    const newest = segment === segments.at(-1) ? entries.at(-1) : undefined;
    for (const entry of entries) {
      // The state before the first item of a scheduled log is empty.
      const isNewest = entry === newest && comparePositions(entry.position, START) > 0;
      if (segment.schedule === undefined || entry.isAsked || isNewest) yield entry;
    }
  }
}

/** Whether Last Snapshot names a pending snapshot, which a rebuild completes. */
async function isPendingSnapshot({ store, types }: RebuildTargetDeps, log: LogId, segment: Segment): Promise<boolean> {
  const position = segment.lastSnapshot?.position;
  const entry = position && (await store.getEntry(log, position, { consistent: true }));
  return entry?.type === types.snapshot && guardRoot(entry) === undefined;
}

/**
 * Reads a segment's archive completely. If it is missing or damaged, writes it again from the
 * table.
 * @returns the current segment
 * @throws ArchiveMissingError, ArchiveCorruptError if the table lacks entries of the segment
 */
async function requireArchive(deps: RebuildTargetDeps, segment: Segment): Promise<Segment> {
  try {
    const archive = await openArchive(deps, segment);
    for await (const items of archive.items(0, archive.end)) items.length;
    return segment;
  } catch (lost) {
    if (!(lost instanceof ArchiveMissingError || lost instanceof ArchiveCorruptError)) throw lost;
    try {
      return await rearchiveSegment(deps, segment, { source: deps.tables });
    } catch (error) {
      throw error instanceof EntryGapError ? lost : error;
    }
  }
}
