import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { afterEach, expect, test, vi } from 'vitest';
import { completionScript, completions, describeCandidates } from '../../src/cli/commands/completion.ts';
import { Output } from '../../src/cli/output.ts';
import { makeProgram } from '../../src/cli/program.ts';

const NAMES = ['budget', 'plan'];

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** The candidates for the last word. */
function complete(...words: readonly string[]): string[] {
  return completions(makeProgram(), words, NAMES).map(({ word }) => word);
}

test('commands, options, choices and names of logs are completed in their places', () => {
  expect(complete('vi')).toEqual(['view']);
  expect(complete('')).toEqual(expect.arrayContaining(['create', 'entries', 'completion']));
  expect(complete('--v')).toEqual(['--version']);
  expect(complete('view', '')).toEqual(NAMES);
  expect(complete('view', 'b')).toEqual(['budget']);
  expect(complete('view', '--json', '--rows', '0:1', 'p')).toEqual(['plan']);
  expect(complete('sweep', '--log', '')).toEqual(NAMES);
  expect(complete('view', 'plan', '--ro')).toEqual(['--rows']);
  expect(complete('flush', '')).toEqual(NAMES);
  expect(complete('completion', 'z')).toEqual(['zsh']);
  expect(complete('table', '')).toEqual(['export', 'revisions', 'compare']);
  expect(complete('table', 'compare', '--w')).toEqual(['--wait']);
});

/** The words of a section in the help of a command. */
function helpOf(command: CommandUnknownOpts, section: string, pattern: RegExp): string[] {
  const [, text = ''] = command.helpInformation().split(`\n${section}:\n`);
  return Array.from((text.split('\n\n')[0] ?? '').matchAll(pattern), ([, word]) => word ?? '');
}

test('every command, and every option of every command, is completed', () => {
  const program = makeProgram();
  const commands = helpOf(program, 'Commands', /^ {2}(\w+)/gm);
  expect(commands).toEqual(expect.arrayContaining(program.commands.map((each) => each.name())));
  expect(complete('')).toEqual(commands);
  expect(complete('help', '')).toEqual(commands);
  for (const each of program.commands.filter(({ commands }) => commands.length === 0)) {
    const sections = ['Options', 'Options of every command'];
    const options = sections.flatMap((section) => helpOf(each, section, /^ {2}(?:-\w, )?(--[\w-]+)/gm));
    expect(options).toEqual(expect.arrayContaining(['--local', '--json', '--help']));
    expect(complete(each.name(), '-').sort(), each.name()).toEqual(options.sort());
  }
});

test('the log of the feed is completed if its table is given', async () => {
  const result = vi.spyOn(Output.prototype, 'result').mockImplementation(() => undefined);
  const answer = async (...words: readonly string[]): Promise<unknown> => {
    await makeProgram().parseAsync(['completion', 'bash', '--', ...words], { from: 'user' });
    return result.mock.lastCall?.[1];
  };
  expect(await answer('entries', 'fe')).toBe('');
  expect(await answer('entries', '--feed-table', 'Feed', 'fe')).toBe('feed');
  vi.stubEnv('LOGFOLD_FEED_TABLE', 'Feed');
  expect(await answer('entries', 'fe')).toBe('feed');
});

test('names that a shell could run are left out', () => {
  const names = ['$(id)', '`id`', 'a;id', 'a b', 'a\nb', '*', '\u001b[2J', '-rf', 'plan'];
  expect(completions(makeProgram(), ['view', ''], names).map(({ word }) => word)).toEqual(['plan']);
});

test('files are left to the shell', () => {
  expect(complete('append', 'plan', '')).toEqual([]);
  expect(complete('view', '--reducer', '')).toEqual([]);
  expect(complete('no-such-command', '')).toEqual([]);
});

test('each shell gets its own form of a description', () => {
  const found = [{ word: 'a:b', description: 'a log' }];
  expect(describeCandidates('bash', found)).toBe('a:b');
  expect(describeCandidates('zsh', found)).toBe('a\\:b:a log');
  expect(describeCandidates('fish', found)).toBe('a:b\ta log');
});

test('the script for bash passes on the words before the cursor, and takes a line as a candidate', async () => {
  // Words are data: the shell must not run them.
  const line = `logfold() { printf '%s\\n' "$@"; }
    ${completionScript('bash')}
    COMP_WORDS=(logfold view '$(exit 1)' b after); COMP_CWORD=3; _logfold; printf '<%s>' "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)('bash', ['-c', line]);
  expect(stdout).toBe('<completion><bash><--><view><$(exit 1)><b>');
});
