import { equalBytes, toHex } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import { setKey, type Value } from '../codec/value.ts';
import { SourceChangedError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition, type Position } from '../ids/position.ts';
import type { StoredAttribute, StoredItem } from '../log/attribute.ts';
import type { Entry, ReservedTypes, StoredBody } from '../log/entry.ts';
import { decodeEntry } from '../log/item-codec.ts';
import type { SegmentRange } from '../log/log-store.ts';
import { decodeMetadata } from '../log/metadata.ts';
import { endOf } from '../log/schedule.ts';
import { mayLackEntries } from '../log/segment.ts';
import type { Root } from './root.ts';
import type { SnapshotStores } from './snapshots.ts';

interface ItemStores extends Pick<SnapshotStores, 'store' | 'platform'> {
  readonly types: ReservedTypes;
}

/**
 * The attributes that a fold reads, beside the metadata if there is any. They do not depend on
 * names in a mapping. Older releases stored no milliseconds, so these do not count.
 */
const FOLDED = ['T', 'V', 'C', 'B', 'Q'] as const;

const CONSISTENT = { consistent: true };

/** The attributes that tell entries of logfold's own schema apart. A root is written later. */
const IDENTIFYING = ['T', 'C', 'Q', 'I'] as const;

/** The last item before a position. */
export interface LastItem {
  readonly entry: Entry;
  /** Like {@link lastItemHash}. */
  readonly hash: Uint8Array;
}

/**
 * The last entry before a position and its hash. Takes one request, or two at the beginning of a
 * segment.
 * @returns undefined if the entry is missing
 * @throws ItemInvalidError if it cannot be read
 */
export async function readLastItem(stores: ItemStores, log: LogId, position: Position): Promise<LastItem | undefined> {
  const item = await lastStoredItem(stores, log, position);
  return item && { entry: decodeEntry(item), hash: hashOf(stores, log, item) };
}

/**
 * The hash of the last entry before a position. In a scheduled log this is the application's last
 * item as a fold reads it, otherwise the last entry without its body. Takes one request, or two at
 * the beginning of a segment.
 * @returns undefined if the entry is missing
 */
export async function lastItemHash(
  stores: ItemStores,
  log: LogId,
  position: Position,
): Promise<Uint8Array | undefined> {
  const item = await lastStoredItem(stores, log, position);
  return item && hashOf(stores, log, item);
}

async function lastStoredItem(stores: ItemStores, log: LogId, position: Position): Promise<StoredItem | undefined> {
  const range = await lastItemRange(stores, log, position);
  if (range === undefined) return undefined;
  const items = (await Array.fromAsync(stores.store.items(log, range, CONSISTENT))).flat();
  return items.findLast(
    ({ T }) => !hasApplicationItems(stores, log) || (T?.S !== undefined && !stores.types.includes(T.S)),
  );
}

function hashOf(stores: ItemStores, log: LogId, item: StoredItem): Uint8Array {
  const names: readonly string[] = hasApplicationItems(stores, log)
    ? [...FOLDED, ...(decodeMetadata(item.M) === undefined ? [] : ['M'])]
    : IDENTIFYING;
  return stores.platform.sha256(encodeValue(names.map((name) => canonical(item[name]))));
}

/** Whether two entries are the same for a fold. */
export function isSameForFold(a: Entry, b: Entry): boolean {
  return equalBytes(foldedBytes(a), foldedBytes(b));
}

function foldedBytes({ type, version, created, milliseconds, number, body, metadata }: Entry): Uint8Array {
  return encodeValue([
    type,
    version,
    created,
    milliseconds ?? 0,
    number ?? null,
    body === undefined ? [] : [body.format, contentOf(body)],
    Object.entries(metadata ?? {}).map(([name, value]) => [name, value ?? null]),
  ]);
}

function contentOf(body: StoredBody): Value {
  if (body.format === 'native') return body.value;
  return body.format === 'json' ? body.text : body.bytes;
}

/** Whether the items of an application are the entries of a log. */
export function hasApplicationItems({ store }: Pick<ItemStores, 'store'>, log: LogId): boolean {
  return store.meaningOf?.(log) !== undefined;
}

