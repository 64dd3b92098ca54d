import { compileFunction } from 'node:vm';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type DeployedFunction, deployedFunctions } from '../support/deployed/deployed-functions.ts';
import { alarmsOf, type Resource, readTemplate, type Stack } from '../support/deployed/template.ts';

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
const statSchema = z.enum(['Sum', 'Maximum', 'SampleCount']);
const oneMetricSchema = metricSchema.extend({ Statistic: statSchema, Period: z.number() });
const mathSchema = z.object({
  Metrics: z.tuple(
    [z.object({ Id: z.string(), Expression: z.string() })],
    z.object({ Id: z.string(), MetricStat: z.object({ Metric: metricSchema, Stat: statSchema, Period: z.number() }) }),
  ),
});

/** The values that a deployment has reported to CloudWatch. */
class ReportedMetrics {
  /** The values of each metric by minute. */
  readonly #minutes = new Map<string, Map<number, number[]>>();

  /**
   * @param dimension the value of the metric's only dimension
   * @param at seconds
   */
  report(namespace: string, name: string, dimension: string, at: number, value: number): void {
    const key = JSON.stringify([namespace, name, dimension]);
    const minutes = this.#minutes.get(key) ?? new Map<number, number[]>();
    this.#minutes.set(key, minutes);
    const minute = Math.floor(at / MINUTE);
    minutes.set(minute, [...(minutes.get(minute) ?? []), value]);
  }

  /**
   * Computes one statistic of a metric over a period; NaN if the period has no values. Both ends
   * are whole minutes, in seconds.
   */
  reader(metric: z.infer<typeof metricSchema>, stat: z.infer<typeof statSchema>): (from: number, to: number) => number {
    const minutes = this.#minutes.get(
      JSON.stringify([metric.Namespace, metric.MetricName, metric.Dimensions[0].Value]),
    );
    return (from, to) => {
      if (minutes === undefined) return Number.NaN;
      const values: number[] = [];
      for (let minute = from / MINUTE; minute < to / MINUTE; minute++) values.push(...(minutes.get(minute) ?? []));
      if (values.length === 0) return Number.NaN;
      if (stat === 'SampleCount') return values.length;
      return stat === 'Sum' ? values.reduce((sum, value) => sum + value) : Math.max(...values);
    };
  }
}

/**
 * Evaluates an alarm as CloudWatch documents it: M of N datapoints, missing data, metric math.
 * Source: Amazon CloudWatch User Guide, "Alarm evaluation" and "Using metric math".
 * @param times the times of evaluation, in seconds, in ascending order
 * @returns the times at which the alarm is in the state ALARM
 */
function alarmTimes({ properties }: Resource, metrics: ReportedMetrics, times: readonly number[]): number[] {
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
  if (periods.size !== 1 || period === undefined) throw new Error('the metrics have different periods');
  // JavaScript evaluates these expressions as metric math does, with NaN for missing values.
  const evaluate = compileFunction(`return ${Expression}`, ['FILL', ...watched.map(({ Id }) => Id)]);
  const readers = watched.map(({ MetricStat }) => metrics.reader(MetricStat.Metric, MetricStat.Stat));
  return { period, valueAt: (from, to) => Number(evaluate(fill, ...readers.map((read) => read(from, to)))) };
}

function fill(value: number, missing: number): number {
  return Number.isNaN(value) ? missing : value;
}

const HOUR = 3600;
const DAY = 24 * HOUR;
/** The time of the deployment. No metric has values before it. */
const DEPLOYED = 10 * DAY;
const END = DEPLOYED + 5 * DAY;

/** Seconds between two sweeps: a short interval, the default, and the longest one. */
const SCHEDULES = [15 * MINUTE, HOUR, DAY];

let stack: Stack;
let functions: ReadonlyMap<string, DeployedFunction>;

beforeAll(() => {
  // With a division policy, the feed and revisions the stack has every alarm.
  const RevisionsStreamArn = 'arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-01-02T03:04:05.678';
  stack = readTemplate().expand({ parameters: { SnapshotEveryEntries: '100', Feed: 'on', RevisionsStreamArn } });
  functions = deployedFunctions(stack);
});

