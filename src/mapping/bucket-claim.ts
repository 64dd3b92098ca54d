import * as z from 'zod';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { BucketTakenError, MappingDiffersError } from '../errors.ts';
import type { Item, StoredItem } from '../log/attribute.ts';
import { entryPlace } from '../log/item-codec.ts';
import type { SegmentReader } from '../log/log-store.ts';
import { MAPPING_ADVICE, type Meaning, UNNAMED_ADVICE } from '../log/meaning.ts';
import { VIRTUAL_TYPES } from '../log/schedule.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { JsonObject } from '../store/json-object.ts';
import { CLAIM_KEY, MAPPING_KEY } from '../store/keys.ts';
import { describeDifference, fingerprintOf, mappingDocument } from './meaning.ts';
import { parseMapping, type SchemaMapping } from './schema-mapping.ts';
import { itemTime, toApplicationItem, toEntryItem } from './translate.ts';

/** Whose mapped logs a bucket holds: a table of an application and its partition keys. */
const claimSchema = z.object({ format: z.literal(1), table: z.string(), partitionKey: z.string() });

type Claim = z.infer<typeof claimSchema>;

const CLAIM = new JsonObject({
  key: CLAIM_KEY,
  schema: claimSchema,
  advice: 'Remove it if the bucket holds the logs of one mapping only: the next registration writes it again',
});

/**
 * The mapping of these logs. It has a separate object, because earlier releases refuse a claim with
 * more fields.
 */
const mappingSchema = z.object({
  format: z.literal(1),
  mapping: z.unknown(),
  earlier: z.array(z.unknown()).optional(),
});

const MAPPING = new JsonObject({
  key: MAPPING_KEY,
  schema: mappingSchema,
  indent: 1,
  advice: 'Restore the object from a version or a backup of the bucket',
});

/** An application's table and the mapping of its logs. */
export interface MappedTable {
  readonly table: string;
  readonly mapping: SchemaMapping;
}

/** The mapping that a bucket belongs to. */
export interface BucketMapping {
  readonly mapping: SchemaMapping;
  /**
   * The mappings before, the oldest first. When each was replaced, it gave the same entries as the
   * next one.
   */
  readonly earlier: readonly SchemaMapping[];
}

/**
 * Checks that a bucket holds the logs of this table and this mapping, or those of none yet. Takes
 * two requests, or one without a mapping.
 * @param owner the table and its mapping; undefined for logs in logfold's own schema
 * @throws BucketTakenError if the bucket holds the logs of another table or of other keys, or those
 * of a mapping if there is none here
 * @throws MappingDiffersError if the mapping has another meaning than the bucket's
 */
export async function requireClaim(blobs: Pick<BlobStore, 'get'>, owner: MappedTable | undefined): Promise<void> {
  const claim = await CLAIM.read(blobs);
  if (owner !== undefined) {
    if (claim !== undefined) requireSameClaim(claim, owner);
    requireSameMapping(await readBucketMapping(blobs), owner.mapping, claim);
  } else if (claim !== undefined) {
    throw new BucketTakenError(
      `the bucket or directory holds the logs of table '${claim.table}' with keys '${claim.partitionKey}', which need a mapping`,
      {
        advice: `Give --mapping FILE and --entry-table '${claim.table}', or use another bucket or directory for other logs`,
      },
    );
  }
}

/**
 * Checks that a bucket holds the logs of this table, or those of none yet, whatever their mapping.
 * @throws BucketTakenError if the bucket holds the logs of another table or of other keys
 */
export async function requireTable(blobs: Pick<BlobStore, 'get'>, owner: MappedTable): Promise<void> {
  const claim = await CLAIM.read(blobs);
  if (claim !== undefined) requireSameClaim(claim, owner);
}

/**
 * Checks that the first registration does not shut out other logs: after it, commands without the
 * mapping are refused. So a Segment table with logs in logfold's own schema is not for mapped logs.
 * Takes no request more if the bucket is claimed, and otherwise reads the first segments.
 * @param books the Segment table
 * @throws BucketTakenError if the bucket is not claimed, and the table has a log in that schema
 */
export async function requireMappedBooks(
  blobs: Pick<BlobStore, 'get'>,
  books: Pick<SegmentReader, 'allSegments'>,
): Promise<void> {
  if ((await CLAIM.read(blobs)) !== undefined) return;
  for await (const { log, schedule } of books.allSegments({ index: 0, of: 1 }, () => undefined)) {
    if (schedule !== undefined) return;
    throw new BucketTakenError("the Segment table has this log in logfold's own schema, which has no mapping", {
      log,
      advice: 'Use another Segment table and another bucket or directory for the logs of the mapping',
    });
  }
}

/**
 * Like {@link requireClaim}, but claims a bucket that belongs to no mapping. Takes two requests to
 * five.
 */
