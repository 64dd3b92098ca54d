import { join } from 'node:path';
import { InterruptedError, printable } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition } from '../../ids/position.ts';
import type { NewEntry } from '../../log/client.ts';
import { count, countEntries } from '../../workers/jobs/report.ts';
import { Appender, type AppendLineOptions } from '../append.ts';
import { type CommonOptions, command, examples, inEnvironment, parse } from '../command.ts';
import { openEdits } from '../edits-file.ts';
import type { Environment } from '../environment.ts';
import { requireOwnSchema } from '../mapping.ts';
import { Output } from '../output.ts';
import { typesOf } from '../place.ts';
import { chooseReducer, manualTime } from '../reducer.ts';
import { addName, parseName, requireFreeName, SETTINGS_FILE, type Settings } from '../settings.ts';
import { interrupted, untilInterrupted } from '../signals.ts';
import { parseAttributes } from './attributes.ts';

const LINES = `
A line is an entry for any reducer, or an op; docs/commands.md lists them.
  {"type":"Vote","body":{"for":"Denver"}}
  {"op":"snapshot"}

An entry may also have a version (1 by default), a time in epoch seconds, metadata, and once.
  {"type":"Vote","version":2,"time":1767225600,"metadata":{"correlation":"r-1"},"once":{"client":"c","mutation":1}}

An entry that the reducer rejects is not appended.`;

export function appendCommand() {
  return command(
    'append',
    'Append the entries of an NDJSON file. The whole file is read first: a malformed line appends nothing.',
  )
    .argument('<log>', 'the log', parse.log)
    .argument('<file>', 'the file, one JSON object per line; may be a pipe; - for standard input')
    .option('--snapshot-every <n>', 'append a Snapshot entry after every N entries', parse.count)
    .option(
      '--segment-every <n>',
      'start a new segment after every N entries, or later, when the newest has a complete snapshot',
      parse.count,
    )
    .option('--check', 'compare every check line with the sheet, loaded again from snapshot and tail', false)
    .addHelpText('after', LINES)
    .addHelpText(
      'after',
      examples('append budget edits.ndjson --check', 'entries budget --application --json | logfold append copy -'),
    )
    .action(appendFile);
}

/** The options of a command that appends a file of lines. */
export type AppendFileOptions = CommonOptions & AppendLineOptions;

/** Appends the lines of a file, as `logfold append` does. */
export async function appendFile(log: LogId, file: string, options: AppendFileOptions): Promise<void> {
  requireOwnSchema(options, log);
  const { reducer } = await chooseReducer(options.reducer);
  const target = { log, types: typesOf(options), reducer: reducer.name };
  const edits = await untilInterrupted(() => openEdits(file, target));
  let appender: Appender | undefined;
  const describe = (error: InterruptedError) => describeInterruption(error, log, appender);
  // A second signal ends the process immediately.
  const reportInterruption = (): void => new Output(options.json).error(describe(interrupted().reason));
  try {
    await inEnvironment({ ...options, endsItself: true }, async (environment, output, stop) => {
      const started = await untilInterrupted(() => startAppender(environment, log, options));
      appender = started;
      const onStop = (): void => {
        process.once('exit', reportInterruption);
        if (started.inFlight === undefined) return;
        output.note(`Line ${started.inFlight} is being appended. Interrupt again to end without waiting for it.`);
      };
      stop.addEventListener('abort', onStop);
      const progress = output.progress('Lines', edits.count);
      let lines = 0;
      try {
        for await (const { number, line } of edits.lines()) {
          stop.throwIfAborted();
          const append = () => started.append(line, number);
          // A check may take long and appends nothing, so a signal abandons it.
          await (line.kind === 'check' ? untilInterrupted(append) : append());
          progress.update(++lines);
        }
      } finally {
        progress.stop();
        stop.removeEventListener('abort', onStop);
      }
      const { entries, repeated, snapshots, segments, checks, unchecked } = started.counts;
      const known = repeated > 0 ? ` (${repeated} more in the log already)` : '';
      const parts = [
        `${countEntries(entries)} appended${known}`,
        ...(snapshots > 0 ? [`${count(snapshots, 'snapshot')} asked for`] : []),
        ...(segments > 0 ? [`${count(segments, 'segment')} started`] : []),
        ...(checks > 0 ? [`${count(checks, 'check')} passed`] : []),
        ...(unchecked > 0 ? [`${count(unchecked, 'check line')} skipped without --check`] : []),
      ];
      output.result({ log, ...started.counts, last: started.last ?? null }, parts.join(', '));
    });
  } catch (error) {
    throw error instanceof InterruptedError ? describe(error) : nameLine(error, appender?.inFlight);
  } finally {
    process.off('exit', reportInterruption);
    edits.close();
  }
}

