import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import type { Context } from 'aws-lambda';
import { repairJsonParse } from '../src/adapters/platform/json-parse.ts';
import { type FunctionEvent, reportEvent } from '../src/functions/function-event.ts';
import type { Invocation } from '../src/functions/invocation.ts';
import { once } from './once.ts';

// Lambda's runtime looks JSON.parse up for each event, and loads this module before the first one.
repairJsonParse();

/** Writes JSON lines. The environment sets its service name and level. */
export const logger = new Logger();
const metrics = new Metrics();

/**
 * A handler for Lambda, with logs and metrics.
 * @param build makes the function; events of the function go to `report`
 * @param check runs before the first event. If it throws, the invocation fails and the next one
 * checks again
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
  const { level, message, fields, metrics: values } = reportEvent(event);
  logger[level](message, fields);
  for (const { name, unit, value } of values) metrics.addMetric(name, unit, value);
}
