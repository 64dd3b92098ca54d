import { join } from 'node:path';
import { lock } from 'proper-lockfile';
import { EngineError } from '../errors.ts';

/** After this long without a sign of life the lock of a killed process is taken over, in milliseconds. */
const STALE_MS = 5_000;

/**
 * Runs a section that no other process runs for the same data directory at the same time: starting an engine, and
 * clearing away what a crash left of one.
 * @throws EngineError where the lock cannot be had within a minute, or was lost while the section ran
 */
export async function withStartLock<T>(dir: string, section: () => Promise<T>): Promise<T> {
  let lost: Error | undefined;
  let release: () => Promise<void>;
  try {
    release = await lock(dir, {
      lockfilePath: join(dir, 'engine.lock'),
      realpath: false,
      stale: STALE_MS,
      retries: { retries: 600, factor: 1, minTimeout: 50, maxTimeout: 100, randomize: true },
      onCompromised: (error) => {
        lost = error;
      },
    });
  } catch (cause) {
    throw new EngineError(`another process has been starting the engine of ${dir} for a minute`, { cause });
  }
  const result = await section().finally(async () => {
    if (lost === undefined) await release();
  });
  if (lost === undefined) return result;
  throw new EngineError(`the start of the engine of ${dir} was interrupted by another one`, {
    advice: 'Run the command again',
    cause: lost,
  });
}
