import { SegmentStateError } from '../../errors.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { SegmentPlace } from '../../log/log-store.ts';
import { changedMeanwhile, type Expiry, expiresAt, type Segment } from '../../log/segment.ts';
import { batchFrom, type ExpireDeps, numbersOf, unitsOf } from './expire-segment.ts';
import { requireSegment } from './segment-state.ts';

export interface UndoExpiryResult {
  readonly segment: number;
  /** Entries that lost their expiry, or would lose it in a dry run. */
  readonly entries: number;
}

/**
 * Undoes the expiry of a segment if the table still has all of its entries, in three steps:
 * 1. Puts the segment on hold, so that any job that expires it ends.
 * 2. Removes the expiry from each entry, until no entry has one.
 * 3. Removes the segment's expiry.
 *
 * If the process dies between two steps, the segment still states that entries may be missing.
 * @throws SegmentNotFoundError if the segment does not exist
 * @throws SegmentStateError if entries are missing, or go missing during the work; the segment then
 * continues to expire
 */
export async function undoExpiry(
  deps: ExpireDeps,
  place: SegmentPlace,
  options: { readonly dryRun?: boolean } = {},
): Promise<UndoExpiryResult> {
  const segment = await requireSegment(deps.tables, place);
  if (segment.expiry === undefined) return { segment: place.segment, entries: 0 };
  const found = await pass(deps, place);
  if (!found.whole) throw incomplete(segment);
  if (options.dryRun === true) return { segment: place.segment, entries: found.stamped };
  const at = expiresAt(segment);
  const before: Expiry = at === undefined ? { state: 'on hold' } : { state: 'expiring', at };
  const expiry = { state: 'on hold' } as const;
  const held = { ...segment, expiry };
  if (!(await deps.tables.setExpiration(segment, expiry))) throw changedMeanwhile(segment);
  let entries = 0;
  // A running job may have stamped entries after the first pass read them.
  for (;;) {
    const { stamped, whole } = await pass(deps, place, held);
    entries += stamped;
    if (stamped > 0 && whole) continue;
    if (!(await deps.tables.setExpiration(held, whole ? undefined : before))) throw changedMeanwhile(segment);
    if (whole) return { segment: place.segment, entries };
    throw incomplete(segment);
  }
}

function incomplete({ log, segment, archive }: Segment): SegmentStateError {
  return new SegmentStateError('the table no longer has all entries of the segment', {
    log,
    segment,
    advice:
      archive === undefined
        ? "Run 'logfold policy LOG --no-archive' to expire the remaining entries too: no archive can restore the missing ones"
        : `Run 'logfold restore LOG ${segment}' to restore them`,
  });
}

/**
 * Removes the expiry from every entry that has one. Only counts these entries if `held` is
 * undefined.
 * @param held the segment, which is on hold
 * @throws SegmentStateError if the segment is no longer on hold
 */
async function pass(
  deps: ExpireDeps,
  { log, segment }: SegmentPlace,
  held?: SegmentPlace,
): Promise<{ readonly stamped: number; readonly whole: boolean }> {
  let [stamped, next] = [0, 0];
  let dense = true;
  let lastType: string | undefined;
  for await (const page of deps.tables.items(log, { segment, from: 0, to: MAX_NUMBER + 1 }, { consistent: true })) {
    for (const { N, T } of page) {
      dense &&= Number(N?.N) === next;
      next = Number(N?.N) + 1;
      lastType = T?.S;
    }
    const leaving = page.filter(({ X }) => X !== undefined);
    stamped += leaving.length;
    if (held !== undefined) await keep(deps, held, leaving);
    deps.onEntries?.(next);
  }
  return { stamped, whole: dense && lastType === deps.types.endSegment };
}

/**
 * Removes the expiry from items, only while the segment is on hold. Otherwise a job that expires it
 * would miss some.
 */
async function keep(
  { rateLimiter, tables }: ExpireDeps,
  held: SegmentPlace,
  items: readonly StoredItem[],
): Promise<void> {
  for (let done = 0; done < items.length; ) {
    const batch = batchFrom(items, done);
    await rateLimiter?.take(2 * unitsOf(batch));
    if (!(await tables.unexpireEntries(held, numbersOf(batch)))) throw changedMeanwhile(held);
    done += batch.length;
  }
}
