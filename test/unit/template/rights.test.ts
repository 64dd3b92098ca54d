import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { ADOPT_KEY, CONDEMNED_PREFIX, LOGS_PREFIX, POLICIES_KEY, SWEEP_KEY } from '../../../src/store/keys.ts';
import { allows, deployedFunctions, matches } from '../../support/deployed/deployed-functions.ts';
import {
  EVERYTHING,
  EXISTING,
  functionOf,
  KEY,
  MAPPED,
  own,
  stackOf,
  TABLE_KEY,
} from '../../support/deployed/stacks.ts';
import type { Stack } from '../../support/deployed/template.ts';

const existing = stackOf(EXISTING);

describe('permissions', () => {
  test('each statement names its actions and its resources', () => {
    for (const parameters of [{}, EVERYTHING, { ...EVERYTHING, Expire: 'ttl' }]) {
      for (const each of deployedFunctions(stackOf(parameters)).values()) {
        for (const { sid, actions, resources } of each.statements) {
          expect(actions.join(), `${each.id} ${sid}`).not.toContain('*');
          if (sid === 'Trace') continue;
          for (const resource of resources) {
            // A `*` follows a named parent: the rest of a key, a stream's label or a log stream.
            expect(resource, `${each.id} ${sid}`).toMatch(/^arn:aws:[^*]+$|^arn:aws:[^*]*[\w-][/:]\*$/);
            expect(resource, `${each.id} ${sid}`).toMatch(/logfold|orders-|:key\//);
          }
        }
      }
    }
  });

  test('several functions share each managed policy', () => {
    const attached = z.object({ ManagedPolicyArns: z.array(z.string()) });
    const arns = own.ofType('AWS::IAM::Role').flatMap(({ properties }) => attached.parse(properties).ManagedPolicyArns);
    for (const { id } of own.ofType('AWS::IAM::ManagedPolicy')) {
      expect(arns.filter((arn) => arn === own.ref(id)).length, id).toBeGreaterThan(1);
    }
  });

  test('functions reach only the prefixes of the bucket that logfold uses', () => {
    const objects = [...deployedFunctions(existing).values()].flatMap(({ statements }) =>
      statements.flatMap(({ resources }) =>
        resources.filter((arn) => arn.startsWith('arn:aws:s3:::orders-snapshots/')),
      ),
    );
    const keys = [`${LOGS_PREFIX}*`, `${CONDEMNED_PREFIX}*`, POLICIES_KEY, SWEEP_KEY];
    expect([...new Set(objects)].sort()).toEqual(keys.map((key) => `arn:aws:s3:::orders-snapshots/${key}`).sort());
    const adopting = stackOf({ ...MAPPED, AdoptSchedule: 'rate(1 day)' });
    const { statements } = functionOf(adopting, 'SweepFunction');
    expect(statements.flatMap(({ resources }) => resources)).toContain(
      `arn:aws:s3:::${adopting.ref('Bucket')}/${ADOPT_KEY}`,
    );
  });

  test('only workers that delete have the permission to delete', () => {
    const may = (action: string, resource: string): string[] =>
      [...deployedFunctions(existing).values()]
        .filter(({ statements }) => allows(statements, action, resource))
        .map(({ id }) => id);
    const entries = 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-entries';
    const segments = 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-segments';
    const object = 'arn:aws:s3:::orders-snapshots/logs/x/chunks/y';
    expect(may('dynamodb:BatchWriteItem', entries)).toEqual(['MaintainFunction']);
    expect(may('s3:DeleteObjectVersion', object)).toEqual(['MaintainFunction']);
    expect(may('s3:DeleteObject', object)).toEqual(['SnapshotFunction', 'MaintainFunction']);
    // They write archives, in several parts. A failed upload is aborted.
    expect(may('s3:AbortMultipartUpload', object)).toEqual(['SnapshotFunction', 'MaintainFunction']);
    expect(may('dynamodb:UpdateItem', entries)).toEqual(['SnapshotFunction', 'MaintainFunction']);
    expect(may('dynamodb:DeleteItem', entries)).toEqual(['MaintainFunction']);
    expect(may('dynamodb:DeleteItem', segments)).toEqual([]);
    for (const table of [entries, segments]) expect(may('dynamodb:PutItem', table)).toEqual([]);
    expect(may('dynamodb:Scan', entries)).toEqual([]);
    expect(may('dynamodb:Scan', segments)).toEqual(['SweepFunction']);
    expect(may('s3:PutObject', 'arn:aws:s3:::orders-snapshots/policies.json')).toEqual([]);
  });

  test('the stream function reads only the stream of the given table', () => {
    for (const [stack, streamArn] of [
      [own, own.attribute('EntryTable', 'StreamArn')],
      [existing, EXISTING.EntryTableStreamArn],
    ] as const) {
      const { statements } = functionOf(stack, 'StreamFunction');
      expect(allows(statements, 'dynamodb:GetRecords', streamArn)).toBe(true);
      expect(allows(statements, 'dynamodb:GetRecords', streamArn.replace('/stream', '-2/stream'))).toBe(false);
    }
  });

  test('functions may use the given keys, and no keys if none are given', () => {
    const stack = stackOf(EVERYTHING);
    const keysOf = (each: Stack, id: string) =>
      functionOf(each, id).statements.filter(({ actions }) => actions.some((action) => action.startsWith('kms:')));
    for (const id of deployedFunctions(own).keys()) {
      expect(keysOf(own, id), id).toEqual([]);
      const keys = new Set(keysOf(stack, id).flatMap(({ resources }) => resources));
      expect([...keys], id).toEqual([TABLE_KEY, KEY]);
    }
    expect(allows(functionOf(stack, 'ReplayFunction').statements, 'kms:GenerateDataKey', KEY)).toBe(false);
    expect(allows(functionOf(stack, 'SnapshotFunction').statements, 'kms:GenerateDataKey', KEY)).toBe(true);
  });

  test('functions may describe the TTL only if entries expire by TTL', () => {
    const may = (expire: string): string[] =>
      [...deployedFunctions(stackOf({ Expire: expire })).values()]
        .filter(({ statements }) => statements.some(({ actions }) => actions.includes('dynamodb:DescribeTimeToLive')))
        .map(({ id }) => id);
    expect(may('ttl')).toEqual(['SnapshotFunction', 'MaintainFunction', 'SweepFunction']);
    expect(may('delete')).toEqual([]);
  });

  test('the test matches resources as IAM does, with `*` for any text', () => {
    expect(matches('arn:aws:s3:::b/logs/*', 'arn:aws:s3:::b/logs/x/y')).toBe(true);
    expect(matches('arn:aws:s3:::b/logs/*', 'arn:aws:s3:::bb/logs/x')).toBe(false);
    expect(matches('arn:aws:s3:::b.c', 'arn:aws:s3:::bxc')).toBe(false);
    expect(matches('*', 'anything')).toBe(true);
  });
});
