import { TimeUpError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';

/** When work is to end. Without a clock or a deadline it has all the time it wants. */
export interface Deadline {
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
  /** From then on work ends at the next place where it can. Epoch milliseconds; none by default. */
  readonly deadline?: number | undefined;
}

/** Whether the time is up. */
export function isTimeUp({ now, deadline }: Deadline): boolean {
  return deadline !== undefined && now !== undefined && now() >= deadline;
}

/**
 * Ends work whose time is up and that cannot go on in another turn.
 * @throws TimeUpError
 */
export function checkTime(
  deadline: Deadline,
  log: LogId,
  { what, advice }: { readonly what: string; readonly advice: string },
): void {
  if (isTimeUp(deadline)) throw new TimeUpError(`the time was up before ${what}`, { log, advice });
}
