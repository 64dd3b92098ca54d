import { compileFunction } from 'node:vm';
import { z } from 'zod';
import type { Resource } from './template.ts';

const MINUTE = 60;

const metricSchema = z.object({
  Namespace: z.string(),
  MetricName: z.string(),
  Dimensions: z.tuple([z.object({ Name: z.string(), Value: z.string() })]),
});
const settingsSchema = z.object({
  EvaluationPeriods: z.number(),
  DatapointsToAlarm: z.number().optional(),
  Threshold: z.number(),
  ComparisonOperator: z.enum(['GreaterThanThreshold', 'LessThanThreshold']),
  TreatMissingData: z.enum(['notBreaching', 'breaching', 'ignore', 'missing']),
});
const statSchema = z.enum(['Sum', 'Maximum']);
const oneMetricSchema = metricSchema.extend({ Statistic: statSchema, Period: z.number() });
const mathSchema = z.object({
  Metrics: z.tuple(
    [z.object({ Id: z.string(), Expression: z.string() })],
    z.object({ Id: z.string(), MetricStat: z.object({ Metric: metricSchema, Stat: statSchema, Period: z.number() }) }),
  ),
});

/** What was reported to CloudWatch. */
export class ReportedMetrics {
  /** Per metric and minute. */
  readonly #minutes = new Map<string, Map<number, number[]>>();

  /**
   * @param of the value of the metric's one dimension
   * @param at seconds
   */
  report(namespace: string, name: string, of: string, at: number, value: number): void {
    const key = JSON.stringify([namespace, name, of]);
    const minutes = this.#minutes.get(key) ?? new Map<number, number[]>();
    this.#minutes.set(key, minutes);
    const minute = Math.floor(at / MINUTE);
    minutes.set(minute, [...(minutes.get(minute) ?? []), value]);
  }

  /** One statistic of a metric over a time; NaN if nothing was reported then. Both ends are whole minutes, in seconds. */
  reader(metric: z.infer<typeof metricSchema>, stat: z.infer<typeof statSchema>): (from: number, to: number) => number {
    const minutes = this.#minutes.get(
      JSON.stringify([metric.Namespace, metric.MetricName, metric.Dimensions[0].Value]),
    );
    return (from, to) => {
      if (minutes === undefined) return Number.NaN;
      const values: number[] = [];
      for (let minute = from / MINUTE; minute < to / MINUTE; minute++) values.push(...(minutes.get(minute) ?? []));
      if (values.length === 0) return Number.NaN;
      return stat === 'Sum' ? values.reduce((sum, value) => sum + value) : Math.max(...values);
    };
  }
}

/**
 * When an alarm is in the state ALARM, evaluated as CloudWatch documents it: M of N datapoints, missing data, metric math.
 * Source: Amazon CloudWatch User Guide, "Alarm evaluation" and "Using metric math".
 * @param times when it is evaluated, in seconds, ascending
 * @returns those times at which it is in ALARM
 */
export function alarmTimes({ properties }: Resource, metrics: ReportedMetrics, times: readonly number[]): number[] {
  const settings = settingsSchema.parse(properties);
  const { valueAt, period } = 'Metrics' in properties ? mathOf(properties, metrics) : metricOf(properties, metrics);
  const { EvaluationPeriods: periods, DatapointsToAlarm: needed = periods, Threshold: threshold } = settings;
  const greater = settings.ComparisonOperator === 'GreaterThanThreshold';
  let isAlarm = false;
  return times.filter((time) => {
    const values = Array.from({ length: periods }, (_, i) => valueAt(time - (i + 1) * period, time - i * period));
    const there = values.filter((value) => !Number.isNaN(value));
    const missing = settings.TreatMissingData === 'breaching' ? values.length - there.length : 0;
    const breaching = there.filter((value) => (greater ? value > threshold : value < threshold)).length + missing;
    const holds = settings.TreatMissingData === 'ignore' && there.length === 0;
    if (!holds) isAlarm = breaching >= needed;
    return isAlarm;
  });
}

interface Watched {
  readonly valueAt: (from: number, to: number) => number;
  readonly period: number;
}

function metricOf(properties: unknown, metrics: ReportedMetrics): Watched {
  const { Statistic, Period: period, ...metric } = oneMetricSchema.parse(properties);
  return { period, valueAt: metrics.reader(metric, Statistic) };
}

function mathOf(properties: unknown, metrics: ReportedMetrics): Watched {
  const [{ Expression }, ...watched] = mathSchema.parse(properties).Metrics;
  const periods = new Set(watched.map(({ MetricStat }) => MetricStat.Period));
  const [period] = periods;
  if (periods.size !== 1 || period === undefined) throw new Error('the metrics have not one period');
  // These expressions mean in JavaScript what they mean in metric math, with NaN for what is missing.
  const evaluate = compileFunction(`return ${Expression}`, ['FILL', ...watched.map(({ Id }) => Id)]);
  const readers = watched.map(({ MetricStat }) => metrics.reader(MetricStat.Metric, MetricStat.Stat));
  return { period, valueAt: (from, to) => Number(evaluate(fill, ...readers.map((read) => read(from, to)))) };
}

function fill(value: number, missing: number): number {
  return Number.isNaN(value) ? missing : value;
}
