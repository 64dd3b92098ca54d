/**
 * Whatever MessagePack can say: what an entry's body and a map's values are made of. Integers beyond 2^53 are
 * bigint; a Date is a MessagePack timestamp. Values are never changed once handed over.
 */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Date
  | readonly Value[]
  | { readonly [key: string]: Value };
