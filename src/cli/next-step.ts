import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { shellWord } from '../errors.ts';
import { Setting } from './settings.ts';

/** A command in quotes as the texts of the sources have it, up to its first option or argument. */
const QUOTED = /(?<=')logfold ([a-z]+(?: (?:export|revisions|compare)(?![^ ']))?)([^']*)/g;

/** The words of the option that somebody typed, by its long name. */
const typed = new Map<string, string>();
let commands: readonly CommandUnknownOpts[] = [];

/**
 * Remembers the options for the place and the division that somebody typed.
 * @param words the value of each option as it was typed, by the long name of the option
 */
export function noteTyped(command: CommandUnknownOpts, words: ReadonlyMap<string, string>): void {
  for (const option of command.options) {
    const word = words.get(option.long ?? '');
    const isTyped = command.getOptionValueSource(option.attributeName()) === 'cli';
    if (!isTyped || word === undefined || !option.long) continue;
    if (option instanceof Setting || /^--(snapshot|segment)-every-/.test(option.long)) typed.set(option.long, word);
  }
}

/** Remembers all commands, which say where an option can be repeated. */
export function noteCommands(all: readonly CommandUnknownOpts[]): void {
  commands = all;
}

/** How to start the command line again, as it was started. npx finds it where no shell does. */
export function commandName(): string {
  return process.env.npm_command === undefined ? 'logfold' : 'npx logfold';
}

/**
 * A text in which each command in quotes can be pasted: it is started as this one was, and has the
 * options for the place and the division that somebody typed. Those from variables and the settings
 * file hold for the next command too. An option that the text gives stays as it is.
 */
export function pastable(text: string): string {
  return text.replaceAll(QUOTED, (_, name: string, rest: string) => {
    const target = commandNamed(name);
    const given = new Set(rest.split(/[ =]/));
    const words = target === undefined ? [] : repeated(target).filter(([option]) => !given.has(option));
    return `${[`${commandName()} ${name}`, ...words.map(([option, word]) => `${option} ${shellWord(word)}`)].join(' ')}${rest}`;
  });
}

function commandNamed(name: string): CommandUnknownOpts | undefined {
  const [first, second] = name.split(' ');
  const found = commands.find((each) => each.name() === first);
  return second === undefined ? found : (found?.commands.find((each) => each.name() === second) ?? found);
}

/** The typed options that a command has too. */
function repeated(target: CommandUnknownOpts): [option: string, word: string][] {
  const names = target.options.flatMap(({ long }) => (long ? [long] : []));
  return Array.from(typed).filter(([option]) => names.includes(option));
}
