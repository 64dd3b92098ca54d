import { z } from 'zod';

/** The measurements of a system or part, without memory. */
export interface Measured {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly bytes: number;
  readonly objects: number;
  readonly requests: number;
}

/** The task of a worker, as one line of JSON. */
export const taskSchema = z.strictObject({
  /** `idle` only loads the modules of the system. It measures the memory of Node itself. */
  kind: z.enum(['idle', 'prepare', 'run']),
  system: z.string(),
  /** Rows of the sheet at scale 1. */
  rows: z.int().min(1),
  /** The directory of the store. It is empty or holds the phase's base. */
  directory: z.string(),
  /** The phase to run or to prepare the base for. */
  phase: z.string(),
});

export type Task = Readonly<z.infer<typeof taskSchema>>;

const measuredSchema = z.strictObject({
  system: z.string(),
  seconds: z.number(),
  cpuSeconds: z.number(),
  bytes: z.number(),
  objects: z.number(),
  requests: z.number(),
});

/** The answer of a worker, as one line of JSON. */
export const reportSchema = z.strictObject({
  results: z.array(measuredSchema),
  /** The process's peak memory when the clock stopped, in bytes. */
  peakBytes: z.number(),
});

export type Report = Readonly<z.infer<typeof reportSchema>>;

/** A run of the benchmark, as `npm run bench -- --json` prints it. */
export const runSchema = z.strictObject({
  machine: z.string(),
  repeat: z.int().min(1),
  /** Rows of the sheet at scale 1. */
  rows: z.int().min(1),
  results: z.array(measuredSchema.extend({ phase: z.string(), peakMB: z.number() })),
});

export type Run = Readonly<z.infer<typeof runSchema>>;

/** The most memory that this process has used so far, in bytes. */
export function peakBytes(): number {
  return process.resourceUsage().maxRSS * 1024;
}
