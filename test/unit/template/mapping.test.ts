import { describe, expect, test } from 'vitest';
import { deployedFunctions } from '../../support/deployed/deployed-functions.ts';
import { passesFilter } from '../../support/deployed/event-filter.ts';
import { functionOf, MAPPED, MAPPING, mayIn, own, resourceOf, stackOf } from '../../support/deployed/stacks.ts';

describe('a mapping', () => {
  test('the stack creates the Segment table beside the table of the mapping', () => {
    const stack = stackOf(MAPPED);
    expect(stack.ofType('AWS::DynamoDB::Table').map(({ id }) => id)).toEqual(['SegmentTable']);
    expect(resourceOf(stack, 'SegmentTable')).toEqual(resourceOf(own, 'SegmentTable'));
    expect(stack.outputs).toMatchObject({ EntryTableName: 'orders', SegmentTableName: stack.ref('SegmentTable') });
    for (const each of deployedFunctions(stack).values()) {
      expect(each.environment).toMatchObject({ ENTRY_TABLE: 'orders', MAPPING });
    }
    const given = stackOf({ ...MAPPED, SegmentTableName: 'orders-segments' });
    expect(given.ofType('AWS::DynamoDB::Table')).toEqual([]);
  });

  test('all insertions start the stream function, or those of the given filter', () => {
    const insertion = (pk: string) => ({ eventName: 'INSERT', dynamodb: { Keys: { pk: { S: pk } } } });
    const passes = (parameters: Readonly<Record<string, string>>, record: unknown): boolean => {
      const [source] = functionOf(stackOf(parameters), 'StreamFunction').streams;
      expect(source?.batchingWindowSeconds).toBe(10);
      return passesFilter(source?.filters ?? [], record);
    };
    expect(passes(MAPPED, insertion('order#1'))).toBe(true);
    expect(passes(MAPPED, { ...insertion('order#1'), eventName: 'MODIFY' })).toBe(false);
    const StreamFilter = '{"eventName":["INSERT"],"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"order#"}]}}}}';
    expect(passes({ ...MAPPED, StreamFilter }, insertion('order#1'))).toBe(true);
    expect(passes({ ...MAPPED, StreamFilter }, insertion('user#1'))).toBe(false);
  });

  test.each([
    [{}, []],
    [{ Expire: 'ttl' }, ['UpdateItem: MaintainFunction']],
    [{ Expire: 'delete' }, ['DeleteItem: MaintainFunction']],
    [{ AdoptSchedule: 'rate(1 day)' }, ['Scan: SweepFunction']],
    [{ SnapshotEveryEntries: '10', SegmentEveryEntries: '100', SnapshotEveryMinutes: '5' }, []],
  ])('with %j, the only rights on the table beside reading logs are %j', (parameters, expected) => {
    const stack = stackOf({ ...MAPPED, ...parameters });
    const others = ['PutItem', 'UpdateItem', 'DeleteItem', 'BatchWriteItem', 'Scan', 'BatchGetItem'];
    const rights = others.flatMap((action) =>
      mayIn(stack, `dynamodb:${action}`, 'orders').map((id) => `${action}: ${id}`),
    );
    expect(rights).toEqual(expected);
    const read = ['SnapshotFunction', 'MaintainFunction', 'SweepFunction', 'ReplayFunction'];
    expect(mayIn(stack, 'dynamodb:Query', 'orders')).toEqual(read);
  });

  test('AdoptSchedule starts the sweep function to look for logs that are not registered', () => {
    const stack = stackOf({ ...MAPPED, AdoptSchedule: 'rate(1 day)' });
    expect(functionOf(stack, 'SweepFunction').schedules).toEqual([
      { id: 'SweepFunctionSchedule', expression: 'rate(1 hour)', windowMinutes: 15, input: {} },
      { id: 'SweepFunctionAdopt', expression: 'rate(1 day)', windowMinutes: 15, input: { adopt: true } },
    ]);
  });
});
