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

test('what was saved last is loaded, and nothing else is left in the folder', async () => {
  const dir = await folder();
  const store = () => new FileCheckpointStore(join(dir, 'checkpoint.json'), 'arn:1');
  expect(await store().load()).toEqual({});
  await store().save({ a: '00012', b: '7' });
  await store().save({ a: '00013' });
  expect(await store().load()).toEqual({ a: '00013' });
  expect(await readdir(dir)).toEqual(['checkpoint.json']);
});

test('the position in another stream counts for nothing', async () => {
  const path = join(await folder(), 'checkpoint.json');
  await new FileCheckpointStore(path, 'arn:1').save({ a: '5' });
  expect(await new FileCheckpointStore(path, 'arn:2').load()).toEqual({});
});

test.each(['', '{"streamArn":', '{"streamArn":"arn:1","position":{"a":5}}'])('%j is refused', async (text) => {
  const path = join(await folder(), 'checkpoint.json');
  await writeFile(path, text);
  await expect(new FileCheckpointStore(path, 'arn:1').load()).rejects.toThrow('checkpoint.json is damaged');
});
