import { describe, expect, test } from 'vitest';
import { passesFilter } from '../support/event-filter.ts';

const PATTERN = { eventName: ['INSERT'], dynamodb: { NewImage: { T: { S: ['Snapshot', 'End Segment'] } } } };

function record(eventName: string, newImage: unknown): unknown {
  return { eventID: '1', eventName, dynamodb: { SequenceNumber: '1', NewImage: newImage } };
}

describe('a filter', () => {
  test('lets through what all of its keys fit', () => {
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
  ])('keeps back %s', (_, given) => {
    expect(passesFilter([PATTERN], given)).toBe(false);
  });

  test('is one of several, and without any, all is let through', () => {
    expect(passesFilter([PATTERN, { eventName: ['REMOVE'] }], record('REMOVE', {}))).toBe(true);
    expect(passesFilter([PATTERN, { eventName: ['REMOVE'] }], record('MODIFY', {}))).toBe(false);
    expect(passesFilter([], record('MODIFY', {}))).toBe(true);
  });

  test('does not look at what it inherits', () => {
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
  ])('with something that is not known here is an error, whatever else would fit: %j', (pattern) => {
    expect(() => passesFilter([PATTERN, pattern], record('INSERT', { T: { S: 'Snapshot' } }))).toThrow(/the filter/);
  });
});
