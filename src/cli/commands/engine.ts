import { once } from 'node:events';
import { UsageError } from '../../errors.ts';
import { command, inEnvironment } from '../command.ts';

export function engineCommand() {
  return command(
    'engine',
    'Run the embedded engine until interrupted, and print the endpoint for your own programs.',
  ).action((options) => {
    if (options.local === undefined) {
      throw new UsageError('the embedded engine needs a directory for its data', { advice: 'Give --local DIR' });
    }
    return inEnvironment({ ...options, creates: true, endsItself: true }, async ({ endpoint, lost }, output, stop) => {
      const signal = AbortSignal.any([stop, lost]);
      output.result({ endpoint }, `DynamoDB answers at ${endpoint}; any credentials and region will do.`);
      // Something must keep the process alive: a signal handler alone does not.
      const alive = setInterval(() => {}, 60_000);
      if (!signal.aborted) await once(signal, 'abort');
      clearInterval(alive);
      lost.throwIfAborted();
    });
  });
}
