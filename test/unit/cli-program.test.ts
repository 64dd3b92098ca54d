import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
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

const ROOT = join(import.meta.dirname, '../..');
const COMMANDS = makeProgram().commands.map((command) => command.name());

/** The commands that run something: a command with parts only groups them. */
function runnable(program: ReturnType<typeof makeProgram>) {
  return program.commands.flatMap((each) => (each.commands.length > 0 ? [...each.commands] : [each]));
}
const RUNNABLE = runnable(makeProgram()).map((command, i) => [i, command.name()] as const);

describe('the help of a command has examples that the command takes:', () => {
  test.each(RUNNABLE)('%i: %s', async (i, name) => {
    const command = runnable(makeProgram())[i];
    if (command === undefined) throw new Error(`there is no command ${name}`);
    const examples = examplesOf(command);
    expect(examples).not.toEqual([]);
    for (const example of examples) {
      expect(await parsed(example)).toBeDefined();
      expect(example).toContain(name);
    }
  });
});

test.each([undefined, 100, 240])('help texts are as wide as their options, on a screen of %s columns', (columns) => {
  const { isTTY, columns: before } = process.stdout;
  let help = '';
  const written = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    help += text;
    return true;
  });
  try {
    Object.assign(process.stdout, { isTTY: columns !== undefined, columns });
    for (const each of runnable(makeProgram())) {
      help = '';
      each.outputHelp();
      const long = help.split('\n').filter((line) => line.length > (columns === undefined ? 80 : 100));
      // Examples and lines of files must stay as they are.
      expect(long.filter((line) => !/^ {2}(?:logfold|\{|[A-Z]+=)/.test(line))).toEqual([]);
      const headings = ['\nOptions:\n', '\nOptions of every command:\n'].map((heading) => help.indexOf(heading));
      const isShort = headings.includes(-1);
      expect(isShort || (headings[0] ?? 0) < (headings[1] ?? 0), help).toBe(true);
    }
  } finally {
    Object.assign(process.stdout, { isTTY, columns: before });
    written.mockRestore();
  }
});

/** Parses a line without the word `logfold`. @returns the name of the command that would run */
async function parsed(line: string): Promise<string | undefined> {
  const program = makeProgram();
  const ran: string[] = [];
  for (const each of runnable(program)) {
    // The logs and files of the line do not exist.
    for (const argument of each.registeredArguments) if (argument.name() === 'log') argument.argParser(String);
    for (const option of each.options) if (option.long === '--mapping') option.argParser(() => undefined);
    each
      .exitOverride()
      .configureOutput({ writeErr: () => undefined })
      .action(() => void ran.push(each.name()));
  }
  const [words = ''] = line.split(/ (?:[>|#]|&&)/);
  await program.parseAsync(
    words.match(/"[^"]*"|'[^']*'|[^ ]+/g)?.map((word) => word.replaceAll(/^["']|["']$/g, '')),
    {
      from: 'user',
    },
  );
  return ran[0];
}

/**
 * Commands that texts show, without the word `logfold`, with their files. A variable has the
 * options that its file gives it.
 */
function shownCommands(files: readonly string[], shown: RegExp): { readonly file: string; readonly line: string }[] {
  return files.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8').replaceAll(/\\\n */g, '');
    const variables = new Map(Array.from(text.matchAll(/^ *([A-Z]+)="(-.*)"$/gm), ([, name, value]) => [name, value]));
    const expanded = text.replaceAll(/\$([A-Z]+)\b/g, (variable, name) => variables.get(name) ?? variable);
    return Array.from(expanded.matchAll(shown), ([, line = '']) => ({ file, line: line.replaceAll(/\s+/g, ' ') }));
  });
}

describe('the program takes each command that is shown', () => {
  /** Texts in place of what the reader has to fill in. */
  const filled = (line: string): string =>
    line
      .replaceAll(/--at \$\{[^}]*\}/g, '--at 0/1')
      .replaceAll(/\$\{[^}]*\}|…|\[?\b(?:SEGMENT|ENTRY)\b\]?/g, '1')
      .replaceAll(/\[?\b(?:TIME|BEFORE|AFTER)\b\]?/g, '2024-01-31');

  test('in messages and help', async () => {
    const commands = shownCommands(globSync('src/**/*.ts', { cwd: ROOT }), /(?<![a-z])'logfold ([a-z]+[^']*)'/g);
    expect(commands.length).toBeGreaterThan(40);
    expect(await refused(commands)).toEqual([]);
  });

  test('in documents', async () => {
    const documents = ['*.md', 'docs/*.md'].flatMap((pattern) => globSync(pattern, { cwd: ROOT }));
    const inline = shownCommands(documents, /`(?:npx )?logfold ([a-z]+[^`]*)`/g);
    const blocks = shownCommands(
      documents,
      /^ *(?:\w+=\$\()?(?:npx )?logfold ([a-z]+ -.*|[a-z]+ \$.*|[a-z]+ [A-Z]+\b.*)$/gm,
    );
    expect(inline.length).toBeGreaterThan(80);
    expect(blocks.length).toBeGreaterThan(10);
    expect(await refused([...inline, ...blocks])).toEqual([]);
  });

  async function refused(commands: ReturnType<typeof shownCommands>): Promise<string[]> {
    const found: string[] = [];
    for (const { file, line } of commands) {
      // A name without anything else only mentions the command.
      if (COMMANDS.includes(line) || RUNNABLE.some(([, each]) => line === `table ${each}`)) continue;
      const name = await parsed(filled(line)).catch((error: unknown) => String(error));
      if (name === undefined || !RUNNABLE.some(([, each]) => each === name)) found.push(`${file}: ${line}: ${name}`);
    }
    return found;
  }
});

describe('docs/commands.md', () => {
  const document = readFileSync(new URL('../../docs/commands.md', import.meta.url), 'utf8');

  test('it lists every command', () => {
    const [, section = ''] = /^## Commands\n(.*?)^## /ms.exec(document) ?? [];
    const listed = Array.from(section.matchAll(/^(?:\| )?`(?:logfold )?([a-z]+)/gm), ([, name]) => name);
    expect([...new Set(listed)].sort()).toEqual([...COMMANDS].sort());
  });

  test('it has one row for each setting', () => {
    const settings = runnable(makeProgram()).flatMap((command) => settingsOf(command));
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
