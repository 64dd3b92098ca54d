import { Deployment, type Month } from './deployment.ts';
import type { UsageModel } from './model.ts';

const DAY_SECONDS = 24 * 3600;

/** A month of three deployments, from which all costs follow. */
export interface Months {
  /** One log, edited every day. */
  readonly active: Month;
  /** The same log, when nothing is left to archive, expire or collect. */
  readonly atRest: Month;
  /** No log. */
  readonly empty: Month;
}

/** Runs the three deployments. The counts are the same in every run, the times are not. */
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