/** Whether a root states no last item, or the one that the log still has. */
export async function hasSameLastItem(stores: ItemStores, { log, position, lastItem }: Root): Promise<boolean> {
  if (lastItem === undefined) return true;
  const found = await lastItemHash(stores, log, position);
  return found !== undefined && equalBytes(found, lastItem);
}

/**
 * Checks that the last item that a root folds is as it was. Otherwise the application corrected it,
 * or deleted the log and began it again, and later items do not belong to this state.
 * @throws SourceChangedError if it differs or is missing, although no segment expired
 */
export async function requireLastItem(stores: ItemStores, { log, position, lastItem }: Root): Promise<void> {
  // A reader in a page has no items, only what its server answers.
  if (lastItem === undefined || !hasApplicationItems(stores, log)) return;
  const found = await lastItemHash(stores, log, position);
  if (found !== undefined && equalBytes(found, lastItem)) return;
  if (found === undefined && (await mayHaveExpired(stores, log, position))) return;
  const is = found === undefined ? 'is missing' : 'has changed';
  throw new SourceChangedError(
    `the last item in the snapshot at ${formatPosition(position)} ${is}: the application changed or deleted items that were folded`,
    {
      log,
      ...position,
      advice:
        "Find out what changed the items. If the change is right, run 'logfold sweep --rebuild --log LOG', which folds the log from its first item; otherwise restore the items",
    },
  );
}

/** The last one or two entries before a position: one of them is an item. */
async function lastItemRange(stores: ItemStores, log: LogId, position: Position): Promise<SegmentRange | undefined> {
  const segment = lastItemSegment(stores, log, position);
  if (segment < 0) return undefined;
  if (segment === position.segment) return { segment, from: Math.max(0, position.entry - 2), to: position.entry };
  const end = await endOfSegment(stores.store, log, segment);
  return end === undefined ? undefined : { segment, from: Math.max(0, end - 1), to: end };
}

/** The segment of the last item before a position; -1 if there is none. */
function lastItemSegment(stores: Pick<ItemStores, 'store'>, log: LogId, { segment, entry }: Position): number {
  // The first entry of a segment is a Snapshot entry, which is not an item of the application.
  return entry > (hasApplicationItems(stores, log) ? 1 : 0) ? segment : segment - 1;
}

/** The number of a closed segment's End Segment entry. */
async function endOfSegment(store: ItemStores['store'], log: LogId, segment: number): Promise<number | undefined> {
  if (store.meaningOf?.(log) === undefined) return (await store.newestEntry(log, segment, CONSISTENT))?.position.entry;
  // The last items may have left the table before others, or the previous segment may be restored.
  const { schedule } = (await store.getSegment(log, segment, CONSISTENT)) ?? {};
  return schedule && endOf(schedule);
}

/** Whether the segment of the last item before a position expires without an archive. */
async function mayHaveExpired(stores: ItemStores, log: LogId, position: Position): Promise<boolean> {
  const segment = lastItemSegment(stores, log, position);
  const found = segment < 0 ? undefined : await stores.store.getSegment(log, segment, CONSISTENT);
  return found !== undefined && mayLackEntries(found);
}

/** An attribute as a value. Members of sets have any order in a table. */
function canonical(attribute: StoredAttribute | undefined): Value {
  if (attribute === undefined) return null;
  const { S, N, B, BOOL, M, L, SS, NS, BS } = attribute;
  if (S !== undefined) return ['S', S];
  if (N !== undefined) return ['N', N];
  if (B !== undefined) return ['B', new Uint8Array(B)];
  if (BOOL !== undefined) return ['BOOL', BOOL];
  if (M !== undefined) return ['M', canonicalForm(M)];
  if (L !== undefined) return ['L', L.map(canonical)];
  if (SS !== undefined) return ['SS', [...SS].sort()];
  if (NS !== undefined) return ['NS', [...NS].sort()];
  if (BS !== undefined) return ['BS', BS.map(toHex).sort()];
  return ['NULL'];
}

function canonicalForm(item: StoredItem): Value {
  const record: Record<string, Value> = {};
  for (const name of Object.keys(item)) setKey(record, name, canonical(item[name]));
  return record;
}
