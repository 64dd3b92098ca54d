const SHARE = Number(process.env.LOGFOLD_RUN_SHARE ?? 1);

/** How often a property runs: `full` times in the long tests, a part of that in `npm test`. */
export function propertyRuns(full: number): number {
  return Math.ceil(full * SHARE);
}
