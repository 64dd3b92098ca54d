import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { PRICES } from '../../../examples/demo/prices.ts';
import { reportEvent } from '../../../src/functions/function-event.ts';
import {
  ADOPT_KEY,
  COMPARE_KEY,
  CONDEMNED_PREFIX,
  IDS_PREFIX,
  LOGS_PREFIX,
  POLICIES_KEY,
  SWEEP_KEY,
} from '../../../src/store/keys.ts';
import { deployedFunctions } from '../../support/deployed/deployed-functions.ts';
import {
  COMPLETE,
  functionOf,
  MAPPED,
  own,
  ROOT,
  resourceOf,
  stackOf,
  TOPIC,
  template,
} from '../../support/deployed/stacks.ts';
import { alarmsOf, allStacks, type Resource, type Stack } from '../../support/deployed/template.ts';

/** The nested stack with the alarms and the dashboard. */
const monitoring = own.nested('MonitoringStack');
/** A stack with every optional feature. */
const complete = stackOf(COMPLETE);

describe('alarms and the dashboard', () => {
  const emitted = (): Set<string> => {
    const source = globSync('src/{functions,workers}/**/*.ts', { cwd: ROOT })
      .map((file) => readFileSync(join(ROOT, file), 'utf8'))
      .join('');
    return new Set([...source.matchAll(/Metric\(\s*'(\w+)'/g)].flatMap(([, name]) => name ?? []));
  };
  const metricSchema = z
    .object({
      Namespace: z.string(),
      MetricName: z.string(),
      Dimensions: z.tuple([z.object({ Name: z.string(), Value: z.string() })]),
    })
    .transform(({ Namespace, MetricName, Dimensions: [{ Value }] }) => {
      return { namespace: Namespace, name: MetricName, value: Value };
    });
  const queriesSchema = z.array(z.object({ MetricStat: z.object({ Metric: metricSchema }).optional() }));
  const watchedBy = ({ properties }: Resource) =>
    properties.Metrics === undefined
      ? [metricSchema.parse(properties)]
      : queriesSchema.parse(properties.Metrics).flatMap(({ MetricStat }) => MetricStat?.Metric ?? []);
  const dashboardOf = (stack: Stack): string =>
    String(resourceOf(stack.nested('MonitoringStack'), 'Dashboard').properties.DashboardBody);
  const reportedSchema = z.object({
    widgets: z.array(z.object({ properties: z.object({ metrics: z.array(z.array(z.string())).default([]) }) })),
  });
  /** The metrics on the dashboard. `.` and `...` repeat values of the previous metric. */
  const metricsShown = (of = complete): { namespace: string; name: string; value: string }[] => {
    const body: unknown = JSON.parse(dashboardOf(of));
    return reportedSchema.parse(body).widgets.flatMap(({ properties }) => {
      let before: string[] = [];
      return properties.metrics.map((metric) => {
        const [first, ...rest] = metric;
        const written = first === '...' ? [...before.slice(0, before.length - rest.length), ...rest] : metric;
        before = written.map((part, i) => (part === '.' ? (before[i] ?? '') : part));
        expect(before).toHaveLength(4);
        const [namespace = '', name = '', , value = ''] = before;
        return { namespace, name, value };
      });
    });
  };
  const servicesOf = (stack: Stack): string[] =>
    [...deployedFunctions(stack).values()].map((each) => each.environment.POWERTOOLS_SERVICE_NAME ?? '');

  test('the dashboard shows exactly the metrics that the functions report', () => {
    const shown = metricsShown().filter(({ namespace }) => namespace === 'logfold');
    for (const { value } of shown) expect(servicesOf(complete)).toContain(value);
    expect([...new Set(shown.map(({ name }) => name))].sort()).toEqual([...emitted()].sort());
  });

  test('each alarm is on the dashboard, has a description and notifies the topic if one is given', () => {
    const told = new Map(alarmsOf(stackOf({ ...COMPLETE, AlarmTopicArn: TOPIC })).map((alarm) => [alarm.id, alarm]));
    const dashboard = dashboardOf(complete);
    const alarms = alarmsOf(complete);
    expect(alarms.length).toBeGreaterThan(10);
    for (const { id, arn, properties } of alarms) {
      expect(dashboard).toContain(arn);
      expect(String(properties.AlarmDescription).length, id).toBeGreaterThan(40);
      expect([properties.AlarmActions, properties.OKActions], id).toEqual([[], []]);
      expect(told.get(id)?.properties).toMatchObject({ AlarmActions: [TOPIC], OKActions: [TOPIC] });
    }
  });

  test('each alarm watches existing metrics of resources of this stack', () => {
    const functions = [...deployedFunctions(complete).values()];
    const names = [
      ...functions.flatMap(({ name, streams }) => [name, ...streams.map(({ uuid }) => uuid)]),
      ...complete.ofType('AWS::SQS::Queue').map(({ id }) => complete.attribute(id, 'QueueName')),
    ];
    for (const alarm of alarmsOf(complete)) {
      const metrics = watchedBy(alarm);
      expect(metrics.length, alarm.id).toBeGreaterThan(0);
      for (const { namespace, name, value } of metrics) {
        const known = namespace === 'logfold' ? servicesOf(complete) : names;
        expect(known, alarm.id).toContain(value);
        if (namespace === 'logfold') expect([...emitted()], alarm.id).toContain(name);
      }
    }
  });

  test('each parameter of the nested stack gets the name of the resource with the same id', () => {
    const {
      Stack: stack,
      AlarmTopicArn: topic,
      StreamMapping: mapping,
      HasDivision: division,
      FeedAlarms: feedAlarms,
      FeedWidgets: feedWidgets,
      RevisionsAlarms: revisionsAlarms,
      RevisionsWidgets: revisionsWidgets,
      ...others
    } = complete.nested('MonitoringStack').parameters;
    expect([stack, topic, mapping]).toEqual([complete.ref('AWS::StackName'), '', complete.ref('StreamFunctionStream')]);
    const { Alarms, Widgets } = complete.nested('FeedStack').outputs;
    expect([feedAlarms, feedWidgets, division]).toEqual([Alarms, Widgets, 'true']);
    const revisions = complete.nested('RevisionsStack').outputs;
    expect([revisionsAlarms, revisionsWidgets]).toEqual([revisions.Alarms, revisions.Widgets]);
    for (const [id, name] of Object.entries(others)) {
      const { type } = resourceOf(complete, id);
      expect(name, id).toBe(type === 'AWS::SQS::Queue' ? complete.attribute(id, 'QueueName') : complete.ref(id));
    }
    expect(monitoring.parameters).toMatchObject({ HasDivision: 'false', FeedAlarms: '', RevisionsWidgets: '' });
  });

  test('no text that nested stacks pass on for the dashboard is longer than CloudFormation allows', () => {
    for (const { parameters } of allStacks(complete).slice(1)) {
      for (const [name, value] of Object.entries(parameters)) expect(value.length, name).toBeLessThan(4096);
    }
  });

  test('the expression of an alarm uses each of its metrics', () => {
    const metricQueries = z.array(z.object({ Id: z.string(), Expression: z.string().optional() }));
    const alarms = monitoring
      .ofType('AWS::CloudWatch::Alarm')
      .filter(({ properties }) => properties.Metrics !== undefined);
    expect(alarms.length).toBeGreaterThan(3);
    for (const { id, properties } of alarms) {
      const [sum, ...metrics] = metricQueries.parse(properties.Metrics);
      for (const metric of metrics) expect(sum?.Expression, id).toMatch(new RegExp(`\\b${metric.Id}\\b`));
    }
  });

  test('one alarm for each queue watches the age of its jobs', () => {
    const watched = monitoring.ofType('AWS::CloudWatch::Alarm').flatMap(watchedBy);
    for (const { queueArn } of [...deployedFunctions(own).values()].flatMap(({ queues }) => queues)) {
      const value = queueArn.split(':').at(-1);
      const ages = watched.filter((each) => each.name === 'ApproximateAgeOfOldestMessage' && each.value === value);
      expect(ages).toHaveLength(1);
    }
  });

  test('FailingJobs detects a worker function that fails before it runs a job', () => {
    const watched = watchedBy(resourceOf(monitoring, 'FailingJobsAlarm'));
    const workers = [...deployedFunctions(own).values()].filter(({ queues }) => queues.length > 0);
    expect(workers).toHaveLength(2);
    for (const { name } of workers) {
      expect(watched).toContainEqual({ namespace: 'AWS/Lambda', name: 'Errors', value: name });
    }
  });

  test('StreamErrors detects failed invocations and returned records of the stream function', () => {
    const { name, environment } = functionOf(own, 'StreamFunction');
    expect(watchedBy(resourceOf(monitoring, 'StreamErrorsAlarm'))).toEqual([
      { namespace: 'logfold', name: 'RecordsFailed', value: environment.POWERTOOLS_SERVICE_NAME },
      { namespace: 'AWS/Lambda', name: 'Errors', value: name },
    ]);
  });

  test('docs/operations.md has one row with advice for each alarm', () => {
    const document = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
    const section = document.split(/^## /m).find((text) => text.startsWith('Alarms\n')) ?? '';
    const rows = [...section.matchAll(/^\| `(\w+)` +\| (.*?) +\| (.*?) +\|$/gm)];
    const alarms = alarmsOf(complete).map(({ id }) => id);
    expect(rows.map(([, name]) => `${name}Alarm`).sort()).toEqual(alarms.sort());
    for (const [, name, meaning, advice] of rows) {
      expect(meaning?.length, name).toBeGreaterThan(30);
      expect(advice?.length, name).toBeGreaterThan(10);
    }
    const named = [...section.matchAll(/\bsee "([^"]+)"/g)].map(([, title]) => title);
    expect(named.length).toBeGreaterThan(3);
    for (const title of named) expect(document, title).toContain(`\n## ${title}\n`);
  });

  test('docs/operations.md explains each metric of sweeps and names its field of the log line', () => {
    const document = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
    const section = document.split(/^## /m).find((text) => text.startsWith('Sweeps\n')) ?? '';
    const rows = [...section.matchAll(/^\| `([A-Z]\w+)` +\| `(\w+)` +\|/gm)].map(([, metric, field]) => [
      metric,
      field,
    ]);
    const reported = metricsShown(own).filter(({ value }) => value === 'logfold-sweep');
    expect(rows.map(([metric]) => metric).sort()).toEqual([...new Set(reported.map(({ name }) => name))].sort());
    const sweep = {
      logs: 1,
      jobs: 2,
      waiting: 3,
      failed: 4,
      stopped: 5,
      missed: 6,
      oldest: 0,
      oldestDue: 0,
      longestTail: 10,
      undivided: 11,
      rest: undefined,
    };
    const ages = { unsnapshottedSeconds: 7, dueSeconds: 8 };
    const event = { kind: 'swept', run: 'request', result: sweep, ms: 9, ages, unusableStreams: 12 } as const;
    const { fields, metrics } = reportEvent(event);
    for (const { name, value } of metrics) {
      const field = rows.find(([metric]) => metric === name)?.[1] ?? '';
      expect(fields[field], name).toBe(value);
    }
  });

  test('docs/operations.md states the numbers and costs of alarms, metrics and idle requests', () => {
    const document = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
    const alarms = monitoring.ofType('AWS::CloudWatch::Alarm');
    const watched = alarms.flatMap(watchedBy).length;
    const shown = metricsShown(own).filter(({ namespace }) => namespace === 'logfold');
    const reported = new Set(shown.map(({ name, value }) => `${name} ${value}`));
    const queues = [...deployedFunctions(own).values()].flatMap((each) => each.queues).length;
    const polls = queues * 5 * ((30 * 24 * 3600) / 20);
    const row = (name: string): string[] => {
      const found = document.split('\n').find((line) => line.startsWith(`| ${name}`)) ?? '';
      return found.split('|').map((cell) => cell.trim());
    };
    const dollars = (count: number, price: number): string => (count * price).toFixed(2);
    expect(row(`metrics that the ${alarms.length} alarms watch`)).toMatchObject({
      2: `${watched}`,
      4: dollars(watched, 0.1),
    });
    expect(row('metrics of the functions')).toMatchObject({ 2: `${reported.size}`, 4: dollars(reported.size, 0.3) });
    expect(row('requests to two empty queues')).toMatchObject({
      2: polls.toLocaleString('en-US'),
      4: dollars(polls / 1e6, PRICES.sqs.perMillion.requests),
    });
  });

  test('docs/operations.md states the costs of a stream whose insertions all start the function', () => {
    const section = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
      .split(/^## /m)
      .find((text) => text.startsWith('Deploying beside a table of your own\n'))
      ?.replaceAll(/\s+/g, ' ');
    const mapped = stackOf(MAPPED);
    const { streams, memoryMb } = functionOf(mapped, 'StreamFunction');
    const [source] = streams;
    const window = source?.batchingWindowSeconds ?? 0;
    const invocations = (30 * 24 * 3600) / window;
    const { perMillion } = PRICES.lambda;
    const cents = (invocations / 1e6) * perMillion.invocations * 100;
    const timeCents = (invocations / 1e6) * 0.02 * (memoryMb / 1024) * perMillion.gigabyteSeconds * 100;
    expect(section).toContain(
      `for \`BatchingWindow\` seconds (${window}), or until they are ${source?.batchSize.toLocaleString('en-US')}. ` +
        'So each shard of a stream that is never at rest starts it ' +
        `${invocations.toLocaleString('en-US')} times a month, for ${Math.round(cents)} cents. ` +
        `Its time at ${memoryMb} MB, 20 ms each, costs ${Math.round(timeCents)} cents more.`,
    );
  });

  test('BucketName lists everything that logfold keeps in a bucket', () => {
    const kept = [LOGS_PREFIX, IDS_PREFIX, CONDEMNED_PREFIX, POLICIES_KEY, SWEEP_KEY, ADOPT_KEY, COMPARE_KEY];
    const names = kept.join(', ').replace(/, ([^,]+)$/, ' and $1');
    expect(readFileSync(join(ROOT, 'template.yaml'), 'utf8').replaceAll(/\s+/g, ' ')).toContain(
      `logfold uses ${names} in it`,
    );
    // Every key at the top of the bucket is one of these constants.
    const stated = readFileSync(join(ROOT, 'src/store/keys.ts'), 'utf8').matchAll(/^export const \w+ = '([^']+)';$/gm);
    expect(Array.from(stated, ([, key]) => key).sort()).toEqual(kept.toSorted());
  });

  test.each([
    ['aws', 'us-east-1', 'console.aws.amazon.com'],
    ['aws-cn', 'cn-north-1', 'console.amazonaws.cn'],
    ['aws-us-gov', 'us-gov-west-1', 'console.amazonaws-us-gov.com'],
    ['aws-eusc', 'eusc-de-east-1', 'console.amazonaws-eusc.eu'],
  ])('DashboardUrl leads to the console of the partition %s', (partition, region, console) => {
    const refs = { 'AWS::Partition': partition, 'AWS::Region': region };
    const url = String(template.expand({ refs }).outputs.DashboardUrl);
    expect(url).toMatch(`https://${region}.${console}/cloudwatch/home?region=${region}#dashboards/dashboard/`);
  });

  test('a stack without monitoring has no alarms and no dashboard', () => {
    const without = stackOf({ Monitoring: 'false' });
    const difference = [...own.resources.keys()].filter((id) => !without.resources.has(id));
    expect(difference).toEqual(['MonitoringStack']);
    expect(own.outputs).toHaveProperty('DashboardUrl');
    expect(without.outputs).not.toHaveProperty('DashboardUrl');
    const types = new Set([...monitoring.resources.values()].map(({ type }) => type));
    expect([...types].sort()).toEqual(['AWS::CloudWatch::Alarm', 'AWS::CloudWatch::Dashboard']);
    for (const type of types) expect(own.ofType(type)).toEqual([]);
  });

  test('metrics of two stacks in one account and region differ', () => {
    const other = template.expand({ refs: { 'AWS::StackName': 'other' } });
    expect(servicesOf(other).filter((name) => servicesOf(own).includes(name))).toEqual([]);
  });
});
