const SHARE = Number(process.env.LOGFOLD_RUN_SHARE ?? 1);

/**
 * Number of runs of a property: `full` in the long tests, a tenth of it in `npm test`.
 * @param least the fewest runs, if a tenth finds too little
 */
export function propertyRuns(full: number, least = 0): number {
  return Math.max(Math.ceil(full * SHARE), least);
}
