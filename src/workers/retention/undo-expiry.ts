import { SegmentStateError } from '../../errors.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { SegmentPlace } from '../../log/log-store.ts';
import { type Expiry, expiresAt, type Segment } from '../../log/segment.ts';
import type { ExpireDeps } from './expire-segment.ts';
import { batchFrom, numbersOf, unitsOf } from './expire-segment.ts';
import { changedMeanwhile, requireSegment } from './segment-state.ts';

export interface UndoExpiryResult {
  readonly segment: number;
  /** Entries whose expiry was taken away, or would be. */
  readonly entries: number;
}

/**
 * Takes back that a segment expires, as long as all of its entries are there. The segment says first that they leave in
 * another century, so that a job which is letting them go ends; then each entry loses its expiry, until none has one;
 * and only then the segment says that they stay. So one who dies on the way leaves a segment that still says that
 * entries may be gone.
 * @throws SegmentNotFoundError where there is no such segment
 * @throws SegmentStateError where entries are gone already, or go meanwhile: it goes on expiring then
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
  // A job that was under way may have stamped some behind the back of the first pass.
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
  return new SegmentStateError('entries of the segment are gone already', {
    log,
    segment,
    advice:
      archive === undefined
        ? "Run 'logfold policy LOG --no-archive', so that the rest goes as well: no archive can bring them back"
        : `Run 'logfold restore LOG ${segment}' to have them back`,
  });
}

/**
 * Takes the expiry from every entry that has one; only counts them where the segment is not held.
 * @throws SegmentStateError where a job lets them go again
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

/** Only while the segment is held: behind the back of a job that lets its entries go again, some would stay for ever. */
async function keep({ pace, tables }: ExpireDeps, held: SegmentPlace, items: readonly StoredItem[]): Promise<void> {
  for (let done = 0; done < items.length; ) {
    const batch = batchFrom(items, done);
    await pace?.take(2 * unitsOf(batch));
    if (!(await tables.unexpireEntries(held, numbersOf(batch)))) throw changedMeanwhile(held);
    done += batch.length;
  }
}
