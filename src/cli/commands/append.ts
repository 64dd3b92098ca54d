import { InterruptedError } from '../../errors.ts';
import type { LogId } from '../../log/log-id.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { Appender } from '../append.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count, countEntries } from '../count.ts';
import { openEdits } from '../edits-file.ts';
import { requireSheets } from '../reducer.ts';
import { untilInterrupted } from '../signals.ts';

export function appendCommand() {
  return command(
    'append',
    'Append the edits of an NDJSON file. The whole file is read first: a malformed line appends nothing.',
  )
    .argument('<log>', 'the log', parse.log)
    .argument('<file>', 'the file of edits, one JSON object a line; - for standard input; may be a pipe')
    .option('--snapshot-every <n>', 'append a Snapshot entry after every N entries', parse.count)
    .option('--segment-every <n>', 'start a new segment after every N entries, as soon as the rule allows', parse.count)
    .option('--check', 'compare every check line with the sheet as loaded from snapshot and tail at that moment', false)
    .action(async (log, file, options) => {
      const edits = await untilInterrupted(() => openEdits(file));
      let appender: Appender | undefined;
      try {
        await inEnvironment(options, async (environment, output) => {
          requireSheets(environment.deps.reducer, 'append');
          await environment.requireReducer(log);
          const [segment] = await queryNewestSegments(environment.deps.store, log, { consistent: true });
          const newest = await environment.deps.store.newestEntry(log, segment.segment, { consistent: true });
          appender = new Appender(environment, log, (newest?.position.entry ?? -1) + 1, options);
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
      } catch (error) {
        throw error instanceof InterruptedError ? describeInterruption(error, log, appender) : error;
      } finally {
        edits.close();
      }
    });
}

/** Says how far it came, for whoever wants to append the rest. */
function describeInterruption({ signal, reason }: InterruptedError, log: LogId, appender: Appender | undefined) {
  const { line = 0, last } = appender ?? {};
  const advice =
    line === 0
      ? 'Nothing was appended'
      : `Line ${line} may be appended or not, those before it are: look at the end of the log before you append the rest`;
  return new InterruptedError(signal, line === 0 ? reason : `${reason} at line ${line}`, { log, ...last, advice });
}
