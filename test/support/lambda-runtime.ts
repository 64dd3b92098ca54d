/**
 * Runs a function's bundle as Lambda's runtime does, in a process whose environment is the function's: node
 * lambda-runtime.ts BUNDLE EXPORT. Told of an invocation, it answers with what the handler gives, or with its error.
 */

import { pathToFileURL } from 'node:url';
import { lambdaContext } from './lambda-events.ts';
import { END, type InvocationAnswer, type InvocationMessage } from './lambda-process.ts';
import { MovedClock } from './moved-clock.ts';

const [, , bundle = '', name = ''] = process.argv;
// Before the bundle is loaded: it may keep `Date.now`.
const clock = new MovedClock();
const exported: Record<string, unknown> = await import(pathToFileURL(bundle).href);
const handler = exported[name];
if (typeof handler !== 'function') throw new Error(`${bundle} exports no function ${name}`);

process.on('message', async ({ event, remainingMs, movedMs }: InvocationMessage) => {
  clock.movedMs = movedMs;
  const ends = performance.now() + remainingMs;
  const context = { ...lambdaContext(), getRemainingTimeInMillis: () => ends - performance.now() };
  const answer = await answerTo(() => handler(event, context));
  // So that whoever reads what was written knows that this was all.
  for (const stream of [process.stdout, process.stderr]) stream.write(`${END}\n`);
  process.send?.(answer);
});

async function answerTo(invoke: () => unknown): Promise<InvocationAnswer> {
  try {
    return { answer: await invoke() };
  } catch (error) {
    return { failure: String(error instanceof Error ? error.stack : error) };
  }
}
