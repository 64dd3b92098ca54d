import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { advices } from '../support/advices.ts';
import type { Cases, Follow } from './advice/case.ts';
import { COMMANDS, closePlace, openPlace } from './advice/commands.ts';
import { DAMAGE } from './advice/damage.ts';
import { closeDeployment, DEPLOYMENT, openDeployment } from './advice/deployment.ts';
import { NOT_FOLLOWED } from './advice/not-followed.ts';
import { REDUCERS } from './advice/reducers.ts';
import { VALUES } from './advice/values.ts';

const FOLLOWED: Cases = { ...VALUES, ...DAMAGE, ...REDUCERS, ...COMMANDS, ...DEPLOYMENT };

/** What an error says of an advice, with what a template puts in; undefined if it says something else. */
function saidOf(advice: string, text: string): string | undefined {
  const parts = text.split(/(…|\bLOG\b)/).map((part, i, all) => {
    if (part === 'LOG') return '(?:LOG|[0-9a-f-]{36})';
    if (part === '…') return i === all.length - 2 && all.at(-1) === '' ? '.+' : '.+?';
    return RegExp.escape(part);
  });
  return new RegExp(parts.join(''), 's').exec(advice)?.[0];
}

async function follow(text: string, steps: Follow): Promise<void> {
  let refusals = 0;
  await steps(async (run) => {
    const error: unknown = await Promise.try(run).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof Error && 'advice' in error)) throw error ?? new Error('what should fail succeeded');
    const said = saidOf(String(error.advice), text);
    if (said === undefined) throw new Error(`the advice is '${error.advice}' instead of '${text}'`, { cause: error });
    refusals++;
    return said;
  });
  expect(refusals).toBeGreaterThan(0);
}

beforeAll(async () => openDeployment(await openPlace()));
afterAll(async () => {
  await closeDeployment();
  await closePlace();
});

describe('following the advice mends what it is about:', () => {
  test.each(Object.entries(FOLLOWED))('%s', follow);
});

test('every advice is followed, or listed with the reason why no test can follow it', async () => {
  const all = await advices();
  const known = [...Object.keys(FOLLOWED), ...Object.values(NOT_FOLLOWED).flat()];
  expect(all.filter((advice) => !known.includes(advice))).toEqual([]);
  expect(known.filter((advice) => !all.includes(advice))).toEqual([]);
  expect(known.filter((advice, i) => known.indexOf(advice) !== i)).toEqual([]);
});
