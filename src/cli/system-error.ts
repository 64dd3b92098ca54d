/** Whether the operating system refused something, such as a file that is not there: it is no fault of the program. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

/** Whether nobody reads any more what this process writes, as with `logfold export LOG | head -1`. */
export function isBrokenPipe(error: unknown): boolean {
  return isSystemError(error) && error.code === 'EPIPE';
}
