import { InterruptedError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition } from '../../ids/position.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { Appender, type AppendOptions } from '../append.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { openEdits } from '../edits-file.ts';
import type { Environment } from '../environment.ts';
import { count, countEntries } from '../format.ts';
import { Output } from '../output.ts';
import { requireSheets } from '../reducer.ts';
import { interrupted, untilInterrupted } from '../signals.ts';

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
      const describe = (error: InterruptedError) => describeInterruption(error, log, appender);
      // Another signal ends the process wherever it is.
      const sayLast = (): void => new Output(options.json).error(describe(interrupted().reason));
      try {
        await inEnvironment({ ...options, endsItself: true }, async (environment, output, stop) => {
          const started = await untilInterrupted(() => startAppender(environment, log, options));
          appender = started;
          const wait = (): void => {
            process.once('exit', sayLast);
            if (started.onItsWay === undefined) return;
            output.note(`Line ${started.onItsWay} is on its way: interrupt again to end without waiting for it`);
          };
          stop.addEventListener('abort', wait);
          const progress = output.progress('Lines', edits.count);
          let lines = 0;
          try {
            for await (const { number, line } of edits.lines()) {
              stop.throwIfAborted();
              const append = () => started.append(line, number);
              // A check may take long, and appends nothing.
              await (line.kind === 'check' ? untilInterrupted(append) : append());
              progress.update(++lines);
            }
          } finally {
            progress.stop();
            stop.removeEventListener('abort', wait);
          }
          const { entries, snapshots, segments, checks, unchecked } = started.counts;
          const passedOver =
            unchecked > 0 ? `; ${count(unchecked, 'check line')} passed over, for want of --check` : '';
          output.result(
            { log, ...started.counts, last: started.last ?? null },
            `${countEntries(entries)}, ${count(snapshots, 'snapshot')} and ${count(segments, 'segment')} appended; ${count(checks, 'check')} passed${passedOver}`,
          );
        });
      } catch (error) {
        throw error instanceof InterruptedError ? describe(error) : nameLine(error, appender?.onItsWay);
      } finally {
        process.off('exit', sayLast);
        edits.close();
      }
    });
}

async function startAppender(environment: Environment, log: LogId, options: AppendOptions): Promise<Appender> {
  requireSheets(environment.deps.reducer, 'append');
  await environment.requireReducer(log);
  const [segment] = await queryNewestSegments(environment.deps.store, log, { consistent: true });
  const newest = await environment.deps.store.newestEntry(log, segment.segment, { consistent: true });
  return new Appender(environment, log, (newest?.position.entry ?? -1) + 1, options);
}

/** Says which line to go on with, so that nobody appends a line twice. */
function describeInterruption({ signal, reason }: InterruptedError, log: LogId, appender: Appender | undefined) {
  const { onItsWay, done = 0, last } = appender ?? {};
  const where = { log, ...last };
  if (onItsWay !== undefined) {
    const advice = `Look at the end of the log before you go on: line ${onItsWay} may be appended or not, the lines before it are`;
    return new InterruptedError(signal, `${reason} at line ${onItsWay}`, { ...where, advice });
  }
  if (done === 0)
    return new InterruptedError(signal, reason, { ...where, advice: 'Run the command again: nothing was appended' });
  return new InterruptedError(signal, `${reason} after line ${done}`, {
    ...where,
    advice: `Go on with line ${done + 1}`,
  });
}

/** Names the line in an error that does not name one. */
function nameLine(error: unknown, line: number | undefined): unknown {
  if (error instanceof Error && line !== undefined) error.message = `line ${line}: ${error.message}`;
  return error;
}

export function createCommand() {
  return command('create', 'Create a log and print its id.').action((options) =>
    inEnvironment({ ...options, creates: true }, async ({ client }, output) => {
      const log = await client.createLog();
      output.result({ log }, log);
    }),
  );
}

export function segmentCommand() {
  return command('segment', 'End the newest segment and start the next. Refused until the newest has a snapshot.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ client }, output) => {
        const { position, segment } = await client.startSegment(log);
        output.result({ log, segment, position }, `Segment ${segment} starts at ${formatPosition(position)}`);
      }),
    );
}

export function snapshotCommand() {
  return command('snapshot', 'Append a Snapshot entry, which asks for a snapshot of everything before it.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ client }, output) => {
        const { position } = await client.addSnapshot(log);
        output.result({ log, position }, `Snapshot entry at ${formatPosition(position)}`);
      }),
    );
}
