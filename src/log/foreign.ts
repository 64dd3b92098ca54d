import type { LogId } from '../ids/log-id.ts';
import { formatPosition } from '../ids/position.ts';
import type { Segment } from './segment.ts';

/**
 * Something that another program wrote where logfold writes its own, and that does not have
 * logfold's form. It is the archive of a segment (`A`), its Last Snapshot (`L`), or the root on a
 * Snapshot entry (`B` or `E`). logfold leaves it alone and passes over it.
 */
export interface ForeignPart {
  readonly kind: 'archive' | 'pointer' | 'root';
  readonly log: LogId;
  readonly segment: number;
  /** The entry that carries the root, or that a Last Snapshot names. */
  readonly entry?: number | undefined;
}

/** How many parts of each kind were found. */
export interface ForeignCounts {
  readonly archives: number;
  readonly pointers: number;
  readonly roots: number;
}

/** Something foreign in words, without its log and without a full stop. */
export function describeForeign({ kind, segment, entry = 0 }: ForeignPart): string {
  switch (kind) {
    case 'archive':
      return `another program wrote the archive name 'A' of segment ${segment}`;
    case 'pointer':
      return `another program wrote the Last Snapshot 'L' of segment ${segment}`;
    case 'root':
      return `another program wrote a body onto the Snapshot entry ${formatPosition({ segment, entry })}`;
  }
}

/** A notice for people: something foreign, in a sentence. */
export function foreignNotice(part: ForeignPart): string {
  return `Log ${part.log}: ${describeForeign(part)}. logfold leaves it alone and passes over it.`;
}

/** Calls a function once for each part, however often a caller meets it. */
export function oncePerPart(report: (part: ForeignPart) => void): (part: ForeignPart) => void {
  const reported = new Set<string>();
  return (part) => {
    const name = foreignNotice(part);
    if (reported.has(name)) return;
    reported.add(name);
    report(part);
  };
}

/** Counts parts by their kind. */
export function countForeign(parts: readonly ForeignPart[]): ForeignCounts {
  const count = (kind: ForeignPart['kind']): number => parts.filter((part) => part.kind === kind).length;
  return { archives: count('archive'), pointers: count('pointer'), roots: count('root') };
}

/** The foreign parts that the item of a segment shows, without a request. */
export function foreignOf({ log, segment, foreign = {} }: Segment): ForeignPart[] {
  const { A, L } = foreign;
  const parts: ForeignPart[] = [];
  if (A !== undefined) parts.push({ kind: 'archive', log, segment });
  if (L !== undefined) parts.push({ kind: 'pointer', log, segment });
  return parts;
}
