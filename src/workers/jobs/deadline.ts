import { TimeUpError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';

/** A time limit for work. Without a clock or a deadline there is no limit. */
export interface Deadline {
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** After this time work ends at the next safe point. Epoch milliseconds; none by default. */
  readonly deadline?: number | undefined;
}

/** Whether the time is up. */
export function isTimeUp({ now, deadline }: Deadline): boolean {
  return deadline !== undefined && now !== undefined && now() >= deadline;
}

/**
 * Ends work that a continuation cannot finish.
 * @param details `what` completes "time ran out before …"
 * @throws TimeUpError if the time is up
 */
export function checkTime(
  deadline: Deadline,
  log: LogId,
  { what, advice }: { readonly what: string; readonly advice: string },
): void {
  if (isTimeUp(deadline)) throw new TimeUpError(`time ran out before ${what}`, { log, advice });
}
