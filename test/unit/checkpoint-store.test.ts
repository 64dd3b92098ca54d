import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { FileCheckpointStore } from '../../src/local/checkpoint-store.ts';

async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'logfold-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  return dir;
}

test('a store loads the position that was saved last, and leaves no other file behind', async () => {
  const dir = await folder();
  const store = () => new FileCheckpointStore(dir, 'arn:1');
  expect(await store().load()).toEqual({});
  await store().save({ a: '00012', b: '7' });
  await store().save({ a: '00013' });
  expect(await store().load()).toEqual({ a: '00013' });
  expect(await readdir(dir)).toEqual(['stream-checkpoint.json']);
});

test('a store ignores the position in another stream', async () => {
  const dir = await folder();
  await new FileCheckpointStore(dir, 'arn:1').save({ a: '5' });
  expect(await new FileCheckpointStore(dir, 'arn:2').load()).toEqual({});
});

test.each(['', '{"streamArn":', '{"streamArn":"arn:1","position":{"a":5}}'])(
  'a store refuses the damaged file %j',
  async (text) => {
    const dir = await folder();
    await writeFile(join(dir, 'stream-checkpoint.json'), text);
    await expect(new FileCheckpointStore(dir, 'arn:1').load()).rejects.toThrow('stream-checkpoint.json is damaged');
  },
);
