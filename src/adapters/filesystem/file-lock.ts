import { setTimeout as sleep } from 'node:timers/promises';
import { lock } from 'proper-lockfile';
import { FileLockError } from '../../errors.ts';

/** Milliseconds without a sign of life after which another process takes over a lock. */
const STALE_MS = 5_000;
/** Attempts to get a lock, and the pause between them in milliseconds: a minute altogether. */
const TRIES = 1_200;
const PAUSE_MS = 50;

/**
 * Runs a section while it holds a lock, which excludes this process and others.
 * @param path of the lock file; its directory must exist
 * @throws FileLockError if others hold the lock for a minute, or took it over while the section ran
 * @throws the file system's error if the lock file cannot be created
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
  throw new FileLockError(`another process took over the lock '${path}'`, { advice: 'Try again', cause: lost });
}

async function acquire(path: string, onCompromised: (error: Error) => void): Promise<() => Promise<void>> {
  for (let tries = 1; ; tries++) {
    try {
      return await lock(path, { lockfilePath: path, realpath: false, stale: STALE_MS, onCompromised });
    } catch (error) {
      // Waiting helps only if the lock is held.
      if (!(error instanceof Error && 'code' in error && error.code === 'ELOCKED')) throw error;
      if (tries < TRIES) await sleep(PAUSE_MS);
      else {
        const advice = 'Wait until the other process ends, or end it, then try again';
        throw new FileLockError(`another process has held the lock '${path}' for a minute`, { advice, cause: error });
      }
    }
  }
}
