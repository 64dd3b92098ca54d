import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type PipelineEvent, runPipeline } from '../../local/pipeline.ts';
import { formatPosition } from '../../log/position.ts';
import { contains, type Stop } from '../../snapshot/stop.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { formatBytes, type Output } from '../output.ts';
import { interrupted } from '../signals.ts';

export function workCommand() {
  return command('work', 'Run the pipeline: read the stream, build snapshots, until interrupted.')
    .option('--until-idle', 'end when nothing is left to do; exit code 1 where something failed', false)
    .option('--concurrency <n>', 'logs to work on at once', parse.count, 2)
    .action((options) =>
      inEnvironment(options, async (environment, output) => {
        // Before anything that tells a person, or a program, that it may interrupt.
        const stop = interrupted();
        const summary = new Summary(output);
        const dead: Promise<void>[] = [];
        const streamArn = await environment.streamArn();
        output.note('Working; interrupt to stop.');
        await runPipeline({
          streams: environment.streams,
          streamArn,
          checkpoints: environment.checkpoints(streamArn),
          snapshot: environment.deps,
          types: environment.deps.types,
          concurrency: options.concurrency,
          untilIdle: options.untilIdle,
          signal: AbortSignal.any([stop, environment.lost]),
          onEvent: (event) => {
            summary.count(event);
            if (event.kind === 'dead' && options.local !== undefined) {
              const written = appendFile(join(options.local, 'dead-letters.ndjson'), `${event.message.body}\n`);
              // Awaited at the end: a failure before that must not count as unhandled.
              written.catch(() => undefined);
              dead.push(written);
            }
          },
        });
        await Promise.all(dead);
        environment.lost.throwIfAborted();
        summary.finish();
      }),
    );
}

/** Counts what the pipeline does, and tells a person of each thing as it happens. */
class Summary {
  readonly #output: Output;
  #built = 0;
  #present = 0;
  #compactions = 0;
  #entries = 0;
  #chunks = 0;
  #bytes = 0;
  readonly #stopped = new Map<string, Stop>();
  readonly #failures: string[] = [];

  constructor(output: Output) {
    this.#output = output;
  }

  count(event: PipelineEvent): void {
    switch (event.kind) {
      case 'job':
        return this.#countJob(event);
      case 'failed':
        return this.#output.note(`a job failed and is tried again: ${String(event.error)}`);
      case 'dead':
        return this.#fail(`a job was given up after ${event.message.receiveCount} tries: ${event.message.body}`);
      case 'record':
        return this.#fail(`stream record ${event.record.sequenceNumber} cannot be routed: ${String(event.error)}`);
      case 'discarded':
        return this.#fail(`stream records were given up: ${JSON.stringify(event.batch)}`);
      case 'trimmed':
        return this.#fail(`stream records were trimmed before they were read: ${JSON.stringify(event.trimmed)}`);
    }
  }

  #countJob({ log, result, ms }: Extract<PipelineEvent, { kind: 'job' }>): void {
    const place = `${log} ${formatPosition(result.position)}`;
    if (result.outcome === 'built') {
      const stop = this.#stopped.get(log);
      if (stop !== undefined && contains(result.position, stop)) this.#stopped.delete(log);
      this.#built++;
      this.#entries += result.entries;
      this.#chunks += result.chunksWritten;
      this.#bytes += result.bytesWritten + result.rootBytes;
      const why = result.rebuiltBecause === undefined ? '' : `, from the beginning because ${result.rebuiltBecause}`;
      const size = formatBytes(result.bytesWritten + result.rootBytes);
      const work = `${result.entries} entries, ${result.chunksWritten} chunks, ${size}, ${Math.round(ms)} ms`;
      this.#output.note(`snapshot ${place}: ${work}${why}`);
    } else if (result.outcome === 'compacted') {
      this.#compactions++;
      this.#chunks += result.chunksWritten;
      this.#bytes += result.bytesWritten + result.rootBytes;
      const size = formatBytes(result.bytesWritten + result.rootBytes);
      const work = `${result.waited} edits, ${result.chunksWritten} chunks, ${size}, ${Math.round(ms)} ms`;
      this.#output.note(`settled  ${place}: ${work}`);
    } else if (result.outcome === 'present') this.#present++;
    else if (result.outcome === 'stopped') {
      this.#stopped.set(log, result.stop);
      this.#output.note(`snapshot ${place}: the log is stopped: ${result.stop.message}`);
    }
  }

  #fail(text: string): void {
    this.#failures.push(text);
    this.#output.note(text);
  }

  finish(): void {
    const stopped = Array.from(this.#stopped, ([log, stop]) => ({ log, ...stop }));
    if (stopped.length > 0 || this.#failures.length > 0) process.exitCode = 1;
    const totals = { snapshots: this.#built, present: this.#present, compactions: this.#compactions };
    const written = { entries: this.#entries, chunks: this.#chunks, bytes: this.#bytes };
    const built = `${this.#built} snapshots built from ${this.#entries} entries, ${this.#compactions} settled`;
    this.#output.result(
      { ...totals, ...written, stopped, failures: this.#failures },
      `${built}: ${this.#chunks} chunks, ${formatBytes(this.#bytes)}`,
    );
  }
}
