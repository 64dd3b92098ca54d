import { mkdtempSync, rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Files and directories that must not outlive this process. */
const paths = new Set<string>();

/**
 * Removes a file or directory when the process exits. This includes exits by a signal that the
 * process handles.
 * @returns a function to call after the path was removed or renamed
 */
export function removeAtExit(path: string): () => void {
  if (paths.size === 0) process.on('exit', removeAll);
  paths.add(path);
  return () => {
    paths.delete(path);
    if (paths.size === 0) process.off('exit', removeAll);
  };
}

/**
 * A directory in the system's temporary directory. It exists until `remove` or until the process
 * exits.
 */
export interface TemporaryDirectory {
  readonly path: string;
  readonly remove: () => void;
}

/** @param prefix of its name, such as `logfold-input-` */
export function makeTemporaryDirectory(prefix: string): TemporaryDirectory {
  // Synchronous, so that no signal arrives between the creation of the directory and
  // `removeAtExit`.
  const path = mkdtempSync(join(tmpdir(), prefix));
  const forget = removeAtExit(path);
  const remove = (): void => {
    rmSync(path, { recursive: true, force: true });
    forget();
  };
  return { path, remove };
}

/**
 * Removes the temporary directories that killed processes left. Call it only if no other running
 * process uses the system's temporary directory, because it removes their directories too.
 * @param prefix as given to `makeTemporaryDirectory`
 */
export async function removeAbandonedDirectories(prefix: string): Promise<void> {
  const parent = tmpdir();
  for (const name of await readdir(parent)) {
    const path = join(parent, name);
    if (name.startsWith(prefix) && !paths.has(path)) await rm(path, { recursive: true, force: true });
  }
}

function removeAll(): void {
  for (const path of paths) rmSync(path, { recursive: true, force: true });
}
