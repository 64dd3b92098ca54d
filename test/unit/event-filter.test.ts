import { describe, expect, test } from 'vitest';
import { passesFilter } from '../support/event-filter.ts';

const PATTERN = { eventName: ['INSERT'], dynamodb: { NewImage: { T: { S: ['Snapshot', 'End Segment'] } } } };

function record(eventName: string, newImage: unknown): unknown {
  return { eventID: '1', eventName, dynamodb: { SequenceNumber: '1', NewImage: newImage } };
}

describe('a filter', () => {
  test('it passes a record if all of its keys match', () => {
    expect(passesFilter([PATTERN], record('INSERT', { T: { S: 'Snapshot' }, N: { N: '1' } }))).toBe(true);
    expect(passesFilter([PATTERN], record('INSERT', { T: { S: 'End Segment' } }))).toBe(true);
  });

  test.each([
    ['another text', record('INSERT', { T: { S: 'Set' } })],
    ['a text that only begins like it', record('INSERT', { T: { S: 'Snapshots' } })],
    ['another case', record('INSERT', { T: { S: 'snapshot' } })],
    ['another event', record('MODIFY', { T: { S: 'Snapshot' } })],
    ['another type of attribute', record('INSERT', { T: { B: 'Snapshot' } })],
    ['a list', record('INSERT', { T: { S: ['Snapshot'] } })],
    ['nothing at its key', record('INSERT', {})],
    ['no image', record('INSERT', undefined)],
    ['no record', undefined],
  ])('it rejects %s', (_, given) => {
    expect(passesFilter([PATTERN], given)).toBe(false);
  });

  test('a record passes if one of several filters matches, or if there is no filter', () => {
    expect(passesFilter([PATTERN, { eventName: ['REMOVE'] }], record('REMOVE', {}))).toBe(true);
    expect(passesFilter([PATTERN, { eventName: ['REMOVE'] }], record('MODIFY', {}))).toBe(false);
    expect(passesFilter([], record('MODIFY', {}))).toBe(true);
  });

  test('it ignores inherited properties', () => {
    expect(passesFilter([{ constructor: { name: ['Object'] } }], {})).toBe(false);
  });

  test.each([
    { eventName: [{ prefix: 'INS' }] },
    { eventName: [{ 'anything-but': ['REMOVE'] }] },
    { dynamodb: { NewImage: { X: [{ exists: false }] } } },
    { eventName: [null] },
    { eventName: [] },
    { eventName: 'INSERT' },
    { $or: [{ eventName: ['INSERT'] }] },
  ])('an unsupported pattern is an error even if another filter matches: %j', (pattern) => {
    expect(() => passesFilter([PATTERN, pattern], record('INSERT', { T: { S: 'Snapshot' } }))).toThrow(/the filter/);
  });
});
