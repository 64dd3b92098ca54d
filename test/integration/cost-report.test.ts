import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { divisionReport } from '../../bench/cost/division.ts';
import { DEFAULT_MODEL } from '../../bench/cost/model.ts';
import { runMonths } from '../../bench/cost/months.ts';
import { costReport, DEFAULT_OPTIONS } from '../../bench/cost/report.ts';
import { streamCostsReport } from '../../bench/cost/stream-costs.ts';

/** The report without its measured values: the cost of Lambda, and so the total. */
function withoutTimes(report: string): string[] {
  const rows = report.trim().split('\n');
  const costs = rows.findIndex((row) => row.startsWith('| logs |'));
  return rows.map((row, i) => {
    if (i <= costs + 1 || !row.startsWith('|')) return row;
    return row.split('|').with(7, ' measured ').with(9, ' measured ').join('|');
  });
}

test('docs/operations.md has the costs that a run counts', async () => {
  const document = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const printed = /^## Costs\n.*?<!-- npm run cost -->\n(.*?)<!-- end of npm run cost -->\n/ms
    .exec(document)?.[1]
    // A formatter pads the columns of tables.
    ?.replace(/ +/g, ' ')
    .replace(/-{3,}/g, '---');
  const report = costReport(await runMonths(DEFAULT_MODEL), DEFAULT_OPTIONS);
  expect(withoutTimes(printed ?? '')).toEqual(withoutTimes(report));
  // The measured values are numbers.
  const costs = (printed ?? '').split('\n').filter((row) => /^\| 1[0,]+ \|/.test(row));
  expect(costs).toHaveLength(3);
  for (const row of costs) expect(row).toMatch(/^(\| [\d,.]+ ){10}\|$/);
});

test('docs/performance.md has the price of a division policy that a run counts', async () => {
  const document = await readFile(new URL('../../docs/performance.md', import.meta.url), 'utf8');
  const printed = /<!-- npm run cost -- --division -->\n\n(.*?)\n<!-- end of/s
    .exec(document)?.[1]
    ?.replace(/ +/g, ' ')
    .replace(/-{3,}/g, '---');
  // The last column has Lambda's time, which is measured.
  const counted = (report = ''): string[] =>
    report
      .trim()
      .split('\n')
      .map((row) => row.replace(/[^|]*\|$/, ''));
  expect(counted(printed)).toEqual(counted(await divisionReport(DEFAULT_OPTIONS.requestMs)));
});

test('docs/operations.md has the costs of a feed and of revisions that a run counts', async () => {
  const document = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const printed = /<!-- npm run cost -- --streams -->\n\n(.*?)\n\n<!-- end of/s
    .exec(document)?.[1]
    ?.replace(/ +/g, ' ')
    .replace(/-{3,}/g, '---');
  // The last column has Lambda's time, which is measured.
  const counted = (report = ''): string[] => report.split('\n').map((row) => row.replace(/[^|]*\|$/, ''));
  expect(counted(printed)).toEqual(counted(await streamCostsReport(DEFAULT_OPTIONS.requestMs)));
});
