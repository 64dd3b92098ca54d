import { setTimeout as sleep } from 'node:timers/promises';
import { lock } from 'proper-lockfile';
import { FileLockError } from '../../errors.ts';

/** After this long without a sign of life the lock of a killed process is taken over, in milliseconds. */
const STALE_MS = 5_000;
/** Tries to get a lock, and the pause between two of them in milliseconds: a minute in all. */
const TRIES = 1_200;
const PAUSE_MS = 50;

/**
 * Runs a section that no other holder of the same lock runs at the same time, in this process or in another one.
 * @param path where the lock lies while it is held; its directory must exist
 * @throws FileLockError if others hold the lock for a minute, or took it over while the section ran
 * @throws the file system's own error if the lock cannot be made there
 */
export async function withFileLock<T>(path: string, section: () => Promise<T>): Promise<T> {
  let lost: Error | undefined;
  const release = await acquire(path, (error) => {
    lost = error;
  });
  const result = await section().finally(async () => {
    if (lost === undefined) await release();
  });
  if (lost === undefined) return result;
  throw new FileLockError(`another process took the lock '${path}' over`, { advice: 'Try again', cause: lost });
}

async function acquire(path: string, onCompromised: (error: Error) => void): Promise<() => Promise<void>> {
  for (let tries = 1; ; tries++) {
    try {
      return await lock(path, { lockfilePath: path, realpath: false, stale: STALE_MS, onCompromised });
    } catch (error) {
      // Only a lock that is held becomes free by waiting.
      if (!(error instanceof Error && 'code' in error && error.code === 'ELOCKED')) throw error;
      if (tries < TRIES) await sleep(PAUSE_MS);
      else {
        const advice = 'Wait until the other process ends, or end it, then try again';
        throw new FileLockError(`another process has held the lock '${path}' for a minute`, { advice, cause: error });
      }
    }
  }
}
