import { describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition } from '../../src/ids/position.ts';
import { allEntries, NOON } from '../support/logs.ts';
import { MappedLogs } from '../support/mapped-logs.ts';

const CONSISTENT = { consistent: true };

/** Each entry of a segment: position, type, number, seconds since noon. */
async function shape({ store }: MappedLogs, log: LogId, segment: number): Promise<string[]> {
  const entries = await allEntries(store.entries(log, { segment, from: 0, to: 100 }, CONSISTENT));
  return entries.map(
    ({ position, type, number, created }) => `${formatPosition(position)} ${type} ${number} +${created - NOON}`,
  );
}

describe('a mapped log', () => {
  test('it has virtual Snapshot and End Segment entries between its items', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(12);
    expect(await shape(logs, log, 0)).toEqual([
      '0/0 logfold Snapshot 0 +0',
      ...[1, 2, 3, 4, 5].map((i) => `0/${i} Set ${i} +${i - 1}`),
      '0/6 logfold Snapshot 5 +4',
      ...[6, 7, 8, 9, 10].map((i) => `0/${i + 1} Set ${i} +${i - 1}`),
      '0/12 logfold End Segment 10 +9',
    ]);
    expect(await shape(logs, log, 1)).toEqual(['1/0 logfold Snapshot 10 +9', '1/1 Set 11 +10', '1/2 Set 12 +11']);
    expect(await shape(logs, log, 2)).toEqual([]);
  });
});