/** The name under which a function reports metrics. */
function serviceOf(id: string): string {
  return functions.get(id)?.environment.POWERTOOLS_SERVICE_NAME ?? '';
}

interface Sweep {
  readonly failed?: number;
  readonly stopped?: number;
  readonly missed?: number;
  readonly undivided?: number;
  readonly unusableStreams?: number;
  readonly spansMissed?: number;
  readonly feedAhead?: number;
  /** The feed could not be written. */
  readonly feedFailures?: number;
  /** The age of the oldest Snapshot entry without a snapshot, in seconds. */
  readonly oldest?: number;
  /** The sweep fails before its end. */
  readonly breaks?: boolean;
}

/** A deployment with the metrics that it reports. */
class Deployment {
  readonly metrics = new ReportedMetrics();

  constructor() {
    const queue = stack.attribute('SnapshotJobs', 'QueueName');
    for (let at = DEPLOYED; at < END; at += 10 * MINUTE) {
      this.metrics.report('AWS/SQS', 'ApproximateNumberOfMessagesVisible', queue, at, 0);
    }
  }

  sweep(
    at: number,
    {
      failed = 0,
      stopped = 0,
      missed = 0,
      undivided = 0,
      unusableStreams = 0,
      spansMissed = 0,
      feedAhead = 0,
      feedFailures,
      oldest = 0,
      breaks,
    }: Sweep = {},
  ): void {
    this.invoke('SweepFunction', at, breaks === true ? 1 : 0);
    if (breaks === true) return;
    const found = {
      LogsFailed: failed,
      LogsStopped: stopped,
      RecordsMissed: missed,
      LogsUndivided: undivided,
      UnusableStreams: unusableStreams,
      FeedAhead: feedAhead,
      ...(feedFailures === undefined ? { FeedSpansMissed: spansMissed } : { FeedFailures: feedFailures }),
      OldestUnsnapshottedSeconds: oldest,
    };
    for (const [name, value] of Object.entries(found)) {
      this.metrics.report('logfold', name, serviceOf('SweepFunction'), at, value);
    }
  }

  /** @param every seconds between two sweeps */
  sweeps(every: number, found: (at: number) => Sweep | undefined = () => ({})): void {
    // The first sweep comes as late as its schedule allows.
    for (let at = DEPLOYED + every - MINUTE; at < END; at += every) {
      const each = found(at);
      if (each !== undefined) this.sweep(at, each);
    }
  }

  invoke(id: string, at: number, errors = 0): void {
    const name = functions.get(id)?.name ?? '';
    this.metrics.report('AWS/Lambda', 'Invocations', name, at, 1);
    this.metrics.report('AWS/Lambda', 'Errors', name, at, errors);
  }

  /** Evaluates an alarm each hour. @returns the times at which it is in ALARM */
  alarms(id: string): number[] {
    const times = Array.from({ length: (END - DEPLOYED) / HOUR }, (_, i) => DEPLOYED + (i + 1) * HOUR);
    return alarmTimes(alarm(id), this.metrics, times);
  }
}

function alarm(id: string): Resource {
  const found = alarmsOf(stack).find((each) => each.id === id);
  if (found === undefined) throw new Error(`no alarm ${id}`);
  return found;
}

