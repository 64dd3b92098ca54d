import { type LogfoldError, printable, UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { segmentSizes } from '../../mapping/item-division.ts';
import { type AdoptResult, adoptLogs, adoptSource } from '../../workers/adopt/adopt-logs.ts';
import { moveClaimTo, replaceMapping } from '../../workers/adopt/replace-mapping.ts';
import { count, countEntries } from '../../workers/jobs/report.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { pastable } from '../next-step.ts';
import { divisionFrom } from '../policy-options.ts';
import { READ_UNITS, TableScan } from '../table-scan.ts';

const HELP = `
The command reads the keys of the application's table and writes the first segments of each log to
the Segment table. It writes nothing to the application's table. Interrupt it and run it again: it
continues where it stopped. Segments that are recorded keep their size. Use a Segment table and a
bucket that no other table and no other mapping uses: their logs may have the same ids.

With --replace-mapping, it registers nothing. It reads all items and archives of the logs, and takes
the new mapping if each item becomes the same entry. Deploy with the new mapping between a run with
--dry-run and a run without.

With --move-claim, it only notes in the bucket that the logs belong to this table now. The logs need
the mapping that they had.`;

export function adoptCommand() {
  return command('adopt', "Register the logs that are already in your application's table.")
    .argument('[log]', 'the log; by default, all logs of the table', parse.log)
    .option('--read-units <n>', 'use at most this many read units per second for the scan', parse.count, READ_UNITS)
    .option('--snapshot-every-entries <n>', 'items between two snapshots', parse.count)
    .option('--segment-every-entries <n>', 'items of a segment; a multiple of the items of a snapshot', parse.count)
    .option(
      '--replace-mapping',
      'compare every item under the old and this mapping; if they agree, use this one',
      false,
    )
    .option('--move-claim', 'let the bucket belong to this table, which was restored from the previous one', false)
    .option('--dry-run', 'with --replace-mapping: compare, and change nothing', false)
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples(
        'adopt --mapping mapping.json --entry-table orders --segment-table segments --bucket b',
        'adopt 123 --mapping mapping.json --entry-table orders --local data',
        'adopt --replace-mapping --mapping new.json --entry-table orders --segment-table segments --bucket b',
        'adopt --move-claim --mapping mapping.json --entry-table orders-2 --segment-table segments-2 --bucket b',
      ),
    )
    .action((log, options) => {
      if (options.mapping === undefined) {
        throw new UsageError('only a table of your application has logs to register, and it needs a mapping', {
          advice: "Give --mapping FILE; 'logfold inspect TABLE' proposes one",
        });
      }
      const changes = claimChange(log, options);
      if (changes !== undefined) return inEnvironment({ ...options, changesClaim: true }, changes);
      const division = divisionFrom(options);
      const sizes = segmentSizes(division);
      return inEnvironment({ ...options, creates: true, endsItself: true }, async (environment, output, stop) => {
        const { mapped, deps, requests } = environment;
        if (mapped === undefined) return;
        const register = (of: LogId): Promise<number> => mapped.registrar.register(of, sizes);
        if (log !== undefined) {
          const recorded = await register(log);
          await queryNewestSegments(deps.tables, log, { consistent: true });
          const text =
            recorded === 0 ? 'was registered before' : `is registered: ${count(recorded, 'segment')} recorded`;
          output.result({ log, recorded }, `${printable(log)} ${text}`);
          return;
        }
        const scan = new TableScan(requests, { readUnits: options.readUnits, stop });
        const result = await output.during('Logs', (progress) =>
          adoptLogs(
            {
              items: mapped.items,
              register,
              blobs: deps.blobs,
              now: deps.now,
              onPage: scan.onPage,
              onFailure: (error) => scan.fail(error),
              onProgress: progress.update,
            },
            {
              source: adoptSource(mapped),
              stop: AbortSignal.any([stop, environment.lost]),
            },
          ),
        );
        environment.lost.throwIfAborted();
        const { failures } = scan;
        output.result(
          { ...result, failures },
          describe(result, failures, {
            table: options.entryTable,
            first: division.snapshotEvery.entries,
            reducer: options.reducer,
          }),
        );
        scan.end({ failed: result.unfit + result.failed, complete: result.complete });
      });
    });
}

