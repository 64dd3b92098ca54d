import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import * as environment from '../../../handlers/environment.ts';
import { MAPPING_NAMES } from '../../../src/mapping/schema-mapping.ts';
import { DEFAULT_POLICY } from '../../../src/retention/retention-policy.ts';
import {
  EXISTING,
  functionOf,
  MAPPED,
  MAPPING,
  own,
  REVISED,
  ROOT,
  stackOf,
  TOPIC,
  template,
} from '../../support/deployed/stacks.ts';
import { readTemplate } from '../../support/deployed/template.ts';

const TEMPLATES = ['template.yaml', 'feed.yaml', 'revisions.yaml', 'monitoring.yaml'];

test('only the main template has a transform, because nested transforms need CAPABILITY_AUTO_EXPAND', () => {
  const transformed = TEMPLATES.filter((file) => 'Transform' in readTemplate(join(ROOT, file)).document);
  expect(transformed).toEqual(['template.yaml']);
});

test('each template is small enough for CloudFormation, which reads it from a bucket', () => {
  for (const file of TEMPLATES) {
    expect(readFileSync(join(ROOT, file)).byteLength, file).toBeLessThan(1_000_000);
  }
});

describe('parameters', () => {
  test('each parameter is used, has a description and is in one group', () => {
    const { Parameters: _, Metadata: metadata, ...rest } = template.document;
    const text = JSON.stringify(rest);
    const groups = JSON.stringify(metadata);
    for (const [name, { Description }] of template.parameters) {
      expect(text.includes(`"Ref":"${name}"`) || text.includes(`\${${name}}`), `${name} is used`).toBe(true);
      expect(groups.split(`"${name}"`), `${name} is in one group`).toHaveLength(2);
      expect(Description.length, `${name} is explained`).toBeGreaterThan(30);
    }
  });

  test('each parameter is limited to values, a pattern or a range', () => {
    for (const [name, parameter] of template.parameters) {
      const { Type, AllowedValues, AllowedPattern, MinValue, MaxValue } = parameter;
      const bounded = AllowedValues ?? (Type === 'Number' ? MinValue !== undefined && MaxValue : AllowedPattern);
      expect(bounded, name).toBeTruthy();
    }
  });

  test('the defaults are those of the retention policy', () => {
    const settings = environment.readEnvironment(
      environment.workEnvironment,
      functionOf(own, 'SweepFunction').environment,
    );
    expect(environment.policyOf(settings)).toEqual(DEFAULT_POLICY);
  });

  test.each([
    ['EntryTableName', 'arn:aws:dynamodb:us-east-1:123456789012:table/x'],
    ['SegmentTableName', 'no spaces'],
    ['EntryTableStreamArn', 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-entries'],
    ['SnapshotType', 'a"],"b":["'],
    ['EndSegmentType', 'a\\u0022'],
    ['SnapshotType', ''],
    ['BucketName', 'Not_A_Bucket'],
    ['KmsKeyArn', 'alias/mine'],
    ['KeepSegments', '0'],
    ['KeepDays', '-1'],
    ['KeepDays', 'many'],
    ['KeepDays', ''],
    ['GraceSeconds', '60'],
    ['Archive', 'yes'],
    ['Expire', 'now'],
    ['SnapshotConcurrency', '1'],
    ['SweepSchedule', 'hourly'],
    ['LogRetentionDays', '2'],
    ['ReducerLayerArn', 'arn:aws:lambda:us-east-1:123456789012:layer:reducer'],
    ['AlarmTopicArn', 'me@example.com'],
    ['Mapping', 'mapping.json'],
    ['Mapping', '[]'],
    ['Mapping', `{${' '.repeat(2048)}}`],
    ['AdoptSchedule', 'daily'],
    ['StreamTrigger', 'no'],
    ['StreamFilter', 'INSERT'],
    ['BatchingWindow', '301'],
    ['SnapshotEveryEntries', '-1'],
  ])('an invalid value is refused: %s = %j', (name, value) => {
    expect(() => stackOf({ ...EXISTING, [name]: value })).toThrow(`parameter ${name}:`);
  });

  test.each([
    [{ EntryTableName: 'orders-entries' }, 'EntryTableStreamArn is required'],
    [{ ...EXISTING, SegmentTableName: '' }, 'SegmentTableName is required'],
    [{ ...EXISTING, EntryTableStreamArn: '' }, 'EntryTableStreamArn is required'],
    [{ ...EXISTING, SegmentTableName: 'orders-entries' }, 'must be two tables'],
    [{ SegmentTableName: 'orders-segments' }, 'EntryTableName is required'],
    [{ EntryTableStreamArn: EXISTING.EntryTableStreamArn }, 'EntryTableName is required'],
    [{ SnapshotType: 'Mark', EndSegmentType: 'Mark' }, 'SnapshotType and EndSegmentType must differ'],
    [{ Archive: 'false', Expire: 'delete', KeepDays: '0' }, 'would expire without an archive'],
    [{ Archive: 'false', Expire: 'ttl', KeepDays: '0' }, 'would expire without an archive'],
    [{ AlarmTopicArn: TOPIC, Monitoring: 'false' }, 'Monitoring must be true'],
    [{ Mapping: MAPPING }, 'EntryTableName is required if Mapping is set'],
    [{ ...MAPPED, EntryTableStreamArn: '' }, 'EntryTableStreamArn is required'],
    [{ ...MAPPED, StreamTrigger: 'false' }, 'AdoptSchedule is required'],
    [{ ...MAPPED, SegmentEveryBytes: '1000000' }, 'SegmentEveryBytes must be 0'],
    [{ ...EXISTING, AdoptSchedule: 'rate(1 day)' }, 'Mapping is required if AdoptSchedule is set'],
    [{ StreamTrigger: 'false', StreamFilter: '{"eventName":["INSERT"]}' }, 'StreamTrigger must be true'],
    [{ ...MAPPED, ...REVISED }, 'Mapping must be empty'],
    [{ ...EXISTING, RevisionsStreamArn: EXISTING.EntryTableStreamArn }, 'must not be the stream of the Entry table'],
    [{ ...REVISED, Reducer: 'collections' }, 'Reducer must be items or items+history'],
  ])('contradictory parameters fail before any resource is created: %j', (parameters, reason) => {
    expect(() => stackOf(parameters)).toThrow(reason);
  });

  test.each([
    { Archive: 'false', Expire: 'delete', KeepDays: '1' },
    { Archive: 'false', Expire: 'never', KeepDays: '0' },
    { Archive: 'true', Expire: 'delete', KeepDays: '0' },
    EXISTING,
    { StreamTrigger: 'false' },
    { ...EXISTING, EntryTableStreamArn: '', StreamTrigger: 'false' },
    MAPPED,
    { ...MAPPED, SegmentTableName: 'orders-segments', AdoptSchedule: 'rate(7 days)' },
    { ...MAPPED, EntryTableStreamArn: '', StreamTrigger: 'false', AdoptSchedule: 'rate(15 minutes)' },
    { ...MAPPED, Mapping: JSON.stringify(JSON.parse(MAPPING), null, 2) },
    ...MAPPING_NAMES.filter((name) => name !== 'logfold').flatMap((name) => [
      { ...MAPPED, Mapping: name },
      { ...MAPPED, Mapping: `${name}:orders` },
    ]),
  ])('compatible parameters are accepted: %j', (parameters) => {
    expect(() => stackOf(parameters)).not.toThrow();
  });

  test('an unknown parameter is an error', () => {
    expect(() => stackOf({ KeepDay: '1' })).toThrow('no parameter KeepDay');
  });
});

describe('the environments of samconfig.toml', () => {
  /** The lines of each section, by its name, such as `dev.deploy.parameters`. */
  function samSections(): ReadonlyMap<string, string> {
    const text = readFileSync(join(ROOT, 'samconfig.toml'), 'utf8').replaceAll(/^#.*\n/gm, '');
    const [, ...sections] = text.split(/^\[(?=[\w.]+\]$)/m);
    return new Map(sections.map((section) => [section.slice(0, section.indexOf(']')), section]));
  }

  const deployments = [...samSections()].flatMap(([name, section]) => {
    const [, env] = /^(\w+)\.deploy\.parameters$/.exec(name) ?? [];
    return env === undefined ? [] : [{ env, section }];
  });

  test('they are the ones that the documents name', () => {
    const documents = ['README.md', 'docs/operations.md'].map((file) => readFileSync(join(ROOT, file), 'utf8')).join();
    const named = [...documents.matchAll(/--config-env (\w+)/g)].map(([, env]) => env);
    expect(deployments.map(({ env }) => env).sort()).toEqual([...new Set(named)].sort());
  });

  test('each deploys the code that `npm run build` writes', () => {
    expect([...samSections().keys()].filter((name) => name.includes('.build.'))).toEqual([]);
    for (const { env, section } of deployments) {
      // Without this name, `sam deploy` uses the output of an earlier `sam build`.
      expect(section, env).toContain('\ntemplate_file = "template.yaml"\n');
      expect(section, env).toContain('\nresolve_s3 = true\n');
      expect(section, env).toContain('\ncapabilities = "CAPABILITY_IAM"\n');
    }
  });

  test('each passes parameters that the template accepts', () => {
    for (const { env, section } of deployments) {
      const overrides = /parameter_overrides = \[([^\]]*)\]/.exec(section)?.[1] ?? '';
      const parameters = Object.fromEntries(
        [...overrides.matchAll(/"(\w+)=(\w+)"/g)].map(([, name, value]) => [name, value]),
      );
      expect(Object.keys(parameters).length, env).toBe(overrides.split('"').length >> 1);
      expect(() => stackOf({ ...EXISTING, ...parameters }), env).not.toThrow();
    }
  });
});
