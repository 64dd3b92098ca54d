import { command, inEnvironment } from '../command.ts';

export function createCommand() {
  return command('create', 'Create a log and print its id.').action((options) =>
    inEnvironment({ ...options, creates: true }, async ({ client }, output) => {
      const log = await client.createLog();
      output.result({ log }, log);
    }),
  );
}
