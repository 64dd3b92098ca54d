import { Command, InvalidArgumentError } from '@commander-js/extra-typings';
import { PRICES } from '../examples/demo/prices.ts';
import { divisionReport } from './cost/division.ts';
import { firstBuildReport } from './cost/first-build.ts';
import { runMonths } from './cost/months.ts';
import { costReport, costsOf, DEFAULT_OPTIONS } from './cost/report.ts';
import { streamCostsReport } from './cost/stream-costs.ts';
import { readRun, wholeNumber } from './options.ts';

const { model: usual, activeShare, requestMs: usualMs } = DEFAULT_OPTIONS;

const cost = new Command('npm run cost --')
  .description(
    'Runs months in the life of a log with the real workers on tables, a bucket and a queue in memory. ' +
      'Counts what AWS would bill, and scales the counts to 1,000, 100,000 and 1,000,000 logs.',
  )
  .option('--entries-a-day <n>', 'entries a day of an active log', wholeNumber, usual.entriesADay)
  .option('--entry-bytes <n>', 'bytes of an entry with its keys; at least 150', entrySize, usual.entryBytes)
  .option('--rows <n>', 'rows of the sheet that entries fill', wholeNumber, usual.rows)
  .option('--snapshot-every <n>', 'entries from one snapshot to the next', wholeNumber, usual.snapshotEvery)
  .option('--segment-every <n>', 'entries from one segment to the next', wholeNumber, usual.segmentEvery)
  .option(
    '--keep-days <n>',
    'days after which closed segments are archived and expire',
    wholeNumber,
    usual.policy.keepDays,
  )
  .option('--age-days <n>', 'age of the log in days when the month begins', wholeNumber, usual.ageDays)
  .option('--sweep-hours <n>', 'hours from one sweep to the next, a divisor of 24', divisorOf24, usual.sweepHours)
  .option('--active <percent>', 'percentage of logs that are edited each day', percent, activeShare * 100)
  .option('--request-ms <n>', 'milliseconds that a function waits for a request', wholeNumber, usualMs)
  .option('--division', 'print only the price of a division policy, as in docs/performance.md', false)
  .option('--streams', 'print only the price of a feed and of revisions, as in docs/operations.md', false)
  .option(
    '--first-build <file>',
    'print only the price of first builds, from what npm run bench -- --json printed',
    readRun,
  )
  .option('--json', 'print one JSON document on standard output and nothing else', false)
  .addHelpText('after', '\nWithout options it prints what docs/operations.md has under "Costs".')
  .showHelpAfterError('(add --help for the options)')
  .action(async ({ active, requestMs, keepDays, json, division, streams, firstBuild, ...chosen }) => {
    if (firstBuild !== undefined) return console.log(firstBuildReport(firstBuild));
    if (streams) return console.log(await streamCostsReport(requestMs));
    if (division) return console.log(await divisionReport(requestMs));
    const model = { ...usual, ...chosen, policy: { ...usual.policy, keepDays } };
    const options = { model, activeShare: active / 100, requestMs };
    const months = await runMonths(model);
    if (json) console.log(JSON.stringify({ ...options, months, costs: costsOf(months, options), prices: PRICES }));
    else console.log(costReport(months, options));
  });

function entrySize(text: string): number {
  const bytes = wholeNumber(text);
  if (bytes < 150) throw new InvalidArgumentError('Give a number from 150.');
  return bytes;
}

function divisorOf24(text: string): number {
  const hours = wholeNumber(text);
  if (24 % hours !== 0) throw new InvalidArgumentError('Give a divisor of 24.');
  return hours;
}

function percent(text: string): number {
  const number = Number(text);
  if (text.trim() === '' || !(number >= 0 && number <= 100)) {
    throw new InvalidArgumentError('Give a number from 0 to 100.');
  }
  return number;
}

await cost.parseAsync();
