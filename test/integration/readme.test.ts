import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { codeBlocks } from '../support/code-blocks.ts';
import { temporaryDirectory } from '../support/stores/shared-engine.ts';

const run = promisify(execFile);

test('the commands to try it can be pasted, and prove their snapshot', async () => {
  const cwd = await temporaryDirectory();
  const logfold = `'${process.execPath}' '${join(import.meta.dirname, '../../bin/logfold.mjs')}'`;
  const [commands = ''] = codeBlocks('README.md', 'sh', 'Try it yourself');
  const script = commands.replaceAll('npx logfold', logfold);
  const { stdout } = await run('sh', ['-e', '-c', script], { cwd, env: { PATH: process.env.PATH, HOME: cwd } });
  expect(stdout).toMatch(/Austin[\s\S]*Denver/);
  expect(stdout).toContain('row 1 inserted');
  expect(stdout).toContain('equals the stored state at 0/4');
});
