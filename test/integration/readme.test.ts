import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { expect, onTestFinished, test } from 'vitest';
import { joinEngine } from '../../src/local/engine.ts';
import { ensureTables } from '../../src/local/tables.ts';
import { startLocalAws } from '../support/fauxqs.ts';
import { clientConfig, temporaryDirectory } from '../support/shared-engine.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The code block under a heading of the README. */
function blockOf(heading: string): string {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const section = readme.split('\n## ').find((each) => each.startsWith(`${heading}\n`));
  const block = /^```\w+\n(.*?)^```$/ms.exec(section ?? '')?.[1];
  if (block === undefined) throw new Error(`the README has no code under "${heading}"`);
  return block;
}

test('the commands to try it can be pasted, and prove their snapshot', async () => {
  const cwd = await temporaryDirectory();
  const logfold = `'${process.execPath}' '${join(ROOT, 'bin/logfold.mjs')}'`;
  const script = blockOf('Try it yourself').replaceAll('npx logfold', logfold);
  const { stdout } = await run('sh', ['-e', '-c', script], { cwd, env: { PATH: process.env.PATH, HOME: cwd } });
  expect(stdout).toContain('1 check passed');
  expect(stdout).toMatch(/Austin[\s\S]*Denver/);
  expect(stdout).toContain('equals the stored state at 0/4');
});

test('the example of an application compiles, appends entries and loads them', async () => {
  const directory = await temporaryDirectory();
  const example = join(directory, 'example.ts');
  await writeFile(example, blockOf('Use it from your application'));
  for (const name of ['src', 'node_modules', 'package.json']) await symlink(join(ROOT, name), join(directory, name));
  const project = { extends: join(ROOT, 'tsconfig.json'), include: ['example.ts'] };
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(project));
  const engine = await joinEngine(join(directory, 'data'));
  onTestFinished(() => engine.leave());
  const dynamodb = new DynamoDBClient(clientConfig(engine.endpoint));
  onTestFinished(() => dynamodb.destroy());
  await ensureTables(dynamodb, { entryTable: 'Entry', segmentTable: 'Segment' });
  const aws = await startLocalAws();
  onTestFinished(() => aws.stop());
  await aws.s3.send(new CreateBucketCommand({ Bucket: 'my-snapshots' }));

  await run(join(ROOT, 'node_modules/.bin/tsc'), ['--project', directory]);
  const env = {
    PATH: process.env.PATH,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_ENDPOINT_URL_DYNAMODB: engine.endpoint,
    AWS_ENDPOINT_URL_S3: aws.server.address,
  };
  const { stdout } = await run(process.execPath, [example], { env });
  expect(stdout).toBe('0 0 Denver\nloaded up to 0/3\n');
});
