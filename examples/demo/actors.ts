import { type Environment, openEnvironment } from '../../src/cli/environment.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';

/**
 * The participants of the demo. Each has its own connections, so that requests count separately.
 */
export interface Actors {
  /** Edits the table: appends edits and Snapshot entries. */
  readonly team: Environment;
  /** Reads the stream and builds snapshots. */
  readonly pipeline: Environment;
  /** Loads a part of the table. */
  readonly client: Environment;
  /** Reads the stored objects for the report. Its requests do not count. */
  readonly auditor: Environment;
  readonly close: () => Promise<void>;
}

/** Starts the engine in a directory and connects every actor. */
export async function openActors(directory: string): Promise<Actors> {
  const opened: Environment[] = [];
  const close = async () => {
    for (const environment of opened) await environment.close();
  };
  const open = async () => {
    const { snapshot: snapshotType, endSegment: endSegmentType } = RESERVED_TYPES;
    const environment = await openEnvironment({ local: directory, creates: true, snapshotType, endSegmentType });
    opened.push(environment);
    return environment;
  };
  try {
    return { team: await open(), pipeline: await open(), client: await open(), auditor: await open(), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Pseudorandom choices, the same in every run: Lehmer's generator with the multiplier 48271. */
export class Choices {
  #state: number;

  /** @param seed from 1 to 2^31 - 2 */
  constructor(seed: number) {
    this.#state = seed;
  }

  /** A whole number from 0 up to but not including `end`. */
  below(end: number): number {
    this.#state = (this.#state * 48271) % 0x7fffffff;
    return Math.floor((this.#state / 0x7fffffff) * end);
  }
}
