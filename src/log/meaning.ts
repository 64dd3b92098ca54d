import type { ChunkPlatform } from '../codec/chunk.ts';
import { MappingDiffersError, type Where } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { MAPPING_KEY } from '../store/keys.ts';
import { type Item, isReserved, type StoredAttribute, type StoredItem } from './attribute.ts';

/** SHA-256 of a {@link Meaning} in hexadecimal, as roots and archives state it. */
export type Fingerprint = string;

/** The schema mapping by which the items of an application become the entries of a log. */
export interface Meaning {
  /** The hash of everything in the mapping that decides what the entries are. */
  readonly fingerprint: (platform: Pick<ChunkPlatform, 'sha256'>) => Fingerprint;
  /**
   * The mappings that the bucket has had, the current one last, in one request; undefined if the
   * bucket names none. When each was replaced, it gave the same entries as the next one.
   */
  readonly ofBucket: (blobs: Pick<BlobStore, 'get'>) => Promise<readonly StoredMeaning[] | undefined>;
  /** Undefined if the items have no time. */
  readonly time: ItemTime | undefined;
}

/**
 * The time of an application's items. Archived items keep it, and so have no `P`: it follows from
 * the time.
 */
export interface ItemTime {
  /** The attribute of the application. */
  readonly name: string;
  /** The milliseconds of this attribute, as an entry has them. */
  readonly milliseconds: (time: StoredAttribute) => number | undefined;
}

/** An archived item with the milliseconds of its time. */
export function withMilliseconds<T extends StoredItem>(item: T, time: ItemTime | undefined): T {
  if (time === undefined) return item;
  // The application's attributes with names of logfold's are in `O`.
  const kept: StoredItem = isReserved(time.name) ? (item.O?.M ?? {}) : item;
  const found = Object.hasOwn(kept, time.name) ? kept[time.name] : undefined;
  const milliseconds = found && time.milliseconds(found);
  return milliseconds === undefined ? item : { ...item, P: { N: String(milliseconds) } };
}

/** A mapping that a bucket has or had. */
export interface StoredMeaning extends Pick<Meaning, 'fingerprint'> {
  /** Translates an archived item of this mapping into that of the reader's mapping. */
  readonly retranslate: (item: Item) => StoredItem;
}

/** Advice for a mapping that is not the bucket's. */
export const MAPPING_ADVICE =
  `Use the mapping that the object '${MAPPING_KEY}' of the bucket has in its field 'mapping'. To change it, run 'logfold adopt --replace-mapping' ` +
  'with the new one, which first compares all items';

/** Advice for a bucket that names no mapping yet. */
export const UNNAMED_ADVICE = "Run 'logfold adopt' with the mapping that made its snapshots, which stores it";

/** The stores of a reader that checks by which mapping a snapshot or an archive was made. */
export interface MeaningSource {
  /** Without it, nothing is checked. */
  readonly store?: { meaningOf?(log: LogId): Meaning | undefined } | undefined;
  readonly blobs: Pick<BlobStore, 'get'>;
  readonly platform: Pick<ChunkPlatform, 'sha256'>;
}

/** Something that a mapping made: its name, its place, and the fingerprint that it states. */
export interface Made {
  readonly what: string;
  readonly where: Where & { readonly log: LogId };
  readonly mapping: Fingerprint | undefined;
}

/**
 * Checks that the mapping that made a snapshot has the meaning of the reader's, or gave the same
 * entries when it was replaced. Takes no request unless the fingerprints differ, and then one.
 * Older releases stored no fingerprint.
 * @throws MappingDiffersError otherwise
 */
export async function requireSameMeaning(source: MeaningSource, made: Made): Promise<void> {
  if (made.mapping !== undefined) await makerOf(source, made);
}

/**
 * The mapping that made an archive, if it is not the reader's. Takes no request if the archive
 * states the reader's mapping, and otherwise one. An archive of an older release states none: the
 * bucket's first mapping made it.
 * @throws MappingDiffersError if the reader's mapping is not the bucket's, or if the bucket never
 * had the mapping of the archive
 */
export async function makerOf(
  { store, blobs, platform }: MeaningSource,
  made: Made,
): Promise<StoredMeaning | undefined> {
  const meaning = store?.meaningOf?.(made.where.log);
  if (meaning === undefined) return undefined;
  const own = meaning.fingerprint(platform);
  if (made.mapping === own) return undefined;
  const known = await meaning.ofBucket(blobs);
  if (known === undefined && made.mapping === undefined) return undefined;
  const hashes = (known ?? []).map((each) => each.fingerprint(platform));
  const wanted = made.mapping ?? hashes[0];
  if (hashes.at(-1) === own && wanted === own) return undefined;
  const maker = wanted === undefined ? undefined : known?.[hashes.indexOf(wanted)];
  if (hashes.at(-1) === own && maker !== undefined) return maker;
  throw new MappingDiffersError(
    `${made.what} was made with the mapping ${shorten(wanted)}, and this is the mapping ${shorten(own)}`,
    { ...made.where, advice: MAPPING_ADVICE },
  );
}

function shorten(fingerprint: Fingerprint | undefined): string {
  return fingerprint === undefined ? '(unknown)' : fingerprint.slice(0, 12);
}
