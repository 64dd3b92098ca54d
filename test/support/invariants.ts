/** The invariants of docs/invariants.md. Tests carry their names as tags. */
export const INVARIANTS = {
  I1: 'The snapshot at P is the fold of all entries before P',
  I2: 'Last Snapshot never moves back and never names an unreadable snapshot',
  I3: 'No entry leaves the table before its segment is covered and any required archive is verified',
  I4: 'No chunk is deleted if a kept root reaches it or if it is younger than the grace period',
  I5: 'Duplicate, reordered or lost records and crashes do not change the outcome',
  I6: 'One poisoned log delays no other log',
  I7: 'Nothing is skipped silently',
  I8: 'A confirmed write exists exactly once',
  I9: 'A fold depends neither on snapshot positions, nor on batch sizes, nor on the decoder',
  I10: 'The feed has each entry of each log once, in the order of the log',
  I11: 'Each recorded change of a plain table is one revision',
  I12: 'An edit reaches what its author saw, or its author is told that it does not',
} as const;