async function startAppender(environment: Environment, log: LogId, options: AppendLineOptions): Promise<Appender> {
  const document = await environment.open(log);
  // The document folds each entry first, and does not append what the reducer rejects.
  const add = async (entry: NewEntry) => (await document.append(entry))?.first;
  return new Appender(environment, { log, inSegment: document.position.entry, add }, options);
}

/** Names the line to continue with, so that no line is appended twice. */
function describeInterruption({ signal, reason }: InterruptedError, log: LogId, appender: Appender | undefined) {
  const { inFlight, done = 0, last } = appender ?? {};
  const where = { log, ...last };
  if (inFlight !== undefined) {
    const advice = `Look at the end of the log before you continue: it has the lines before line ${inFlight}, and may have line ${inFlight}`;
    return new InterruptedError(signal, `${reason} at line ${inFlight}`, { ...where, advice });
  }
  if (done === 0)
    return new InterruptedError(signal, reason, { ...where, advice: 'Run the command again: nothing was appended' });
  return new InterruptedError(signal, `${reason} after line ${done}`, {
    ...where,
    advice: `Continue with line ${done + 1}`,
  });
}

/** Names the line in an error that does not name one. */
function nameLine(error: unknown, line: number | undefined): unknown {
  if (error instanceof Error && line !== undefined) error.message = `line ${line}: ${error.message}`;
  return error;
}

/** @param settings reads the settings file, if there is one */
export function createCommand(settings: () => Settings | undefined) {
  return command('create', 'Create a log and print its id.')
    .argument('[id]', "a chosen id, such as 'org-7/budget'; a UUID by default", parse.id)
    .option('--name <name>', `write this name of the log into ${SETTINGS_FILE}, so that commands take it`, parseName)
    .option('--attributes <json>', 'attributes of the log as a whole, as one JSON object', parseAttributes)
    .addHelpText(
      'after',
      examples(
        'create --local data',
        'create org-7/budget',
        `create org-7/plan --attributes '{"owner":"ann"}'`,
        'create --name budget',
      ),
    )
    .action((id, options) => {
      requireOwnSchema(options);
      const { name, attributes } = options;
      for (const each of [name, id]) if (each !== undefined) requireFreeName(settings(), each);
      return inEnvironment({ ...options, creates: true }, async ({ logs }, output) => {
        const log = await logs.create(id, { attributes });
        if (name === undefined) return output.result({ log }, printable(log));
        const file = await addName(settings()?.path ?? join(process.cwd(), SETTINGS_FILE), name, log);
        output.note(`The name '${name}' is in ${file}.`);
        output.result({ log, name }, printable(log));
      });
    });
}

export function segmentCommand() {
  return command(
    'segment',
    'End the newest segment and start the next. The newest segment must have a complete snapshot.',
  )
    .argument('<log>', 'the log', parse.log)
    .addHelpText('after', examples('segment budget'))
    .action((log, options) => {
      requireOwnSchema(options, log);
      return inEnvironment(options, async ({ logs, deps }, output) => {
        const { position, segment } = await logs.client.startSegment(log, await manualTime(deps, log));
        output.result({ log, segment, position }, `Segment ${segment} starts at ${formatPosition(position)}`);
      });
    });
}
