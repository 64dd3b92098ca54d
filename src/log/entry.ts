import type { LogId } from './log-id.ts';
import type { Position } from './position.ts';
import type { Value } from './value.ts';

/** An entry's body as it lies in the table, not yet decoded. */
export type StoredBody =
  | { readonly format: 'bytes'; readonly bytes: Uint8Array }
  | { readonly format: 'json'; readonly text: string }
  | { readonly format: 'native'; readonly value: Value };

/** One item of the Entry table: an immutable change. */
export interface Entry {
  readonly log: LogId;
  readonly position: Position;
  /** Epoch seconds. */
  readonly created: number;
  readonly type: string;
  /** Version of the body's format, for this type. */
  readonly version: number;
  /** Absent where there is no body, or where it lies in an external object. */
  readonly body?: StoredBody | undefined;
  /** Key of the object that holds the body or, on a Snapshot entry, the snapshot's root. */
  readonly external?: string | undefined;
  /** Epoch seconds; present only once the entry may go. */
  readonly expires?: number | undefined;
}

/** The two types of entry that mean something to the log itself. They are configurable, since logs exist already. */
export interface ReservedTypes {
  readonly snapshot: string;
  readonly endSegment: string;
}

export const RESERVED_TYPES: ReservedTypes = { snapshot: 'Snapshot', endSegment: 'End Segment' };

/** Version of the reserved types' entries: they have no body of their own. */
export const RESERVED_VERSION = 1;
