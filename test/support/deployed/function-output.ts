import { z } from 'zod';

const emfSchema = z.looseObject({
  service: z.string(),
  _aws: z.object({
    Timestamp: z.number(),
    CloudWatchMetrics: z.array(
      z.object({
        Namespace: z.literal('logfold'),
        Dimensions: z.array(z.array(z.string())),
        Metrics: z.array(z.object({ Name: z.string(), Unit: z.enum(['Count', 'Seconds', 'Bytes']) })),
      }),
    ),
  }),
});
const lineSchema = z.looseObject({
  level: z.enum(['INFO', 'WARN', 'ERROR']),
  message: z.string(),
  service: z.string(),
  timestamp: z.iso.datetime(),
  function_request_id: z.uuid(),
  correlationId: z.string().min(1),
});

/** A line of a function's log. */
export type LogRecord = z.output<typeof lineSchema>;

/** One metric value, as CloudWatch extracts it from a function's output. */
export interface MetricValue {
  readonly service: string;
  readonly name: string;
  readonly value: number;
}

/**
 * Parses a function's standard output: log lines, and metrics in the Embedded Metric Format.
 * @throws Error if a line is neither
 */
export function parseOutput(lines: readonly string[]): { readonly log: LogRecord[]; readonly metrics: MetricValue[] } {
  const log: LogRecord[] = [];
  const metrics: MetricValue[] = [];
  for (const line of lines) {
    const json: unknown = JSON.parse(line);
    if (typeof json === 'object' && json !== null && '_aws' in json) metrics.push(...metricsOf(json));
    else log.push(lineSchema.parse(json));
  }
  return { log, metrics };
}

function metricsOf(json: unknown): MetricValue[] {
  const { service, _aws, ...values } = emfSchema.parse(json);
  return _aws.CloudWatchMetrics.flatMap(({ Dimensions, Metrics }) => {
    if (JSON.stringify(Dimensions) !== '[["service"]]')
      throw new Error(`other dimensions: ${JSON.stringify(Dimensions)}`);
    return Metrics.flatMap(({ Name: name }) =>
      z
        .union([z.number().transform((value) => [value]), z.array(z.number())])
        .parse(values[name])
        .map((value) => ({ service, name, value })),
    );
  });
}
