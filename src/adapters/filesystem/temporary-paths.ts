import { mkdtempSync, rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Files and directories that must not outlive this process. */
const paths = new Set<string>();

/**
 * Removes a file or directory when the process exits, by a signal too if something handles the signal.
 * @returns what to call once the path is removed or renamed
 */
export function removeAtExit(path: string): () => void {
  if (paths.size === 0) process.on('exit', removeAll);
  paths.add(path);
  return () => {
    paths.delete(path);
    if (paths.size === 0) process.off('exit', removeAll);
  };
}

/** A directory in the system's temporary directory. It is gone after `remove`, or else when the process exits. */
export interface TemporaryDirectory {
  readonly path: string;
  readonly remove: () => void;
}

/** @param prefix of its name, such as `logfold-append-` */
export function makeTemporaryDirectory(prefix: string): TemporaryDirectory {
  // Synchronous, so that no signal comes between making the directory and noting its name.
  const path = mkdtempSync(join(tmpdir(), prefix));
  const forget = removeAtExit(path);
  const remove = (): void => {
    rmSync(path, { recursive: true, force: true });
    forget();
  };
  return { path, remove };
}

/**
 * Removes the temporary directories that killed processes left. Call it only if no other process that lives shares the
 * system's temporary directory: it removes their directories too.
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
