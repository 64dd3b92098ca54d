import { describe, expect, test } from 'vitest';
import { makeProgram } from '../../src/cli/program.ts';

/** Returns the examples in the help of a command, without the word `logfold`. */
function examplesOf(command: ReturnType<typeof makeProgram>['commands'][number]): string[] {
  let help = '';
  command.configureOutput({
    writeOut: (text) => {
      help += text;
    },
  });
  command.outputHelp();
  const [, examples = ''] = help.split('\nExamples:\n');
  return Array.from(examples.matchAll(/^ {2}logfold (.*)$/gm), ([, line]) => line ?? '');
}

const COMMANDS = makeProgram().commands.map((command) => command.name());

describe('the help of a command has examples that the command takes:', () => {
  test.each(COMMANDS)('%s', async (name) => {
    const program = makeProgram();
    const command = program.commands.find((each) => each.name() === name);
    if (command === undefined) throw new Error(`there is no command ${name}`);
    const examples = examplesOf(command);
    expect(examples).not.toEqual([]);
    for (const example of examples) {
      const ran: string[] = [];
      for (const each of program.commands) {
        // The logs and files of examples do not exist.
        for (const argument of each.registeredArguments) if (argument.name() === 'log') argument.argParser(String);
        for (const option of each.options) if (option.long === '--mapping') option.argParser(() => undefined);
        each.configureOutput({ writeErr: () => undefined }).action(() => void ran.push(each.name()));
      }
      const [line = ''] = example.split(/ [>|#]/);
      await program.parseAsync(line.split(' '), { from: 'user' });
      expect(ran).toHaveLength(1);
      expect(example).toContain(name);
    }
  });
});
