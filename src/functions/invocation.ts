import * as z from 'zod';
import { UsageError } from '../errors.ts';

/**
 * Milliseconds that work has left when its time is up. A job then flushes up to tens of megabytes
 * of edits, writes chunks and root, and sends its continuation. Other work finishes the current
 * logs and writes its note. This takes a few seconds in most cases. The rest is for the retries of
 * a slow store. The margin takes one of the 15 minutes.
 */
export const MARGIN_MS = 60_000;

/** The part of Lambda's context that functions use. */
export interface Invocation {
  readonly awsRequestId: string;
  getRemainingTimeInMillis(): number;
}

/** When work must end, in epoch milliseconds: {@link MARGIN_MS} before its time is up. */
export function deadlineOf(invocation: Invocation, { now }: { readonly now: () => number }): number {
  return now() + invocation.getRemainingTimeInMillis() - MARGIN_MS;
}

/**
 * Parses the event of a function that operators invoke. The error names the function.
 * @throws UsageError if the event is malformed
 */
export function parseEvent<T>(
  schema: z.ZodType<T>,
  event: unknown,
  { name, advice }: { readonly name: string; readonly advice: string },
): T {
  const parsed = schema.safeParse(event);
  if (parsed.success) return parsed.data;
  throw new UsageError(`the event of the ${name} function is malformed: ${z.prettifyError(parsed.error)}`, { advice });
}
