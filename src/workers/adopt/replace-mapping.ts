import { encodeItemLine } from '../../archive/item-line.ts';
import { openArchive } from '../../archive/reader.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { ItemInvalidError, LogNotFoundError, MappingDiffersError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Item, StoredItem } from '../../log/attribute.ts';
import type { TableReader } from '../../log/log-store.ts';
import { UNNAMED_ADVICE } from '../../log/meaning.ts';
import { decodeMetadata } from '../../log/metadata.ts';
import { VIRTUAL_TYPES } from '../../log/schedule.ts';
import type { Segment } from '../../log/segment.ts';
import {
  type MappedTable,
  meaningOf,
  moveClaim,
  readBucketMapping,
  requireTable,
  storeMapping,
} from '../../mapping/bucket-claim.ts';
import { namedByKey } from '../../mapping/key-pattern.ts';
import type { MappedItems } from '../../mapping/mapped-items.ts';
import { meaningParts } from '../../mapping/meaning.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import { type MappedItemPlace, toApplicationItem, toEntryItem } from '../../mapping/translate.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { CLAIM_KEY, MAPPING_KEY } from '../../store/keys.ts';

export interface ReplaceMappingDeps {
  readonly tables: TableReader;
  /** The application's table. */
  readonly items: Pick<MappedItems, 'pages' | 'newest'>;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  /** Called after each page of items; the work continues when it resolves. */
  readonly onPage?: () => Promise<void>;
  readonly onProgress?: (items: number) => void;
}

export interface ReplacedMapping {
  /** Registered logs whose items were compared. */
  readonly logs: number;
  /** Compared items of the application's table. */
  readonly items: number;
  /** Compared items of archives. */
  readonly archived: number;
  /** Items that did not fit the old mapping, so that no snapshot and no archive has them. */
  readonly unfit: number;
  /** False in a dry run, and if the bucket had this mapping already. */
  readonly replaced: boolean;
}

/**
 * Replaces the mapping of a bucket after it compared every item of every registered log: each item
 * must become the same entry under both mappings, in the table and in the archives. So the
 * snapshots and archives of the old mapping are those of the new one too.
 *
 * Nothing may append under the old mapping in the meantime: deploy the new one first.
 * @param owner the application's table and the new mapping
 * @throws MappingDiffersError at the first item that becomes another entry, or if the keys differ
 * @throws BucketTakenError if the bucket holds the logs of another table
 * @throws LogNotFoundError if there is no item to compare; after each error nothing is changed
 */
export async function replaceMapping(
  deps: ReplaceMappingDeps,
  owner: MappedTable,
  { dryRun }: { readonly dryRun: boolean },
): Promise<ReplacedMapping> {
  const { table, mapping: to } = owner;
  const from = await readBucketMapping(deps.blobs);
  const counts = { logs: 0, items: 0, archived: 0, unfit: 0 };
  if (from === undefined) {
    throw new MappingDiffersError('the bucket names no mapping that could be replaced', {
      advice: UNNAMED_ADVICE,
    });
  }
  const [old, now] = [meaningParts(from.mapping), meaningParts(to)];
  const keys = ({ partitionKey, sortKey }: typeof now): string => JSON.stringify([partitionKey, sortKey]);
  if (keys(old) !== keys(now)) {
    throw new MappingDiffersError('the mappings find other items by their keys, so that every log changes', {
      advice: 'Use another Segment table and another bucket for the new mapping',
    });
  }
  await requireTable(deps.blobs, owner);
  for await (const { log, segment } of deps.tables.allSegments()) {
    // Each registered log has this segment.
    if (segment !== 0) continue;
    counts.logs++;
    await compareLog(deps, log, { from: from.mapping, to, counts });
  }
  // With the Segment table of other logs, for example, nothing would be compared.
  if (counts.items + counts.archived === 0) {
    throw new LogNotFoundError(
      `no item was compared: table '${table}' has none of a log that the Segment table names`,
      {
        advice: `Nothing was changed. Name the Segment table of these logs. If there are no logs yet, remove the objects '${CLAIM_KEY}' and '${MAPPING_KEY}' from the bucket: the next registration writes them again`,
      },
    );
  }
  const isNew = JSON.stringify(old) !== JSON.stringify(now);
  if (isNew && !dryRun) await storeMapping(deps.blobs, { from, to });
  return { ...counts, replaced: isNew && !dryRun };
}

interface Comparison {
  readonly from: SchemaMapping;
  readonly to: SchemaMapping;
  readonly counts: { items: number; archived: number; unfit: number };
}

