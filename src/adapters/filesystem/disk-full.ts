import { DiskFullError } from '../../errors.ts';

/** Error codes of a disk that is full, over quota or read-only. */
const NO_ROOM: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS']);

/**
 * The error of a write into a directory.
 * @returns a DiskFullError if the disk takes no more data; any other error unchanged
 */
export function translateDiskFull(error: unknown, directory: string): unknown {
  if (!(error instanceof Error) || !('code' in error) || !NO_ROOM.has(error.code)) return error;
  return new DiskFullError(`the disk of '${directory}' takes no more data: ${error.message}`, {
    advice: 'Make room on that disk, then run the command again',
    cause: error,
  });
}
