import type { LogId } from '../../../src/ids/log-id.ts';
import { comparePositions, type Position } from '../../../src/ids/position.ts';
import type { SheetEdit } from '../../../src/state/spreadsheet/reducer.ts';
import { foldPlainly } from '../models/versioned-sheet.ts';
import type { RecordedEntry } from '../stores/recorded-log-store.ts';
import type { World } from './world.ts';

export interface PoisonedAt {
  readonly position: Position;
  readonly code: string;
}

/** The first entry of a log that a version of the reducer cannot fold. */
export function firstPoison(world: World, log: LogId, version = world.version): PoisonedAt | undefined {
  let expected: Position = { segment: 0, entry: 0 };
  let hasEnded = false;
  for (const { entry } of world.tables.history(log)) {
    if (entry.position.segment > expected.segment && hasEnded) expected = { segment: expected.segment + 1, entry: 0 };
    hasEnded = entry.type === world.types.endSegment;
    if (comparePositions(entry.position, expected) !== 0) return { position: expected, code: 'ENTRY_GAP' };
    const poison = world.poisons.get(entry.created);
    if (poison !== undefined && version < poison.curedBy) return { position: entry.position, code: poison.code };
    expected = { segment: expected.segment, entry: expected.entry + 1 };
  }
  return undefined;
}

/**
 * Whether an error or a stop names the poison. If the first item of a mapped log is missing, some
 * reads show the virtual entry beside it, and others do not.
 */
export function namesPoison(
  { mapped }: World,
  { code, position }: PoisonedAt,
  named: {
    readonly code: string;
    readonly segment?: number | null | undefined;
    readonly entry?: number | null | undefined;
  },
): boolean {
  if (named.code !== code || named.segment !== position.segment) return false;
  return (
    named.entry === position.entry ||
    (mapped !== undefined && code === 'ENTRY_GAP' && named.entry === position.entry + 1)
  );
}

/** Whether every version of the reducer can fold the log. */
export function isHealthy(world: World, log: LogId): boolean {
  return firstPoison(world, log, 1) === undefined;
}

/** Whether no process of the application ever wrote an item of the mapped log. */
export function isUnwritten({ mapped }: World, log: LogId): boolean {
  return mapped !== undefined && mapped.application.written(log).length === 0;
}

/**
 * The sheet after some entries of a log. Computed with the plain model from the clients' edits, not
 * from stored bodies.
 */
export function rowsAfter(world: World, entries: readonly RecordedEntry[], version: number): string[][] {
  const applied = new Map<string, number>();
  const edits = entries.map(({ entry: { once, created, type } }) => {
    // A Snapshot entry has the time of the entry that it was appended with.
    if (world.types.includes(type)) return undefined;
    if (once !== undefined && once.mutation <= (applied.get(once.client) ?? 0)) return undefined;
    if (once !== undefined) applied.set(once.client, once.mutation);
    return world.edits.get(created);
  });
  return foldPlainly(
    edits.filter((edit): edit is SheetEdit => edit !== undefined),
    version,
  );
}

/** The highest mutation of each client among some entries of a log. */
export function mutationsAfter(entries: readonly RecordedEntry[]): Record<string, number> {
  const highest = new Map<string, number>();
  for (const { entry } of entries) {
    if (entry.once === undefined) continue;
    const { client, mutation } = entry.once;
    highest.set(client, Math.max(mutation, highest.get(client) ?? 0));
  }
  return Object.fromEntries(highest);
}

/** A log's entries before a position. */
export function entriesBefore(world: World, log: LogId, position: Position): RecordedEntry[] {
  return world.tables.history(log).filter(({ entry }) => comparePositions(entry.position, position) < 0);
}

/** Positions of a log's Snapshot entries, in order. */
export function snapshotEntries(world: World, log: LogId): Position[] {
  const history = world.tables.history(log);
  return history.filter(({ entry }) => entry.type === world.types.snapshot).map(({ entry }) => entry.position);
}
