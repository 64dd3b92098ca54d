import { SourceChangedError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition } from '../ids/position.ts';
import { plainItem, type StoredItem } from './attribute.ts';
import { type CompletedSnapshot, completedSnapshot, type Entry, snapshotStatus } from './entry.ts';
import type { AttributeRemover, EntryReader } from './log-store.ts';
import { coveredEntries, mayLackEntries, type Segment } from './segment.ts';

/**
 * Something that another program wrote where logfold writes its own, and that does not have
 * logfold's form. It is the archive of a segment (`A`), its Last Snapshot (`L`), or the root on a
 * Snapshot entry (`B` or `E`). logfold leaves it alone and passes over it, unless an operator asks
 * to replace it.
 */
export interface ForeignPart {
  readonly kind: 'archive' | 'pointer' | 'root';
  readonly log: LogId;
  readonly segment: number;
  /** The entry that carries the root, or that a Last Snapshot names. */
  readonly entry?: number | undefined;
}

/** Called for each part that a reader or a job passes over. */
export type OnForeign = (part: ForeignPart) => void;

/** The attributes of each kind of part. */
const ATTRIBUTES = { archive: ['A', 'H'], pointer: ['L'], root: ['B', 'E'] } as const;

/** The archive of a segment, if another program wrote it: the entries may be somewhere else. */
export function guardArchive({ log, segment, foreign }: Segment): ForeignPart | undefined {
  return foreign?.A === undefined ? undefined : { kind: 'archive', log, segment };
}

/** A body that another program wrote onto a Snapshot entry in place of its root. */
export function guardRoot(entry: Entry): ForeignPart | undefined {
  return snapshotStatus(entry) === 'foreign' ? { kind: 'root', log: entry.log, ...entry.position } : undefined;
}

/**
 * The Last Snapshot of a segment, if another program wrote it: it is not an entry number, the entry
 * that it names carries no root of logfold, or it is beyond the segment's last entry. Undefined
 * if there is none, and if the entry is missing, which proves nothing: it may have left the table.
 * Takes one request if Last Snapshot is a number, and another one if its entry is missing.
 * @throws SourceChangedError if the items of an application lack the entry that it names
 */
export async function guardPointer(store: PointerReader, segment: Segment): Promise<ForeignPart | undefined> {
  // An archive of logfold proves that logfold wrote Last Snapshot.
  if (segment.archive !== undefined && segment.foreign?.L === undefined) return undefined;
  if ((await readLastSnapshot(store, segment)) !== 'foreign') return undefined;
  const { log, segment: number, lastSnapshot } = segment;
  return { kind: 'pointer', log, segment: number, ...(lastSnapshot && { entry: lastSnapshot.position.entry }) };
}

/**
 * The Last Snapshot of another program, which the snapshot of an entry would have to move.
 * @param segment undefined if it does not exist
 * @param place `passedOver` has the parts that a search for an earlier snapshot passed over. It has
 * read the entry of Last Snapshot, unless that is this or a later one
 */
export async function guardMove(
  store: PointerReader,
  segment: Segment | undefined,
  { entry, passedOver }: { readonly entry: number; readonly passedOver: readonly ForeignPart[] },
): Promise<ForeignPart | undefined> {
  if (segment === undefined) return undefined;
  const last = coveredEntries(segment) - 1;
  // If it names this entry, nothing moves: the root completes the snapshot that it names.
  if (last === entry) return undefined;
  if (last > entry || segment.foreign !== undefined) return guardPointer(store, segment);
  return passedOver.find((part) => part.kind === 'pointer' && part.segment === segment.segment);
}

/** The archive or the Last Snapshot of a segment, if another program wrote it. */
export async function guardSegment(store: PointerReader, segment: Segment): Promise<ForeignPart | undefined> {
  return guardArchive(segment) ?? (await guardPointer(store, segment));
}

/** Reads what a Last Snapshot names. */
export type PointerReader = Pick<EntryReader, 'getEntry' | 'newestEntry'>;

/**
 * The snapshot that Last Snapshot of a segment names; undefined if there is none. `foreign` if
 * another program wrote Last Snapshot, and `gone` if the entry has left the table.
 * @throws SourceChangedError if the items of an application lack the entry that it names
 */
export async function readLastSnapshot(
  store: PointerReader,
  segment: Segment,
): Promise<CompletedSnapshot | 'foreign' | 'gone' | undefined> {
  if (segment.foreign?.L !== undefined) return 'foreign';
  if (segment.lastSnapshot === undefined) return undefined;
  const { position } = segment.lastSnapshot;
  const entry = await store.getEntry(segment.log, position, { consistent: true });
  const snapshot = entry && completedSnapshot(entry);
  if (snapshot !== undefined) return snapshot;
  return entry !== undefined || (await isBeyond(store, segment)) ? 'foreign' : 'gone';
}

