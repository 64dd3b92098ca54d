import { describe, expect, test } from 'vitest';
import * as environment from '../../../handlers/environment.ts';
import { divides } from '../../../src/log/division-policy.ts';
import { allows, deployedFunctions } from '../../support/deployed/deployed-functions.ts';
import { passesFilter } from '../../support/deployed/event-filter.ts';
import { EXISTING, functionOf, mayIn, own, resourceOf, stackOf, TABLE_KEY } from '../../support/deployed/stacks.ts';
import type { Stack } from '../../support/deployed/template.ts';

const existing = stackOf(EXISTING);
/** A stack with the feed and its topic. */
const fed = stackOf({ Feed: 'topic' });

describe('the feed', () => {
  test('without it, the stack has none of its resources, and its functions load none of its code', () => {
    const ids = [...fed.resources.keys()].filter((id) => !own.resources.has(id));
    expect(ids.sort()).toEqual(['FeedStack', 'FeedTable', 'FeedTopic']);
    const handlers = (of: Stack) => [...deployedFunctions(of).values()].map(({ handler }) => handler);
    expect(handlers(fed).filter((handler) => !handlers(own).includes(handler))).toEqual([
      'stream-feed.handler',
      'sweep-feed.handler',
    ]);
    const silent = stackOf({ Feed: 'on' });
    expect([...fed.resources.keys()].filter((id) => !silent.resources.has(id))).toEqual(['FeedTopic']);
    expect(functionOf(silent, 'StreamFunction').environment).toMatchObject({ FEED_TOPIC_ARN: '' });
    expect(silent.outputs).not.toHaveProperty('FeedTopicArn');
    expect(fed.outputs).toMatchObject({ FeedTableName: fed.ref('FeedTable'), FeedTopicArn: fed.ref('FeedTopic') });
  });

  test('its table equals the Entry table of the stack, without a stream', () => {
    const table = resourceOf(fed, 'FeedTable');
    const { StreamSpecification: _, ...properties } = resourceOf(own, 'EntryTable').properties;
    expect(table).toMatchObject({ deletionPolicy: 'Retain', updateReplacePolicy: 'Retain' });
    expect(table.properties).toEqual(properties);
    const encrypted = stackOf({ Feed: 'on', TableKmsKeyArn: TABLE_KEY });
    expect(resourceOf(encrypted, 'FeedTable').properties.SSESpecification).toMatchObject({ KMSMasterKeyId: TABLE_KEY });
  });

  test('all insertions start the stream function, in batches', () => {
    const [source] = functionOf(fed, 'StreamFunction').streams;
    expect(source?.batchingWindowSeconds).toBe(10);
    expect(passesFilter(source?.filters ?? [], { eventName: 'INSERT', dynamodb: {} })).toBe(true);
    expect(passesFilter(source?.filters ?? [], { eventName: 'MODIFY', dynamodb: {} })).toBe(false);
  });

  test('only the functions that write it may append and publish, and nothing else of the tables changes', () => {
    const stack = stackOf({ ...EXISTING, Feed: 'topic' });
    const writers = ['StreamFunction', 'SweepFunction'];
    const feedTable = stack.ref('FeedTable');
    expect(mayIn(stack, 'dynamodb:PutItem', feedTable)).toEqual([
      'StreamFunction',
      'SnapshotFunction',
      'SweepFunction',
    ]);
    expect(mayIn(stack, 'dynamodb:Scan', feedTable)).toEqual([]);
    for (const table of ['orders-entries', 'orders-segments']) {
      for (const action of ['PutItem', 'Query', 'UpdateItem', 'DeleteItem', 'Scan']) {
        expect(mayIn(stack, `dynamodb:${action}`, table), action).toEqual(mayIn(existing, `dynamodb:${action}`, table));
      }
    }
    const may = [...deployedFunctions(stack).values()].filter(({ statements }) =>
      allows(statements, 'sns:Publish', stack.ref('FeedTopic')),
    );
    expect(may.map(({ id }) => id)).toEqual(writers);
  });

  test('it does not make logs divide', () => {
    expect(fed.nested('MonitoringStack').parameters).toMatchObject({ HasDivision: 'false' });
    expect(
      divides(
        environment.divisionPolicyOf(
          environment.readEnvironment(environment.streamEnvironment, functionOf(fed, 'StreamFunction').environment),
        ),
      ),
    ).toBe(false);
  });
});