describe.each(SCHEDULES)('with a sweep every %i seconds', (every) => {
  test.each([true, false])('no alarm goes off in a healthy deployment (with entries: %s)', (busy) => {
    const deployment = new Deployment();
    deployment.sweeps(every);
    for (let at = DEPLOYED; busy && at < END; at += HOUR) deployment.invoke('StreamFunction', at);
    for (const { id } of alarmsOf(stack)) expect(deployment.alarms(id), id).toEqual([]);
  });

  test.each([
    ['StoppedLogsAlarm', { stopped: 1 }],
    ['SweepFailuresAlarm', { failed: 1 }],
    ['SweepErrorsAlarm', { breaks: true }],
    ['UnsnapshottedAlarm', { oldest: 7 * HOUR }],
    ['UndividedLogsAlarm', { undivided: 1 }],
    ['StreamUnusableAlarm', { unusableStreams: 1 }],
    ['FeedBehindAlarm', { spansMissed: 1 }],
    ['FeedAheadAlarm', { feedAhead: 1 }],
  ])('%s lasts from the first sweep that finds trouble to the first that finds none', (id, trouble) => {
    const deployment = new Deployment();
    const [begin, end] = [DEPLOYED + DAY, DEPLOYED + 3 * DAY];
    const seen: number[] = [];
    deployment.sweeps(every, (at) => {
      if (at < begin || at >= end) return {};
      seen.push(at);
      return trouble;
    });
    const times = deployment.alarms(id);
    const [first = 0, last = first] = [seen[0], seen.at(-1)];
    const [from = 0, to = 0] = [times[0], times.at(-1)];
    expect(from).toBeGreaterThan(first);
    expect(from).toBeLessThanOrEqual(first + HOUR);
    // One more hour: the last sweep with trouble and the first without may fall into one period.
    expect(to).toBeGreaterThan(last);
    expect(to).toBeLessThanOrEqual(last + every + HOUR);
    expect(times, 'without a gap').toHaveLength((to - from) / HOUR + 1);
  });

  test('SweepMissing goes off within 28 hours of the last sweep and ends with the next sweep', () => {
    const deployment = new Deployment();
    const [last, next] = [DEPLOYED + DAY, DEPLOYED + 4 * DAY];
    deployment.sweeps(every, (at) => (at <= last || at > next ? {} : undefined));
    const times = deployment.alarms('SweepMissingAlarm');
    expect(times[0]).toBeLessThanOrEqual(last + 28 * HOUR);
    expect(times[0]).toBeGreaterThan(last + 24 * HOUR);
    expect(times.at(-1)).toBeLessThanOrEqual(next + every + HOUR);
  });
});

test.each([
  ['no sweep ever comes', undefined, false],
  ['every sweep fails', { breaks: true }, false],
  ['the function only looks for logs to adopt', undefined, true],
])('SweepMissing goes off within 28 hours of the deployment if %s', (_, found, adopts) => {
  const deployment = new Deployment();
  deployment.sweeps(HOUR, () => found);
  for (let at = DEPLOYED; adopts && at < END; at += HOUR) deployment.invoke('SweepFunction', at);
  const [first] = deployment.alarms('SweepMissingAlarm');
  expect(first).toBeGreaterThan(DEPLOYED + DAY);
  expect(first).toBeLessThanOrEqual(DEPLOYED + 28 * HOUR);
});

test.each(SCHEDULES)('StreamSilent detects a disabled trigger with a sweep every %i seconds', (every) => {
  const deployment = new Deployment();
  const disabled = DEPLOYED + DAY;
  for (let at = DEPLOYED; at < disabled; at += HOUR) deployment.invoke('StreamFunction', at);
  deployment.sweeps(every, (at) => ({ missed: at > disabled ? 3 : 0 }));
  const [first] = deployment.alarms('StreamSilentAlarm');
  expect(first).toBeGreaterThan(disabled);
  expect(first).toBeLessThanOrEqual(disabled + 2 * DAY);
});

test('StreamSilent does not go off for late snapshots if the stream function is invoked', () => {
  const deployment = new Deployment();
  for (let at = DEPLOYED; at < END; at += 12 * HOUR) deployment.invoke('StreamFunction', at);
  deployment.sweeps(HOUR, () => ({ missed: 3 }));
  expect(deployment.alarms('StreamSilentAlarm')).toEqual([]);
});

