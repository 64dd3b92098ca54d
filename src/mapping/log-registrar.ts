import * as z from 'zod';
import { BucketTakenError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { type JsonObject, updateJson } from '../store/json-object.ts';
import { CLAIM_KEY } from '../store/keys.ts';
import type { MappedLogStore } from './mapped-log-store.ts';
import type { SegmentSizes } from './mapped-segments.ts';
import type { SchemaMapping } from './schema-mapping.ts';

/** Whose mapped logs a bucket holds: a table of an application and its partition keys. */
const schema = z.strictObject({ format: z.literal(1), table: z.string(), partitionKey: z.string() });

type Claim = z.infer<typeof schema>;

const OBJECT: JsonObject<Claim> = {
  key: CLAIM_KEY,
  schema,
  advice: 'Remove it if the bucket holds the logs of one mapping only: the next registration writes it again',
};

export interface LogRegistrarDeps {
  readonly store: Pick<MappedLogStore, 'register' | 'endAt'>;
  readonly blobs: BlobStore;
  /** The application's table. */
  readonly table: string;
  readonly mapping: SchemaMapping;
}

/**
 * Registers mapped logs. It first claims the bucket for their table and their keys, because the
 * ids of two mappings may be equal: then each would collect the other's objects as garbage.
 */
export class LogRegistrar {
  readonly #deps: LogRegistrarDeps;
  #claimed: Promise<void> | undefined;

  constructor(deps: LogRegistrarDeps) {
    this.#deps = deps;
  }

  /**
   * As `register` of the mapped log store. The first call takes one or two requests more.
   * @throws BucketTakenError if the bucket holds the logs of another mapping; nothing is registered
   */
  async register(log: LogId, sizes: SegmentSizes): Promise<number> {
    this.#claimed ??= this.#claim();
    await this.#claimed.catch((error: unknown) => {
      this.#claimed = undefined;
      throw error;
    });
    return this.#deps.store.register(log, sizes);
  }

  /**
   * As `endAt` of the mapped log store. Registers the log if it is not registered.
   * @param sizes those of new segments
   * @throws BucketTakenError if the log must be registered, as {@link register}
   * @throws ItemInvalidError if the log must be registered, and an item does not fit the mapping
   */
  async endAt(log: LogId, index: number, sizes: SegmentSizes): Promise<Position | undefined> {
    const end = await this.#deps.store.endAt(log, index);
    if (end !== undefined) return end;
    await this.register(log, sizes);
    return this.#deps.store.endAt(log, index);
  }

  async #claim(): Promise<void> {
    const { blobs, table, mapping } = this.#deps;
    const { name, prefix, suffix } = mapping.partitionKey;
    const own: Claim = { format: 1, table, partitionKey: `${name}: ${prefix}{id}${suffix}` };
    await updateJson(blobs, OBJECT, (claim) => {
      if (claim === undefined) return own;
      if (claim.table === own.table && claim.partitionKey === own.partitionKey) return undefined;
      throw new BucketTakenError(
        `the bucket holds the logs of table '${claim.table}' with keys '${claim.partitionKey}', not of table '${table}' with keys '${own.partitionKey}'`,
        {
          advice: `Use another bucket. If that mapping was a mistake, remove all of its items from the Segment table and all objects under 'logs/', among them '${CLAIM_KEY}'`,
        },
      );
    });
  }
}
