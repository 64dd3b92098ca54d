import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { fittedTable, formatDuration, forTerminal, parseDuration, textTable } from '../../src/cli/format.ts';
import { printable, UsageError, unprintable } from '../../src/errors.ts';
import { count, countEntries } from '../../src/workers/jobs/report.ts';

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
  ])('%s equals %i seconds in both directions', (text, seconds) => {
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
  ])('parseDuration reads %s as %i seconds', (text, seconds) => {
    expect(parseDuration(text)).toBe(seconds);
  });

  test('parseDuration reads what formatDuration writes', () => {
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
  ])('parseDuration refuses %j', (text) => {
    expect(() => parseDuration(text)).toThrow(UsageError);
  });

  test('parseDuration refuses more than nine digits with an example', () => {
    expect(() => parseDuration('1000000000')).toThrow(
      "'1000000000' is not a duration. Write a number and s, m, h or d",
    );
  });
});

test.each([
  [count(0, 'snapshot'), '0 snapshots'],
  [count(1, 'snapshot'), '1 snapshot'],
  [count(2, 'snapshot'), '2 snapshots'],
  [count(1, 'try', 'tries'), '1 try'],
  [count(2, 'try', 'tries'), '2 tries'],
  [countEntries(1), '1 entry'],
  [countEntries(3), '3 entries'],
])('a number and its noun read %s', (text, expected) => {
  expect(text).toBe(expected);
});

test('a table has straight columns, also with wide characters, and shows control characters as escapes', () => {
  const rows = [
    ['日本', 7],
    ['e\u0301\u001b[2J', 12_345],
    ['', ''],
  ];
  expect(textTable(['log', 'entries'], rows).split('\n')).toEqual([
    '┌────────────┬─────────┐',
    '│ log        │ entries │',
    '├────────────┼─────────┤',
    '│ 日本       │ 7       │',
    '│ e\u0301\\u{1b}[2J │ 12345   │',
    '│            │         │',
    '└────────────┴─────────┘',
  ]);
  expect(textTable(['log'], [])).toBe('┌─────┐\n│ log │\n└─────┘');
});

test('a table for a terminal is as wide as it needs, at most as wide as the screen, and keeps what must stay', () => {
  const head = ['log', 'entries', 'chunks', 'stopped'];
  const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 80 });
  const row = fc.tuple(id, fc.nat(), fc.nat(3), fc.constantFrom('-', 'ENTRY_TYPE_UNKNOWN'));
  const fit = { spare: ['chunks'], last: ['entries'], long: { log: 36 } };
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 5 }), fc.integer({ min: 32, max: 140 }), (rows, screen) => {
      const { text, isWhole } = fittedTable(head, rows, fit, screen);
      const lines = text.split('\n').filter((line) => !line.startsWith('For '));
      expect(new Set(lines.map((line) => stringWidth(line))).size).toBe(1);
      expect(stringWidth(lines[0] ?? '')).toBeLessThanOrEqual(screen);
      expect(text.match(/ENTRY_TYPE_UNKNOWN/g)?.length ?? 0).toBe(rows.filter((each) => each[3] !== '-').length);
      const whole = textTable(head, rows);
      if (stringWidth(whole.split('\n')[0] ?? '') <= screen) expect(isWhole).toBe(true);
      if (isWhole) for (const [log] of rows) expect(text).toContain(forTerminal(log));
      else expect(text).toMatch(/\nFor .*, widen the terminal or give --json\.$/);
    }),
  );
});

test('any id that is printed can be typed again, also with characters that no argument can hold', () => {
  const text = fc.string({ unit: fc.constantFrom('a', '\0', '\u001b', '\\', 'u', '{', '5', 'c', '}', '\u2028', '😀') });
  fc.assert(
    fc.property(text, (id) => {
      expect(printable(id)).not.toMatch(/[\p{C}\p{Zl}]/u);
      expect(unprintable(printable(id))).toBe(id);
    }),
  );
  expect(unprintable('C:\\u{41} \\u{ffffff}')).toBe('C:\\u{41} \\u{ffffff}');
});

test('text for a terminal keeps its lines and everything that can be seen', () => {
  expect(forTerminal('a\tb\n👩‍💻\u001b[2J\u202e\r')).toBe('a\tb\n👩‍💻\\u{1b}[2J\\u{202e}\\u{d}');
});
