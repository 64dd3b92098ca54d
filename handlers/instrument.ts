import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import type { Context } from 'aws-lambda';
import type { FunctionEvent, Invocation } from '../src/functions/function-event.ts';
import { logLine } from '../src/functions/log-line.ts';
import { measures } from '../src/functions/metrics.ts';
import { once } from './once.ts';

/** JSON lines; name and level are the environment's. */
export const logger = new Logger();
const metrics = new Metrics();

/**
 * A function as Lambda calls it, with logs and metrics.
 * @param build makes the function, given where to report to
 * @param check what must hold before the first event is looked at; where it throws, so does the function, and the next
 * invocation asks again
 */
export function instrumented<Event, Answer>(
  build: (report: (event: FunctionEvent) => void) => (event: Event, invocation: Invocation) => Promise<Answer>,
  check: () => Promise<void> = async () => {},
): (event: Event, context: Context) => Promise<Answer> {
  const run = build(report);
  const ready = once(check);
  return async (event, context) => {
    logger.addContext(context);
    try {
      await ready();
      return await run(event, context);
    } catch (error) {
      logger.error('an invocation failed', { correlationId: context.awsRequestId, error });
      throw error;
    } finally {
      if (metrics.hasStoredMetrics()) metrics.publishStoredMetrics();
    }
  };
}

function report(event: FunctionEvent): void {
  const { level, message, fields } = logLine(event);
  logger[level](message, fields);
  for (const { name, unit, value } of measures(event)) metrics.addMetric(name, unit, value);
}
