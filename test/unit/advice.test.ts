import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { advices } from '../support/advices.ts';

/** Advice that names a command of logfold, by its beginning, and the test that follows it. */
const FOLLOWED: Readonly<Record<string, readonly [file: string, title: string]>> = {
  'Restore the object from a version or a backup of the bucket, or run': [
    'rebuild-worker',
    'is made again byte for byte if a build makes the same, %s',
  ],
  'Something else than logfold changed the entry; if it is gone': [
    'verify',
    'finds that the entry which Last Snapshot names %s; a rebuild mends it',
  ],
  'Nothing was changed. Remove attribute': [
    'foreign-root',
    '%s is completed once that is removed, and its log goes on',
  ],
  'Run logfold archive': [
    'turns',
    'makes no archive and leaves nothing behind, wherever it is cut, and one with more time makes it',
  ],
  'Run logfold collect': ['turns', 'unless one turn is too short to read the kept snapshots: then it is refused'],
};

/** Advice that names a command and that no test follows yet. */
const NOT_FOLLOWED: Readonly<Record<string, string>> = {
  'A log id is a UUID': 'it says where ids come from',
  'It was loaded from the snapshot at': 'the replay compares, and mends nothing',
  'The reducer is not deterministic': 'the replay says which of two is right, and mends nothing',
  'Run logfold replay': 'the replay has all the time that it wants there',
  'Take back that it expires, with logfold expire': 'tests of the sweep and of expire --undo cover its two halves',
};

test('each advice that names a command of logfold is followed by a test, or listed with the reason', async () => {
  const named = (await advices()).filter((advice) => /logfold [a-z]+ (?:LOG|…|--)|'logfold /.test(advice));
  const known = [...Object.keys(FOLLOWED), ...Object.keys(NOT_FOLLOWED)];
  expect(named.filter((advice) => !known.some((begin) => advice.startsWith(begin)))).toEqual([]);
  expect(known.filter((begin) => !named.some((advice) => advice.startsWith(begin)))).toEqual([]);
});

test.each(Object.values(FOLLOWED))('%s has the test that follows an advice: %s', async (file, title) => {
  expect(await readFile(new URL(`${file}.test.ts`, import.meta.url), 'utf8')).toContain(title);
});
