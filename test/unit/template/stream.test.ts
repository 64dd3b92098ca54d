import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { passesFilter } from '../../support/deployed/event-filter.ts';
import { COMPLETE, EXISTING, functionOf, mayIn, own, resourceOf, stackOf } from '../../support/deployed/stacks.ts';
import { alarmsOf, type Stack } from '../../support/deployed/template.ts';

const existing = stackOf(EXISTING);

describe('the stream', () => {
  test('it is read from its beginning, and retries of a record are limited', () => {
    for (const stack of [own, existing]) {
      const streamArn = stack === own ? own.attribute('EntryTable', 'StreamArn') : EXISTING.EntryTableStreamArn;
      expect(functionOf(stack, 'StreamFunction').streams).toMatchObject([
        {
          streamArn,
          startingPosition: 'TRIM_HORIZON',
          bisects: true,
          responseTypes: ['ReportBatchItemFailures'],
          onFailure: stack.attribute('LostRecords', 'Arn'),
        },
      ]);
      const [source] = functionOf(stack, 'StreamFunction').streams;
      expect(source?.maximumRetryAttempts).toBeGreaterThan(0);
      // DynamoDB keeps a record for 24 hours. A shorter limit would give up routable records.
      expect(source?.maximumRecordAgeSeconds).toBe(24 * 3600);
    }
  });

  test.each([['Snapshot', 'End Segment'], ['Mark: "no"', 'Ende'].map((type) => type.replaceAll('"', "'"))])(
    'it passes only insertions of %s and %s entries',
    (snapshot, end) => {
      const stack = stackOf({ SnapshotType: snapshot, EndSegmentType: end });
      const [source] = functionOf(stack, 'StreamFunction').streams;
      const passes = (eventName: string, type: string | undefined): boolean =>
        passesFilter(source?.filters ?? [], {
          eventName,
          dynamodb: { Keys: { N: { N: '1' } }, NewImage: type === undefined ? undefined : { T: { S: type } } },
        });
      expect([passes('INSERT', snapshot), passes('INSERT', end)]).toEqual([true, true]);
      expect([passes('MODIFY', snapshot), passes('REMOVE', undefined), passes('INSERT', 'Set')]).toEqual([
        false,
        false,
        false,
      ]);
      expect(passes('INSERT', `${snapshot} `)).toBe(false);
    },
  );
});

describe('a division policy', () => {
  test.each(['SnapshotEveryEntries', 'SnapshotEveryBytes', 'SegmentEveryEntries', 'SegmentEveryBytes'])(
    '%s lets all insertions start the stream function, in batches',
    (name) => {
      const stack = stackOf({ [name]: '1000', BatchingWindow: '7' });
      const [source] = functionOf(stack, 'StreamFunction').streams;
      expect(source?.batchingWindowSeconds).toBe(7);
      expect(passesFilter(source?.filters ?? [], { eventName: 'INSERT', dynamodb: {} })).toBe(true);
      for (const eventName of ['MODIFY', 'REMOVE']) {
        expect(passesFilter(source?.filters ?? [], { eventName, dynamodb: {} })).toBe(false);
      }
    },
  );

  test('without one, or with minutes alone, the stream function starts as it always did', () => {
    for (const parameters of [{}, { SnapshotEveryMinutes: '60' }]) {
      const [source] = functionOf(stackOf(parameters), 'StreamFunction').streams;
      expect(source).toEqual(functionOf(own, 'StreamFunction').streams[0]);
      expect(source?.batchingWindowSeconds).toBe(0);
    }
  });

  test('with one, the snapshot function may append entries; no other function may', () => {
    for (const name of ['SnapshotEveryEntries', 'SnapshotEveryMinutes', 'SegmentEveryBytes']) {
      const stack = stackOf({ ...EXISTING, [name]: '1000' });
      for (const table of ['orders-entries', 'orders-segments']) {
        expect(mayIn(stack, 'dynamodb:PutItem', table), name).toEqual(['SnapshotFunction']);
      }
    }
  });
});

describe('a stack without StreamTrigger', () => {
  const existingTable = { EntryTableName: 'orders-entries', SegmentTableName: 'orders-segments' };

  test.each([{}, existingTable])('nothing reads the stream: %j', (tables) => {
    const stack = stackOf({ ...tables, StreamTrigger: 'false' });
    const each = functionOf(stack, 'StreamFunction');
    expect(each.streams).toEqual([]);
    expect(each.statements.flatMap(({ actions }) => actions).filter((action) => /dynamodb/.test(action))).toEqual([]);
    expect(functionOf(stack, 'SweepFunction').environment.ENTRY_TABLE_STREAM_ARN).toBe('');
    expect(stack.outputs).not.toHaveProperty('EntryTableStreamArn');
  });

  test('it has no alarm about the stream, and its dashboard names only the alarms that it has', () => {
    const stack = stackOf({ StreamTrigger: 'false' });
    const alarms = (of: Stack) => alarmsOf(of).map(({ id }) => id);
    const fedBySweeps = stackOf({ StreamTrigger: 'false', Feed: 'on' });
    const without = alarms(own).filter((id) => !alarms(stack).includes(id));
    expect(alarms(own).includes('UndividedLogsAlarm')).toBe(false);
    expect(
      alarms(stackOf(COMPLETE))
        .filter((id) => !alarms(own).includes(id))
        .sort(),
    ).toEqual([
      ...['CompareFailuresAlarm', 'CompareIncompleteAlarm', 'FeedAheadAlarm', 'FeedBehindAlarm', 'FeedFailingAlarm'],
      ...[
        'GapsFoundAlarm',
        'RevisionsBehindAlarm',
        'RevisionsErrorsAlarm',
        'RevisionsLostAlarm',
        'RevisionsSilentAlarm',
      ],
      'UndividedLogsAlarm',
    ]);
    expect(without).toEqual([
      ...['StreamBehindAlarm', 'StreamErrorsAlarm', 'StreamSilentAlarm', 'StreamUnusableAlarm', 'LostRecordsAlarm'],
    ]);
    const shown = z.object({
      widgets: z.tuple([z.object({ properties: z.object({ alarms: z.array(z.string()) }) })]).rest(z.unknown()),
    });
    for (const each of [stack, fedBySweeps]) {
      const { DashboardBody } = resourceOf(each.nested('MonitoringStack'), 'Dashboard').properties;
      const [first] = shown.parse(JSON.parse(String(DashboardBody))).widgets;
      expect(first.properties.alarms.sort()).toEqual(
        alarmsOf(each)
          .map(({ arn }) => arn)
          .sort(),
      );
    }
    expect(alarms(fedBySweeps).filter((id) => !alarms(stack).includes(id))).toEqual([
      'FeedFailingAlarm',
      'FeedAheadAlarm',
    ]);
  });
});
