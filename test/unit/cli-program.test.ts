import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { makeProgram } from '../../src/cli/program.ts';
import { settingsOf } from '../../src/cli/settings.ts';

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

describe('docs/commands.md', () => {
  const document = readFileSync(new URL('../../docs/commands.md', import.meta.url), 'utf8');

  test('it lists every command', () => {
    const [, section = ''] = /^## Commands\n(.*?)^## /ms.exec(document) ?? [];
    const listed = Array.from(section.matchAll(/^(?:\| )?`(?:logfold )?([a-z]+)/gm), ([, name]) => name);
    expect([...new Set(listed)].sort()).toEqual([...COMMANDS].sort());
  });

  test('it has one row for each setting', () => {
    const settings = makeProgram().commands.flatMap((command) => settingsOf(command));
    const rows = settings.map((each) => `\`${each.long}\`|\`${each.variable}\`|\`${each.attributeName()}\``);
    const documented = document.match(/^\| `--.*`LOGFOLD_.*$/gm) ?? [];
    const cells = documented.map((row) =>
      row
        .replaceAll(/ *\| */g, '|')
        .split('|')
        .slice(1, 4)
        .join('|'),
    );
    expect(cells.sort()).toEqual([...new Set(rows)].sort());
  });
});
