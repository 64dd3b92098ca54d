import type { Stopwatch } from '../stopwatch.ts';
import type { Workload } from '../workload.ts';

/** The ways to read a log that the phase `read` compares. */
export const READ_SYSTEM_NAMES = ['logfold', 'sdk-loop', 'floor'] as const;

export type ReadSystemName = (typeof READ_SYSTEM_NAMES)[number];

/** A log that an engine serves. */
export interface LogSource {
  readonly endpoint: string;
  /** The entries of the log. */
  readonly workload: Workload;
  /** A directory for a blob store. */
  readonly directory: string;
}

export interface LogRead {
  /** Items before the Snapshot entry at the end of the log. */
  readonly entries: number;
  /** Requests to DynamoDB that read. */
  readonly requests: number;
  /** Read units of these requests. */
  readonly readUnits: number;
  /** Objects written. */
  readonly objects: number;
  /** Checks what was read, and closes connections. Not part of the measurement. */
  readonly finish: () => Promise<void>;
}

/** Reads all entries of a log once, with the clock. */
export type ReadSystem = (source: LogSource, clock: Stopwatch) => Promise<LogRead>;

/** Imports one system only, since the modules of others would add to the memory of the process. */
export async function loadReadSystem(name: ReadSystemName): Promise<ReadSystem> {
  switch (name) {
    case 'logfold':
      return (await import('./logfold.ts')).buildSnapshot;
    case 'sdk-loop':
      return (await import('./sdk-loop.ts')).queryPages;
    case 'floor':
      return (await import('./floor.ts')).receivePages;
  }
}
