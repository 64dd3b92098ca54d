import { mkdir, mkdtemp, readdir, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { withFileLock } from '../../src/adapters/filesystem/file-lock.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'logfold-lock-'));
});
afterEach(() => rm(directory, { recursive: true }));

describe('withFileLock', () => {
  test('sections that share a lock run one after the other', async () => {
    let running = 0;
    const section = async () => {
      expect(++running).toBe(1);
      await new Promise(setImmediate);
      running--;
    };
    await Promise.all(Array.from({ length: 5 }, () => withFileLock(join(directory, 'one.lock'), section)));
    expect(await readdir(directory)).toEqual([]);
  });

  test('a section that fails frees the lock', async () => {
    const failing = withFileLock(join(directory, 'one.lock'), () => Promise.reject(new RangeError('no')));
    await expect(failing).rejects.toThrow(new RangeError('no'));
    expect(await withFileLock(join(directory, 'one.lock'), async () => 1)).toBe(1);
  });

  test('the lock of a killed process is taken over', async () => {
    const path = join(directory, 'one.lock');
    await mkdir(path);
    await utimes(path, 1, 1);
    expect(await withFileLock(path, async () => 1)).toBe(1);
  });

  test('a directory in which no lock can be created fails immediately with its own error', async () => {
    const locking = withFileLock(join(directory, 'missing', 'one.lock'), async () => 1);
    await expect(locking).rejects.toMatchObject({ code: 'ENOENT' });
  });
});
