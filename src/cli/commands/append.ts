import { queryNewestSegments } from '../../log/newest.ts';
import { Appender } from '../append.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count, countEntries } from '../count.ts';
import { openEdits } from '../edits-file.ts';
import { requireSheets } from '../reducer.ts';

export function appendCommand() {
  return command(
    'append',
    'Append the edits of an NDJSON file. The whole file is read first: a malformed line appends nothing.',
  )
    .argument('<log>', 'the log', parse.log)
    .argument('<file>', 'the file of edits, one JSON object a line; - for standard input')
    .option('--snapshot-every <n>', 'append a Snapshot entry after every N entries', parse.count)
    .option('--segment-every <n>', 'start a new segment after every N entries, as soon as the rule allows', parse.count)
    .option('--check', 'compare every check line with the sheet as loaded from snapshot and tail at that moment', false)
    .action(async (log, file, options) => {
      const edits = await openEdits(file);
      try {
        await inEnvironment(options, async (environment, output) => {
          requireSheets(environment.deps.reducer, 'append');
          await environment.requireReducer(log);
          const [segment] = await queryNewestSegments(environment.deps.store, log, { consistent: true });
          const newest = await environment.deps.store.newestEntry(log, segment.segment, { consistent: true });
          const appender = new Appender(environment, log, (newest?.position.entry ?? -1) + 1, options);
          const progress = output.progress('Lines', edits.count);
          let lines = 0;
          try {
            for await (const { number, line } of edits.lines()) {
              await appender.append(line, number);
              progress.update(++lines);
            }
          } finally {
            progress.stop();
          }
          const { entries, snapshots, segments, checks, unchecked } = appender.counts;
          const passedOver =
            unchecked > 0 ? `; ${count(unchecked, 'check line')} passed over, for want of --check` : '';
          output.result(
            { log, ...appender.counts, last: appender.last ?? null },
            `${countEntries(entries)}, ${count(snapshots, 'snapshot')} and ${count(segments, 'segment')} appended; ${count(checks, 'check')} passed${passedOver}`,
          );
        });
      } finally {
        await edits.close();
      }
    });
}
