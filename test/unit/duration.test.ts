import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatDuration, parseDuration } from '../../src/cli/format.ts';
import { UsageError } from '../../src/errors.ts';

describe('durations', () => {
  test.each([
    ['0s', 0],
    ['1s', 1],
    ['90s', 90],
    ['1m', 60],
    ['61m', 3660],
    ['1h', 3600],
    ['25h', 90_000],
    ['1d', 86_400],
    ['365d', 31_536_000],
  ])('%s is %i seconds, and back', (text, seconds) => {
    expect(parseDuration(text)).toBe(seconds);
    expect(formatDuration(seconds)).toBe(text);
  });

  test.each([
    ['90', 90],
    ['0', 0],
    ['0d', 0],
    ['007m', 420],
    ['60s', 60],
    ['24h', 86_400],
    ['999999999d', 86_399_999_913_600],
  ])('%s is read as %i seconds too', (text, seconds) => {
    expect(parseDuration(text)).toBe(seconds);
  });

  test('what is written for a number of seconds is read as the same number', () => {
    const units = fc.constantFrom(1, 60, 3600, 86_400);
    const numbers = fc.tuple(fc.nat({ max: 11_000 }), units).map(([count, unit]) => count * unit);
    fc.assert(
      fc.property(fc.oneof(numbers, fc.nat({ max: 999_999_999 })), (seconds) => {
        expect(parseDuration(formatDuration(seconds))).toBe(seconds);
      }),
    );
  });

  test.each([
    '',
    ' ',
    's',
    '1 h',
    ' 1h',
    '1h ',
    '1.5h',
    '-1h',
    '+1h',
    '1H',
    '1w',
    '1ms',
    '1h30m',
    '1e3',
    '0x10',
    '1h\n',
  ])('refuses %j', (text) => {
    expect(() => parseDuration(text)).toThrow(UsageError);
  });

  test('refuses more digits than can be meant, and says what to write', () => {
    expect(() => parseDuration('1000000000')).toThrow(
      "'1000000000' is not a duration. Write a number and s, m, h or d",
    );
  });
});