interface ClaimOptions {
  readonly replaceMapping: boolean;
  readonly moveClaim: boolean;
  readonly dryRun: boolean;
  readonly readUnits: number;
}

type AdoptPass = Parameters<typeof inEnvironment>[1];

/**
 * The work that changes whose logs the bucket holds, if the options ask for it.
 * @throws UsageError if they contradict each other
 */
function claimChange(log: LogId | undefined, options: ClaimOptions): AdoptPass | undefined {
  const { replaceMapping: replaces, moveClaim: moves, dryRun } = options;
  if (dryRun && !replaces) throw new UsageError('--dry-run needs --replace-mapping');
  if (!replaces && !moves) return undefined;
  if (replaces && moves) throw new UsageError('--replace-mapping and --move-claim exclude each other');
  if (log !== undefined) throw new UsageError(`--${replaces ? 'replace-mapping' : 'move-claim'} is for all logs`);
  return replaces ? (...given) => replaceWith(options, ...given) : moveTo;
}

async function replaceWith({ readUnits, dryRun }: ClaimOptions, ...[environment, output, stop]: Parameters<AdoptPass>) {
  const { mapped, deps, requests } = environment;
  if (mapped === undefined) return;
  const { onPage } = new TableScan(requests, { readUnits, stop });
  const result = await output.during('Items', (progress) =>
    replaceMapping(
      { ...deps, items: mapped.items, onPage, onProgress: progress.update },
      { table: mapped.table, mapping: mapped.mapping },
      { dryRun },
    ),
  );
  const { logs, items, archived, unfit, replaced } = result;
  const compared = `${count(items, 'item')} of ${count(logs, 'log')} and ${count(archived, 'archived item')} compared`;
  const skipped = unfit === 0 ? '' : `, ${unfit} of which did not fit the old mapping`;
  const outcome = replaced ? 'the bucket now has this mapping' : dryRun ? 'nothing changed' : 'it had this mapping';
  output.result({ ...result, dryRun }, `${compared}${skipped}: all become the same entries; ${outcome}`);
}

async function moveTo(...[environment, output]: Parameters<AdoptPass>) {
  const { mapped, deps } = environment;
  if (mapped === undefined) return;
  const { mapping, items, table } = mapped;
  const from = await moveClaimTo({ ...deps, items }, { table, mapping });
  const text =
    from === undefined
      ? `The bucket belongs to no table yet; 'logfold adopt' lets it belong to ${table}.`
      : from === table
        ? `The bucket belonged to table ${table} already.`
        : `The bucket belonged to table ${from}, and belongs to ${table} now.`;
  output.result({ from: from ?? null, to: table }, pastable(text));
}

function describe(
  result: AdoptResult,
  failures: readonly LogfoldError[],
  {
    table = 'TABLE',
    first,
    reducer,
  }: { readonly table: string | undefined; readonly first: number | undefined; readonly reducer: string | undefined },
): string {
  const { logs, registered, unfit, failed, continued, complete } = result;
  const from = continued ? 'in the rest of the table' : 'in the table';
  const lines = failures.map(({ code, message }) => `DOES NOT FIT: ${code}: ${message}`);
  const more = unfit + failed - failures.length;
  if (more > 0) lines.push(`and ${more} more`);
  const unregistered = failed === 0 ? '' : `, ${count(failed, 'log')} not registered`;
  const misfits = unfit === 0 ? '' : `, ${count(unfit, 'item')} that ${unfit === 1 ? 'does' : 'do'} not fit`;
  lines.push(
    `${count(logs, 'log')} found ${from}, ${registered} with newly recorded segments${unregistered}${misfits}`,
  );
  if (!complete) lines.push('The scan is not complete: run the command again, and it continues where it stopped.');
  else if (logs > 0 || continued) {
    const due =
      first === undefined
        ? ''
        : `, the first of a log after ${countEntries(first)}. Segments of earlier runs keep their number of entries`;
    lines.push(
      reducer === undefined
        ? `'logfold sweep --reducer FILE' builds the snapshots that are due${due}.`
        : `'logfold sweep' builds the snapshots that are due${due}.`,
    );
  } else
    lines.push(`No item of the table has a key as the mapping says. 'logfold inspect ${table}' proposes a mapping.`);
  return pastable(lines.join('\n'));
}
