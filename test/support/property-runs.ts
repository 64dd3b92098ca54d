const SHARE = Number(process.env.LOGFOLD_RUN_SHARE ?? 1);

/** Number of runs of a property: `full` in the long tests, a fraction of it in `npm test`. */
export function propertyRuns(full: number): number {
  return Math.ceil(full * SHARE);
}
