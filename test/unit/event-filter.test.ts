import { describe, expect, test } from 'vitest';
import { passesFilter } from '../support/deployed/event-filter.ts';

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
    ['with another text', record('INSERT', { T: { S: 'Set' } })],
    ['with a longer text', record('INSERT', { T: { S: 'Snapshots' } })],
    ['with another case', record('INSERT', { T: { S: 'snapshot' } })],
    ['of another event', record('MODIFY', { T: { S: 'Snapshot' } })],
    ['with another type of attribute', record('INSERT', { T: { B: 'Snapshot' } })],
    ['with a list', record('INSERT', { T: { S: ['Snapshot'] } })],
    ['without the key', record('INSERT', {})],
    ['without an image', record('INSERT', undefined)],
    ['that is undefined', undefined],
  ])('it rejects a record %s', (_, given) => {
    expect(passesFilter([PATTERN], given)).toBe(false);
  });

  test('a record passes if one of several filters matches, or if there is no filter', () => {
    expect(passesFilter([PATTERN, { eventName: ['REMOVE'] }], record('REMOVE', {}))).toBe(true);
    expect(passesFilter([PATTERN, { eventName: ['REMOVE'] }], record('MODIFY', {}))).toBe(false);
    expect(passesFilter([], record('MODIFY', {}))).toBe(true);
  });

  test('a prefix matches texts that begin with it', () => {
    const pattern = { dynamodb: { NewImage: { T: { S: [{ prefix: 'Snap' }] } } } };
    expect(passesFilter([pattern], record('INSERT', { T: { S: 'Snapshot' } }))).toBe(true);
    expect(passesFilter([pattern], record('INSERT', { T: { S: 'A Snapshot' } }))).toBe(false);
    expect(passesFilter([pattern], record('INSERT', { T: { N: '1' } }))).toBe(false);
  });

  test('it ignores inherited properties', () => {
    expect(passesFilter([{ constructor: { name: ['Object'] } }], {})).toBe(false);
  });

  test.each([
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
