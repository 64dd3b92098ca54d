import { describe, expect, test } from 'vitest';
import * as environment from '../../../handlers/environment.ts';
import { REVISIONS_DIVISION } from '../../../src/log/division-policy.ts';
import { allows, deployedFunctions } from '../../support/deployed/deployed-functions.ts';
import { passesFilter } from '../../support/deployed/event-filter.ts';
import {
  EVERYTHING,
  EXISTING,
  functionOf,
  LAYER,
  mayIn,
  own,
  REVISED,
  stackOf,
} from '../../support/deployed/stacks.ts';

describe('the revisions of a plain table', () => {
  test('without them, the stack has none of their resources', () => {
    const revising = stackOf(REVISED);
    const added = [...revising.resources.keys()].filter((id) => !own.resources.has(id));
    expect(added).toEqual(['RevisionsFunctionLog', 'RevisionsStack']);
    expect([own.outputs, revising.outputs].map((outputs) => 'RevisionsFunctionName' in outputs)).toEqual([false, true]);
  });

  test('every change starts the function in batches, and its schedule starts comparisons', () => {
    const stack = stackOf({ ...REVISED, CompareSchedule: 'rate(7 days)', BatchingWindow: '3' });
    const { streams, schedules } = functionOf(stack, 'RevisionsFunction');
    const [source] = streams;
    expect(source).toMatchObject({
      ...{ streamArn: REVISED.RevisionsStreamArn, startingPosition: 'TRIM_HORIZON', batchingWindowSeconds: 3 },
      ...{ bisects: true, responseTypes: ['ReportBatchItemFailures'], maximumRecordAgeSeconds: 86_400 },
      ...{ onFailure: stack.attribute('LostRecords', 'Arn'), filters: undefined },
    });
    const id = 'RevisionsFunctionCompare';
    expect(schedules).toEqual([{ id, expression: 'rate(7 days)', windowMinutes: 15, input: { compare: true } }]);
  });

  test('one parameter makes the whole deployment fold revisions, and divide their logs', () => {
    const reducersOf = (parameters: Readonly<Record<string, string>>) => {
      const functions = deployedFunctions(stackOf({ ...REVISED, ...parameters }));
      return [...new Set([...functions.values()].map((each) => each.environment.REDUCER_MODULE))];
    };
    expect(reducersOf({})).toEqual(['items']);
    expect(reducersOf({ Reducer: 'items+history' })).toEqual(['items+history']);
    expect(reducersOf({ Reducer: 'collections', ReducerLayerArn: LAYER })).toEqual(['/opt/reducer.mjs']);
    const stack = stackOf(REVISED);
    const settings = environment.readEnvironment(
      environment.streamEnvironment,
      functionOf(stack, 'StreamFunction').environment,
    );
    expect(environment.divisionPolicyOf(settings)).toEqual(REVISIONS_DIVISION);
    const [source] = functionOf(stack, 'StreamFunction').streams;
    expect(passesFilter(source?.filters ?? [], { eventName: 'INSERT', dynamodb: {} })).toBe(true);
    expect(mayIn(stack, 'dynamodb:PutItem', stack.ref('EntryTable'))).toEqual([
      'SnapshotFunction',
      'RevisionsFunction',
    ]);
  });

  test('only the revisions function may read the plain table, and nothing may write to it', () => {
    const stack = stackOf({ ...REVISED, ...EVERYTHING });
    for (const action of ['DescribeTable', 'Scan', 'BatchGetItem']) {
      expect(mayIn(stack, `dynamodb:${action}`, 'customers')).toEqual(['RevisionsFunction']);
    }
    for (const action of ['PutItem', 'UpdateItem', 'DeleteItem', 'BatchWriteItem']) {
      expect(mayIn(stack, `dynamodb:${action}`, 'customers')).toEqual([]);
    }
    const { statements } = functionOf(stack, 'RevisionsFunction');
    expect(allows(statements, 'dynamodb:GetRecords', REVISED.RevisionsStreamArn)).toBe(true);
    expect(allows(statements, 'dynamodb:GetRecords', EXISTING.EntryTableStreamArn)).toBe(false);
  });
});
