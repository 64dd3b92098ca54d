import type { StoredItem } from './attribute.ts';

/** The bytes are not DynamoDB JSON of the form that the reader knows. */
export class ItemJsonError extends Error {}

/** A place in UTF-8 bytes of DynamoDB JSON. */
export class ItemJson {
  readonly bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }
}

/** Decodes an item from DynamoDB JSON, or from an item of the SDK. Both give the same. */
export interface ItemDecoder<T> {
  /**
   * Decodes the item at `json.at` and moves behind it.
   * @throws ItemJsonError if the bytes are not known DynamoDB JSON
   */
  readonly fromJson: (json: ItemJson) => T;
  readonly fromItem: (item: StoredItem) => T;
}

/** Items as they are stored. */
export const storedItems: ItemDecoder<StoredItem> = {
  fromJson: () => {
    throw new ItemJsonError('items are not read from bytes');
  },
  fromItem: (item) => item,
};
