import { join } from 'node:path';
import { EXPIRING_ORDERS } from '../orders.ts';
import { allows, type DeployedFunction, deployedFunctions } from './deployed-functions.ts';
import { type Resource, readTemplate, type Stack } from './template.ts';

export const ROOT = join(import.meta.dirname, '../../..');

/** Beside a table and a bucket that exist. */
export const EXISTING = {
  EntryTableName: 'orders-entries',
  EntryTableStreamArn: 'arn:aws:dynamodb:us-east-1:123456789012:table/orders-entries/stream/2026-02-03T04:05:06.789',
  SegmentTableName: 'orders-segments',
  BucketName: 'orders-snapshots',
};
export const MAPPING = JSON.stringify(EXPIRING_ORDERS);
/** A stack beside a table with a mapping, which creates the Segment table. */
export const MAPPED = {
  EntryTableName: 'orders',
  EntryTableStreamArn: 'arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-02-03T04:05:06.789',
  Mapping: MAPPING,
};
/** A plain table whose changes become revisions. */
export const REVISED = {
  RevisionsStreamArn: 'arn:aws:dynamodb:us-east-1:123456789012:table/customers/stream/2026-02-03T04:05:06.789',
};
/** With every optional feature, so that the stack has every function and every alarm. */
export const COMPLETE = { ...REVISED, SnapshotEveryEntries: '100', Feed: 'topic' };
export const KEY = 'arn:aws:kms:us-east-1:123456789012:key/1';
export const TABLE_KEY = 'arn:aws:kms:us-east-1:123456789012:key/2';
export const LAYER = 'arn:aws:lambda:us-east-1:123456789012:layer:reducer:3';
export const TOPIC = 'arn:aws:sns:us-east-1:123456789012:alarms';
export const EVERYTHING = {
  ...EXISTING,
  KmsKeyArn: KEY,
  TableKmsKeyArn: TABLE_KEY,
  ReducerLayerArn: LAYER,
  AlarmTopicArn: TOPIC,
  Feed: 'topic',
};

export const template = readTemplate();

/** The stack with certain values of the template's parameters. */
export function stackOf(parameters: Readonly<Record<string, string>> = {}): Stack {
  return template.expand({ parameters });
}

/** The stack with the defaults, which creates its tables and its bucket. */
export const own = stackOf();

/** A function of a stack or of a nested stack. */
export function functionOf(stack: Stack, id: string): DeployedFunction {
  const found = deployedFunctions(stack).get(id);
  if (found === undefined) throw new Error(`no function ${id}`);
  return found;
}

export function resourceOf(stack: Stack, id: string): Resource {
  const found = stack.resources.get(id);
  if (found === undefined) throw new Error(`no resource ${id}`);
  return found;
}

/** The functions that may use an action on a table. */
export function mayIn(stack: Stack, action: string, table: string): string[] {
  return may(stack, action, `arn:aws:dynamodb:us-east-1:123456789012:table/${table}`);
}

/** The functions that may use an action on a resource. */
export function may(stack: Stack, action: string, resource: string): string[] {
  const functions = [...deployedFunctions(stack).values()];
  return functions.filter(({ statements }) => allows(statements, action, resource)).map(({ id }) => id);
}
