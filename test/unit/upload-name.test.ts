import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatUploadName, newUpload, parseUploadName } from '../../src/adapters/filesystem/blob-store.ts';
import { BlobKeyInvalidError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { progressKey } from '../../src/store/keys.ts';

const part = fc
  .string({ unit: fc.constantFrom('a', '.', '%', '2', 'F', ' ', '~', '-', ':'), minLength: 1, maxLength: 260 })
  .filter((text) => text !== '.' && text !== '..');
const key = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));

test('the name of an upload has its key, id and time, in file names that every system accepts', () => {
  fc.assert(
    fc.property(key, (key) => {
      const upload = newUpload(key);
      const name = formatUploadName(upload);
      expect(parseUploadName(name)).toEqual(upload);
      for (const file of name.split('/')) {
        expect(file.length).toBeLessThanOrEqual(255);
        expect(['', '.', '..']).not.toContain(file);
      }
    }),
  );
});

test("the longest of logfold's own keys is one file", () => {
  const log = parseLogId('0190b5a0-7e1c-7000-8000-0123456789ab');
  const upload = newUpload(
    progressKey(log, {
      target: { segment: 1, entry: 2 },
      targetCreated: 1,
      reached: { segment: 1, entry: 1 },
      id: 'ab'.repeat(32),
    }),
  );
  expect(formatUploadName(upload)).not.toContain('/');
});

test('other names are not those of uploads', () => {
  const name = formatUploadName(newUpload('a/b'));
  for (const other of ['half-written', name.replace('.', ''), `${name}%`, `${name}%2F`, `${name}%61`, `x${name}`]) {
    expect(parseUploadName(other), other).toBeUndefined();
  }
});

test('a foreign id is refused', () => {
  expect(() => formatUploadName({ key: 'a', id: '../../b', started: 0 })).toThrow(BlobKeyInvalidError);
});