async function compareLog(deps: ReplaceMappingDeps, log: LogId, comparison: Comparison): Promise<void> {
  const { counts } = comparison;
  const everything = { from: 0, to: Number.MAX_SAFE_INTEGER };
  for await (const page of deps.items.pages(log, everything, { consistent: true })) {
    for (const { index, item } of page) compareItem(comparison, item, { log, position: UNPLACED, index });
    counts.items += page.length;
    deps.onProgress?.(counts.items + counts.archived);
    await deps.onPage?.();
  }
  for await (const segment of deps.tables.segments(log)) {
    if (segment.archive !== undefined) await compareArchive(deps, segment, comparison);
  }
}

async function compareArchive(
  { blobs, platform, onProgress }: ReplaceMappingDeps,
  segment: Segment,
  comparison: Comparison,
): Promise<void> {
  const { from, counts } = comparison;
  const meaning = meaningOf(from);
  const archive = await openArchive({ blobs, platform, tables: { meaningOf: () => meaning } }, segment);
  for await (const page of archive.items(0, archive.end)) {
    for (const item of page.filter((each) => !isVirtual(each))) {
      const index = Number(item.Q !== undefined && 'N' in item.Q ? item.Q.N : 0) - 1;
      const place = { log: segment.log, position: UNPLACED, index };
      compareItem(comparison, toApplicationItem(from, item), place);
      counts.archived++;
    }
    onProgress?.(counts.items + counts.archived);
  }
}

function isVirtual({ T }: Item): boolean {
  return T !== undefined && 'S' in T && VIRTUAL_TYPES.includes(T.S);
}

/** The position of an entry does not depend on the parts of a mapping that may change. */
const UNPLACED = { segment: 0, entry: 0 };

function compareItem({ from, to, counts }: Comparison, item: StoredItem, place: MappedItemPlace): void {
  let old: StoredItem;
  try {
    old = toEntryItem(from, item, place);
  } catch (error) {
    if (!(error instanceof ItemInvalidError)) throw error;
    counts.unfit++;
    return;
  }
  const differing = differenceOf(old, to, item, place);
  if (differing === undefined) return;
  throw new MappingDiffersError(`${namedByKey(to, item)} becomes another entry: ${differing}`, {
    log: place.log,
    advice:
      'Nothing was changed. Keep the old mapping, or use another Segment table and another bucket for the new one',
  });
}

/** @returns undefined if the item becomes the same entry */
function differenceOf(
  old: StoredItem,
  to: SchemaMapping,
  item: StoredItem,
  place: MappedItemPlace,
): string | undefined {
  let now: StoredItem;
  try {
    now = toEntryItem(to, item, place);
  } catch (error) {
    if (!(error instanceof ItemInvalidError)) throw error;
    return error.reason;
  }
  const line = (of: StoredItem, name: string): string =>
    // An attribute of another form than metadata gives none.
    encodeItemLine({ [name]: name === 'M' && decodeMetadata(of.M) === undefined ? undefined : of[name] });
  const names = Object.entries(FOLDED).filter(([name]) => line(old, name) !== line(now, name));
  return names.length === 0 ? undefined : `its ${names.map(([, part]) => part).join(' and its ')} would differ`;
}

/** The attributes that a fold reads. The others stay the application's in any mapping. */
const FOLDED = { T: 'type', V: 'version', C: 'time', P: 'milliseconds', B: 'body', M: 'metadata', Q: 'number' };

/**
 * Moves the claim of a bucket to another table, which must have items of the logs in the Segment
 * table, as a restored copy has.
 * @returns the table that the claim named before; undefined if the bucket had no claim
 * @throws BucketTakenError, MappingDiffersError as `moveClaim`
 * @throws LogNotFoundError if no registered log has an item in the table; then nothing is changed
 */
export async function moveClaimTo(
  { tables, items, blobs }: Pick<ReplaceMappingDeps, 'tables' | 'items' | 'blobs'>,
  of: MappedTable,
): Promise<string | undefined> {
  for await (const { log, segment } of tables.allSegments()) {
    if (segment !== 0) continue;
    const newest = await items.newest(log, Number.MAX_SAFE_INTEGER, { consistent: true });
    if (newest !== undefined) return moveClaim(blobs, of);
  }
  throw new LogNotFoundError(`table '${of.table}' has no item of a log that the Segment table names`, {
    advice: 'Name the restored Entry table and the Segment table that was restored with it',
  });
}
