import { spawnSync } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';

/** The output of a new process, which loads a module of the project and then runs a program. */
function run(program: string, module: string): unknown {
  const loaded = pathToFileURL(module).href;
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', `const loaded = await import(${JSON.stringify(loaded)}); ${program}`],
    { encoding: 'utf8', env: { ...process.env, AWS_LAMBDA_FUNCTION_NAME: 'x', POWERTOOLS_DEV: 'false' } },
  );
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

const CONFUSED = String.raw`
  const known = JSON.parse('{"a":1,"\\\\":2}');
  const names = Object.keys(JSON.parse('{"a":1,"\\n":2}'));
  const buffer = Object.keys(JSON.parse(Buffer.from('{"a":1,"\\t":2}')));
  const revived = JSON.parse('{"a":1,"\\r":{"\\r":[2]}}', (name, value) => (value === 2 ? name + 2 : value));
  console.log(JSON.stringify({ known: Object.keys(known), names, buffer, revived: Object.entries(revived) }));
`;
const RIGHT = {
  known: ['a', '\\'],
  names: ['a', '\n'],
  buffer: ['a', '\t'],
  revived: [
    ['a', 1],
    ['\r', { '\r': ['02'] }],
  ],
};

describe('JSON.parse of a process', () => {
  test('is right after the module of the functions was loaded', () => {
    expect(run(CONFUSED, 'handlers/instrument.ts')).toEqual(RIGHT);
  });

  test('is right after its repair', () => {
    expect(run(`loaded.repairJsonParse(); ${CONFUSED}`, 'src/adapters/platform/json-parse.ts')).toEqual(RIGHT);
  });

  test('passes the source of numbers to a reviver', () => {
    const sources = String.raw`
      loaded.repairJsonParse();
      const sources = [];
      JSON.parse('{"\\n":1.0,"b":[2e3]}', (name, value, { source }) => void sources.push([name, source]));
      console.log(JSON.stringify(sources));`;
    expect(run(sources, 'src/adapters/platform/json-parse.ts')).toEqual([
      ['\n', '1.0'],
      ['0', '2e3'],
      ['b', null],
      ['', null],
    ]);
  });
});
