import { Argument, type CommandUnknownOpts, type Option } from '@commander-js/extra-typings';
import { command, examples } from '../command.ts';
import { Output } from '../output.ts';
import { isPlainName, SETTINGS_FILE, type Settings } from '../settings.ts';

const HELP = `
The script completes commands, options and the names of logs in ${SETTINGS_FILE}. Load it when your shell starts:
  bash   echo 'source <(logfold completion bash)' >> ~/.bashrc
  zsh    echo 'source <(logfold completion zsh)' >> ~/.zshrc, after compinit
  fish   logfold completion fish > ~/.config/fish/completions/logfold.fish

The script runs logfold, so the command must be on your PATH: 'npm install --global' puts it there, npx does not.
If words follow --, the command prints the candidates for the last one. The scripts use this.`;

/** @param settings reads the settings file, if there is one */
export function completionCommand(settings: () => Settings | undefined) {
  return command('completion', 'Print the script that lets a shell complete the words of a command.')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELL_NAMES))
    .argument('[words...]', 'complete the last of these words instead')
    .addHelpText('after', HELP)
    .addHelpText('after', examples('completion bash', 'completion bash -- view --ro'))
    .action((shell, words, { json, feedTable }, self) => {
      const output = new Output(json);
      if (words.length === 0) {
        const script = completionScript(shell);
        output.result({ shell, script }, script);
        return;
      }
      const { parent } = self;
      const names = [...(settings()?.names.keys() ?? [])];
      if (feedTable !== undefined || words.includes('--feed-table')) names.push('feed');
      const found = parent === null ? [] : completions(parent, words, names);
      output.result({ shell, candidates: found }, describeCandidates(shell, found));
    });
}

/** A word that may come next. */
export interface Candidate {
  readonly word: string;
  readonly description: string;
}

/**
 * The candidates for the last word. Empty if anything may, such as a file.
 * @param words after the name of the program; the last one is unfinished and may be empty
 * @param names names of logs. Those that a shell could run are left out: the settings file may come
 * from somebody else, and bash puts a word into the line as it is
 */
export function completions(
  program: CommandUnknownOpts,
  words: readonly string[],
  names: Iterable<string>,
): readonly Candidate[] {
  const current = words.at(-1) ?? '';
  const [name, ...before] = words.slice(0, -1);
  return candidates(program, { name, before, current, names }).filter(({ word }) => word.startsWith(current));
}

interface Line {
  /** The name of the command; undefined if it is the unfinished word. */
  readonly name: string | undefined;
  /** Words between the name and the unfinished one. */
  readonly before: readonly string[];
  readonly current: string;
  readonly names: Iterable<string>;
}

function candidates(program: CommandUnknownOpts, { name, before, current, names }: Line): readonly Candidate[] {
  const logs = (): Candidate[] =>
    Array.from(names)
      .filter(isPlainName)
      .map((word) => ({ word, description: 'log' }));
  if (name === undefined) {
    return current.startsWith('-') ? optionsOf(program) : commandsOf(program);
  }
  const command = program
    .createHelp()
    .visibleCommands(program)
    .find((each) => each.name() === name);
  if (command === undefined) return [];
  if (command.commands.length > 0) {
    const [part, ...rest] = before;
    return candidates(command, { name: part, before: rest, current, names });
  }
  if (current.startsWith('-')) return optionsOf(command);
  const takesValue = (word: string | undefined): Option | undefined =>
    command.options.find(({ required, long, short }) => required && word !== undefined && [long, short].includes(word));
  const option = takesValue(before.at(-1));
  if (option !== undefined) return option.long === '--log' ? logs() : chosen(option.argChoices);
  const operands = before.filter((word, i) => !word.startsWith('-') && takesValue(before[i - 1]) === undefined);
  const argument = command.registeredArguments[operands.length];
  if (argument?.name() === 'log') return logs();
  // The command `help` takes the name of a command.
  return argument?.name() === 'command' ? commandsOf(program) : chosen(argument?.argChoices);
}

/** The commands as the help of the program lists them. */
function commandsOf(program: CommandUnknownOpts): Candidate[] {
  const commands = program.createHelp().visibleCommands(program);
  return commands.map((each) => ({ word: each.name(), description: each.description() }));
}

/** The options that the help of the command lists. */
function optionsOf(command: CommandUnknownOpts): Candidate[] {
  const options = command.createHelp().visibleOptions(command);
  return options.flatMap(({ long, description }) => (long ? [{ word: long, description }] : []));
}

function chosen(words: readonly string[] = []): Candidate[] {
  return words.map((word) => ({ word, description: '' }));
}

/** A shell for which there is a script. */
export type Shell = keyof typeof SHELLS;

/**
 * The script of each shell, and the form of the candidates that it reads, one per line. If there
 * are none, the shell completes files.
 */
const SHELLS = {
  bash: {
    script: `_logfold() {
  local IFS=$'\\n'
  COMPREPLY=($(logfold completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o bashdefault -o default -F _logfold logfold`,
    line: ({ word }: Candidate) => word,
  },
  zsh: {
    script: `#compdef logfold
_logfold() {
  local -a found
  found=("\${(@f)$(logfold completion zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found[1]" ]]; then _describe logfold found; else _files; fi
}
if [[ "$funcstack[1]" == _logfold ]]; then _logfold; else compdef _logfold logfold; fi`,
    line: ({ word, description }: Candidate) =>
      description === '' ? word.replaceAll(':', '\\:') : `${word.replaceAll(':', '\\:')}:${description}`,
  },
  fish: {
    script: [
      'function __logfold_complete',
      '  set -l words (commandline -opc) (commandline -ct)',
      '  set -l found (logfold completion fish -- $words[2..] 2>/dev/null)',
      '  if test (count $found) -gt 0',
      "    printf '%s\\n' $found",
      '  else',
      '    __fish_complete_path (commandline -ct)',
      '  end',
      'end',
      "complete -c logfold -f -a '(__logfold_complete)'",
    ].join('\n'),
    line: ({ word, description }: Candidate) => `${word}\t${description}`,
  },
} as const;

/** The shells that have a script. */
export const SHELL_NAMES = ['bash', 'zsh', 'fish'] as const satisfies readonly Shell[];

/** The script that asks for candidates, for the start file of a shell. */
export function completionScript(shell: Shell): string {
  return SHELLS[shell].script;
}

/** Candidates as the script of a shell reads them. */
export function describeCandidates(shell: Shell, found: readonly Candidate[]): string {
  return found.map(SHELLS[shell].line).join('\n');
}