export async function claimBucket(blobs: BlobStore, of: MappedTable): Promise<void> {
  const claim = await CLAIM.read(blobs);
  if (claim !== undefined) requireSameClaim(claim, of);
  // Before the claim: a claim without a mapping is of an earlier release.
  await MAPPING.update(blobs, (stored) => {
    requireSameMapping(stored && decode(stored), of.mapping, claim);
    return stored === undefined ? { format: 1, mapping: mappingDocument(of.mapping) } : undefined;
  });
  if (claim !== undefined) return;
  await CLAIM.update(blobs, (other) => {
    if (other === undefined) return claimOf(of);
    requireSameClaim(other, of);
    return undefined;
  });
}

/**
 * Moves the claim to another table, which has the same logs, for example a restored copy.
 * @returns the table that the claim named before; undefined if the bucket had no claim
 * @throws BucketTakenError if the claim is of other keys
 * @throws MappingDiffersError if the mapping has another meaning than the bucket's
 */
export async function moveClaim(blobs: BlobStore, of: MappedTable): Promise<string | undefined> {
  requireSameMapping(await readBucketMapping(blobs), of.mapping);
  let from: string | undefined;
  await CLAIM.update(blobs, (claim) => {
    if (claim === undefined) return undefined;
    requireSameClaim({ ...claim, table: of.table }, of);
    from = claim.table;
    return claimOf(of);
  });
  return from;
}

/** The mapping of a bucket; undefined if no release that stores mappings has claimed it. */
export async function readBucketMapping(blobs: Pick<BlobStore, 'get'>): Promise<BucketMapping | undefined> {
  const stored = await MAPPING.read(blobs);
  return stored && decode(stored);
}

/**
 * Replaces the mapping of a bucket. The caller has compared all entries under both mappings.
 * @throws MappingDiffersError if another process replaced it in the meantime
 */
export async function storeMapping(
  blobs: BlobStore,
  { from, to }: { readonly from: BucketMapping; readonly to: SchemaMapping },
): Promise<void> {
  const earlier = [...from.earlier, from.mapping].map(mappingDocument);
  await MAPPING.update(blobs, (stored) => {
    const present = stored && decode(stored).mapping;
    if (present !== undefined && !isSame(present, to))
      requireSameMapping({ mapping: present, earlier: [] }, from.mapping);
    return { format: 1, mapping: mappingDocument(to), earlier };
  });
}

/** The meaning of a mapping, for readers of its logs. */
export function meaningOf(mapping: SchemaMapping): Meaning {
  return {
    fingerprint: (platform) => fingerprintOf(platform, mapping),
    ofBucket: async (blobs) => {
      const known = await readBucketMapping(blobs);
      return (
        known &&
        [...known.earlier, known.mapping].map((from) => ({
          fingerprint: (platform: Pick<ChunkPlatform, 'sha256'>) => fingerprintOf(platform, from),
          retranslate: (item: Item) => retranslate({ from, to: mapping }, item),
        }))
      );
    },
    time: itemTime(mapping),
  };
}

/** Virtual entries are the same under all mappings. */
function retranslate(
  { from, to }: { readonly from: SchemaMapping; readonly to: SchemaMapping },
  item: Item,
): StoredItem {
  const { T, Q } = item;
  if (T !== undefined && 'S' in T && VIRTUAL_TYPES.includes(T.S)) return item;
  const index = Number(Q !== undefined && 'N' in Q ? Q.N : 0) - 1;
  return toEntryItem(to, toApplicationItem(from, item), { ...entryPlace(item), index });
}

function claimOf({ table, mapping }: MappedTable): Claim {
  const { name, prefix, suffix } = mapping.partitionKey;
  return { format: 1, table, partitionKey: `${name}: ${prefix}{id}${suffix}` };
}

function requireSameClaim(claim: Claim, of: MappedTable): void {
  const own = claimOf(of);
  if (claim.table === own.table && claim.partitionKey === own.partitionKey) return;
  const isMoved = claim.partitionKey === own.partitionKey;
  throw new BucketTakenError(
    `the bucket holds the logs of table '${claim.table}' with keys '${claim.partitionKey}', not of table '${own.table}' with keys '${own.partitionKey}'`,
    {
      advice: isMoved
        ? `If table '${own.table}' was restored from '${claim.table}', run 'logfold adopt --move-claim' with the options of this command. Otherwise use another bucket`
        : 'Use another bucket',
    },
  );
}

function requireSameMapping(known: BucketMapping | undefined, own: SchemaMapping, claim?: Claim): void {
  if (known === undefined && claim !== undefined && own.metadata !== undefined) {
    throw new MappingDiffersError(
      "the bucket is of an earlier release, which stored no mapping, and whose mappings had no 'metadata'",
      { advice: UNNAMED_ADVICE },
    );
  }
  if (known === undefined || isSame(known.mapping, own)) return;
  throw new MappingDiffersError(
    `the bucket holds the logs of another mapping: ${describeDifference(known.mapping, own)}`,
    { advice: MAPPING_ADVICE },
  );
}

function isSame(a: SchemaMapping, b: SchemaMapping): boolean {
  return describeDifference(a, b) === '';
}

function decode({ mapping, earlier = [] }: z.infer<typeof mappingSchema>): BucketMapping {
  return { mapping: parseMapping(mapping), earlier: earlier.map(parseMapping) };
}
