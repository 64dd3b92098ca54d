// Checks the prose of the given files, or of all Markdown and TypeScript files in git. Prints the
// findings, then their number by folder. Exits with 1 if there are any.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { lintProse } from './lint.ts';

/** The examples of bad prose in this test are not prose of the project. */
const EXAMPLES = 'test/unit/prose.test.ts';

const given = process.argv.slice(2);
const tracked = (): string[] =>
  execFileSync('git', ['ls-files', '*.md', '*.ts'], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .filter((file) => file !== EXAMPLES && existsSync(file));

const byFolder = new Map<string, number>();
for (const file of given.length > 0 ? given : tracked()) {
  const findings = await lintProse(file, readFileSync(file, 'utf8')).catch((cause: unknown) => {
    throw new Error(`${file} cannot be parsed`, { cause });
  });
  for (const { line, column, rule, message } of findings) {
    console.log(`${file}:${line}:${column} ${message} (${rule})`);
  }
  const folder = file.split('/').slice(0, -1).slice(0, 2).join('/') || '.';
  if (findings.length > 0) byFolder.set(folder, (byFolder.get(folder) ?? 0) + findings.length);
}
for (const [folder, count] of [...byFolder].sort()) console.log(`${folder}: ${count}`);
process.exitCode = byFolder.size === 0 ? 0 : 1;
