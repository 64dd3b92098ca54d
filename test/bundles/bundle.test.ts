import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { decodeBody } from '../../src/log/body.ts';

const bundle = z.string().parse(process.env.LOGFOLD_BUNDLE);

test('the code under test is the code in the bundle', async () => {
  expect(await readFile(bundle, 'utf8')).toContain(decodeBody.toString());
});

test('the bundle has no native addon and cannot load one', async () => {
  const map = z.object({ sources: z.array(z.string()) }).parse(JSON.parse(await readFile(`${bundle}.map`, 'utf8')));
  expect(map.sources.some((source) => source.endsWith('/node_modules/msgpackr/pack.js'))).toBe(true);
  expect(map.sources.filter((source) => /\.node$|node-gyp-build|-extract/.test(source))).toEqual([]);
  const require = createRequire(bundle);
  expect(() => require.resolve('msgpackr-extract')).toThrow(expect.objectContaining({ code: 'MODULE_NOT_FOUND' }));
});