/** Reports what a comparison found each day, and the changes that the stream brought. */
function comparisons(found: (at: number) => Readonly<Record<string, number>>, changesUntil = END): Deployment {
  const deployment = new Deployment();
  for (let at = DEPLOYED + HOUR; at < END; at += DAY) {
    deployment.invoke('RevisionsFunction', at);
    for (const [name, value] of Object.entries(found(at))) {
      deployment.metrics.report('logfold', name, serviceOf('RevisionsFunction'), at, value);
    }
  }
  const mapping = stack.nested('RevisionsStack').ref('RevisionsFunctionStream');
  for (let at = DEPLOYED; at < changesUntil; at += HOUR) {
    deployment.metrics.report('AWS/Lambda', 'InvokedEventCount', mapping, at, 3);
  }
  return deployment;
}

test('RevisionsSilent detects a disabled trigger, although comparisons invoke the function', () => {
  const disabled = DEPLOYED + DAY;
  const waiting = (at: number) => ({ DifferencesWaiting: at > disabled ? 5 : 0 });
  const [first] = comparisons(waiting, disabled).alarms('RevisionsSilentAlarm');
  expect(first).toBeGreaterThan(disabled);
  expect(first).toBeLessThanOrEqual(disabled + 2 * DAY);
  expect(comparisons(waiting).alarms('RevisionsSilentAlarm')).toEqual([]);
  expect(comparisons(() => ({ DifferencesWaiting: 0 }), disabled).alarms('RevisionsSilentAlarm')).toEqual([]);
});

test('CompareIncomplete lasts until a comparison comes to its end', () => {
  const end = DEPLOYED + 3 * DAY;
  const deployment = comparisons((at) => ({ CompareIncompleteSeconds: at < end ? 7 * DAY + 1 : 0 }));
  const times = deployment.alarms('CompareIncompleteAlarm');
  expect(times[0]).toBe(DEPLOYED + 2 * HOUR);
  expect(times.at(-1)).toBe(end + HOUR);
  expect(comparisons(() => ({ CompareIncompleteSeconds: 6 * DAY })).alarms('CompareIncompleteAlarm')).toEqual([]);
});

test('FeedFailing detects a sweep that cannot write to the feed', () => {
  const deployment = new Deployment();
  deployment.sweeps(HOUR, (at) => (at > DEPLOYED + DAY ? { feedFailures: 1 } : {}));
  const [first] = deployment.alarms('FeedFailingAlarm');
  expect(first).toBeGreaterThan(DEPLOYED + DAY);
  expect(first).toBeLessThanOrEqual(DEPLOYED + DAY + 2 * HOUR);
});

test.each([
  [1, false],
  [12, true],
])('FeedFailing with %i failures of the stream function in an hour: %s', (failures, goesOff) => {
  const deployment = new Deployment();
  for (let i = 0; i < failures; i++) {
    deployment.metrics.report('logfold', 'FeedFailures', serviceOf('StreamFunction'), DEPLOYED + i * MINUTE, 1);
  }
  expect(deployment.alarms('FeedFailingAlarm')).toEqual(goesOff ? [DEPLOYED + HOUR] : []);
});

test('Throttles watches every function, and RevisionsErrors that of revisions', () => {
  for (const { id, name } of functions.values()) {
    const deployment = new Deployment();
    for (let at = DEPLOYED; at < END; at += MINUTE) {
      deployment.metrics.report('AWS/Lambda', 'Throttles', name, at, 1);
    }
    const alarmOf = id === 'RevisionsFunction' ? 'RevisionsErrorsAlarm' : 'ThrottlesAlarm';
    expect(deployment.alarms(alarmOf).length, id).toBeGreaterThan(100);
  }
});

test('no alarm evaluates more than a day, or more than a week with periods of an hour', () => {
  for (const { id, properties } of alarmsOf(stack)) {
    const periods = [...JSON.stringify(properties).matchAll(/"Period":(\d+)/g)].map(([, seconds]) => Number(seconds));
    for (const period of periods) {
      const seconds = period * Number(properties.EvaluationPeriods);
      expect(seconds, id).toBeLessThanOrEqual(period < HOUR ? DAY : 7 * DAY);
    }
  }
});
