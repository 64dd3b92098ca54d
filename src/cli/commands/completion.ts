import { Argument } from '@commander-js/extra-typings';
import { command, examples } from '../command.ts';
import { completionScript, completions, describeCandidates, SHELL_NAMES } from '../completion.ts';
import { Output } from '../output.ts';
import { SETTINGS_FILE, type Settings } from '../settings.ts';

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
