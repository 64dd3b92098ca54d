import { z } from 'zod';

/** What was measured of one thing, but for memory. */
export interface Measured {
  readonly seconds: number;
  readonly bytes: number;
  readonly objects: number;
  readonly requests: number;
}

/** What a worker is to do; one line of JSON. */
export const taskSchema = z.strictObject({
  /** `idle` loads all that the system needs and does nothing: its memory is Node's own. */
  kind: z.enum(['idle', 'prepare', 'run']),
  system: z.string(),
  /** Rows of the sheet in the usual size. */
  rows: z.int().min(1),
  /** Where the store is: empty, or with the phase's base in it. */
  directory: z.string(),
  /** The phase to run, or the one to prepare the base of. */
  phase: z.string(),
});

export type Task = Readonly<z.infer<typeof taskSchema>>;

/** A worker's answer; one line of JSON. */
export const reportSchema = z.strictObject({
  results: z.array(
    z.strictObject({
      system: z.string(),
      seconds: z.number(),
      bytes: z.number(),
      objects: z.number(),
      requests: z.number(),
    }),
  ),
  /** The process's peak memory when the clock stopped, in bytes. */
  peakBytes: z.number(),
});

export type Report = Readonly<z.infer<typeof reportSchema>>;

/** The most memory that this process has used so far, in bytes. */
export function peakBytes(): number {
  return process.resourceUsage().maxRSS * 1024;
}