/**
 * Whether Last Snapshot names a number that no entry of the segment has had. Its entry is missing.
 * @throws SourceChangedError if the segment has a schedule and none of its items may have left the
 * table: only logfold writes its Last Snapshot, so the log had the entry
 */
async function isBeyond(store: PointerReader, segment: Segment): Promise<boolean> {
  if (mayLackEntries(segment) || segment.archive !== undefined) return false;
  if (segment.schedule !== undefined) throw lostItem(segment);
  const newest = await store.newestEntry(segment.log, segment.segment, { consistent: true });
  return newest === undefined || newest.position.entry + 1 < coveredEntries(segment);
}

/** The error if the entry of Last Snapshot, which exists with an item, is missing. */
export function lostItem({ log, segment, lastSnapshot }: Segment): SourceChangedError {
  return new SourceChangedError(
    'the item before Last Snapshot is missing: the application deleted items that were folded, or began the log again',
    {
      log,
      segment,
      entry: lastSnapshot?.position.entry,
      advice:
        "Restore the items. If the application began the log again, give it another id, or run 'logfold sweep --rebuild --log LOG' after it has become longer than before",
    },
  );
}

/** The parts of another program that the item of a segment shows, without a request. */
export function shownParts(segment: Segment): ForeignPart[] {
  const { log, segment: number, foreign } = segment;
  const archive = guardArchive(segment);
  const pointer: ForeignPart[] = foreign?.L === undefined ? [] : [{ kind: 'pointer', log, segment: number }];
  return archive === undefined ? pointer : [archive, ...pointer];
}

/** The text that another program wrote as the name of its archive, perhaps the key of an object. */
export function otherArchiveName({ foreign: { A } = {} }: Segment): string | undefined {
  return A !== undefined && 'S' in A ? A.S : undefined;
}

/** A segment as if no other program had archived it. */
export function withoutForeignArchive({ foreign: { L } = {}, ...segment }: Segment): Segment {
  return L === undefined ? segment : { ...segment, foreign: { L } };
}

/**
 * Removes a part, because an operator asks to replace it. Call it after the replacement was
 * written.
 * @param shown the item that shows the part; nothing is removed if it has changed since
 */
export async function removePart(
  tables: AttributeRemover,
  { kind, log, segment, entry }: ForeignPart,
  shown: StoredItem,
): Promise<void> {
  const place = kind === 'root' ? { log, segment, entry } : { log, segment };
  await tables.removeAttributes(place, plainItem(shown, ATTRIBUTES[kind]));
}

/** Removes the body on a Snapshot entry like {@link removePart}, as it is now. */
export async function removeBody(
  { store, tables }: { readonly store: Pick<EntryReader, 'items'>; readonly tables: AttributeRemover },
  part: ForeignPart,
): Promise<void> {
  const { log, segment, entry = 0 } = part;
  for await (const [item] of store.items(log, { segment, from: entry, to: entry + 1 }, { consistent: true })) {
    if (item !== undefined) await removePart(tables, part, item);
  }
}

/** The result of a job that had to write where another program wrote. The job changed nothing. */
export type PassedOver<Place> = Place & { readonly outcome: 'foreign'; readonly reason: string };

/** The result of a job that passes over a part, or over what a reason names. */
export function passOver<Place extends object>(place: Place, why: ForeignPart | string): PassedOver<Place> {
  return { ...place, outcome: 'foreign', reason: typeof why === 'string' ? why : describePart(why) };
}

/** Advice for a person who wants a job to replace a part. */
export const REPLACE_ADVICE = "Run 'logfold sweep --log LOG --replace-foreign' to replace it; nothing was changed";

/** A part in words, without its log and without a full stop. */
export function describePart({ kind, segment, entry = 0 }: ForeignPart): string {
  switch (kind) {
    case 'archive':
      return `another program wrote the archive name 'A' of segment ${segment}`;
    case 'pointer':
      return `another program wrote the Last Snapshot 'L' of segment ${segment}`;
    case 'root':
      return `another program wrote a body onto the Snapshot entry ${formatPosition({ segment, entry })}`;
  }
}

/** A notice for people: a part, in a sentence. */
export function partNotice(part: ForeignPart): string {
  return `Log ${part.log}: ${describePart(part)}. logfold leaves it alone and passes over it.`;
}

/** Calls a function once for each part, however often a caller meets it. */
export function oncePerPart(report: OnForeign): OnForeign {
  const reported = new Set<string>();
  return (part) => {
    const name = partNotice(part);
    if (reported.has(name)) return;
    reported.add(name);
    report(part);
  };
}

/** How many parts of each kind were found. */
export interface PartCounts {
  readonly archives: number;
  readonly pointers: number;
  readonly roots: number;
}

/** Counts parts by their kind. */
export function countParts(parts: readonly ForeignPart[]): PartCounts {
  const count = (kind: ForeignPart['kind']): number => parts.filter((part) => part.kind === kind).length;
  return { archives: count('archive'), pointers: count('pointer'), roots: count('root') };
}
