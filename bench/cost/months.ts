import { Deployment, type Month } from './deployment.ts';
import type { UsageModel } from './model.ts';

const DAY_SECONDS = 24 * 3600;

/** A month of three deployments: of what they ask, everything else follows. */
export interface Months {
  /** With one log, on which somebody works every day. */
  readonly active: Month;
  /** With the same log, long after the last edit: whatever becomes of it has become of it. */
  readonly atRest: Month;
  /** With no log at all. */
  readonly empty: Month;
}

/** Runs them. Counts are the same each time, times are not. */
export async function runMonths(model: UsageModel): Promise<Months> {
  const deployment = new Deployment(model);
  await deployment.createLog();
  await deployment.pass(model.ageDays, true);
  const active = await deployment.month(true);
  const { keepDays, graceSeconds } = model.policy;
  await deployment.pass(Math.ceil(keepDays + (2 * graceSeconds) / DAY_SECONDS) + 1, false);
  const atRest = await deployment.month(false);
  return { active, atRest, empty: await new Deployment(model).month(false) };
}
