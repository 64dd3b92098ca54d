import { expect, test } from 'vitest';
import { DeploymentInvalidError, MessageInvalidError } from '../../src/errors.ts';
import type { RevisionsEvent } from '../../src/functions/function-event.ts';
import { recordRecords, revisionsFunction } from '../../src/functions/revisions-function.ts';
import type { CompareResult } from '../../src/workers/revisions/compare-table.ts';
import { StreamedTable } from '../support/stores/streamed-table.ts';

const RESULT: CompareResult = {
  ...{ items: 3, gaps: 1, failed: 0, waiting: 0 },
  ...{ continued: false, complete: true, incompleteSeconds: 0 },
};
const INVOCATION = { awsRequestId: 'run', getRemainingTimeInMillis: () => 900_000 };

test('a comparison reports that the stream is off, and goes on', async () => {
  const events: RevisionsEvent[] = [];
  const off = new DeploymentInvalidError('RevisionsStreamArn', 'is off', { advice: 'Turn it on' });
  const handler = revisionsFunction({
    logs: async () => new StreamedTable().recorder(),
    checkStream: async () => Promise.reject(off),
    compare: async () => RESULT,
    now: () => 0,
    report: (event) => void events.push(event),
  });
  expect(await handler({ compare: true }, INVOCATION)).toEqual(RESULT);
  expect(events).toMatchObject([
    { kind: 'uncompared', log: undefined, error: off },
    { kind: 'compared', result: RESULT },
  ]);
});

test('a malformed record fails alone, whatever the form of the records', async () => {
  const table = new StreamedTable();
  const events: RevisionsEvent[] = [];
  const change = table.put({ id: { S: 'a' }, part: { S: 'b' } });
  const deps = { logs: async () => table.recorder(), report: (event: RevisionsEvent) => void events.push(event) };
  const answer = await recordRecords(deps, ['7', '8'], {
    run: 'local',
    changeOf: (record) => {
      if (record === '7' || change === undefined) throw new MessageInvalidError('the record lacks its keys');
      return change;
    },
    sequenceOf: (record) => record,
  });
  expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: '7' }] });
  expect(events).toMatchObject([
    { kind: 'unrecorded', run: 'local', sequence: '7', error: { code: 'MESSAGE_INVALID' } },
    { kind: 'recorded', run: 'local', recorded: 1, failed: 1 },
  ]);
});
