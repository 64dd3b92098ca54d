import type { Expiry, LastSnapshot, Segment } from '../../src/log/segment.ts';

export const ON_HOLD: Expiry = { state: 'on hold' };

/** @param at epoch seconds */
export function expiring(at: number): Extract<Expiry, { readonly state: 'expiring' }> {
  return { state: 'expiring', at };
}

/** @param at epoch seconds */
export function expired(at: number, entries: number): Expiry {
  return { state: 'expired', at, entries };
}

/** Number of entries in a segment when it expired; undefined if it has not expired. */
export function expiredEntries({ expiry }: Segment): number | undefined {
  return expiry?.state === 'expired' ? expiry.entries : undefined;
}

/** The Last Snapshot of a segment at an entry. */
export function lastAt(segment: number, entry: number): LastSnapshot {
  return { position: { segment, entry } };
}
