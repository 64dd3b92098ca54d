/**
 * Runs a function's bundle like Lambda's runtime, in a process with the function's environment:
 * node lambda-runtime.ts BUNDLE EXPORT. It answers each invocation message with the handler's
 * result or error.
 */

import { pathToFileURL } from 'node:url';
import { lambdaContext } from './lambda-events.ts';
import { END, type InvocationAnswer, type InvocationMessage } from './lambda-process.ts';
import { MovedClock } from './moved-clock.ts';

const [, , bundle = '', name = ''] = process.argv;
// Move the clock before the bundle loads: the bundle may keep a reference to `Date.now`.
const clock = new MovedClock();
const exported: Record<string, unknown> = await import(pathToFileURL(bundle).href);
const handler = exported[name];
if (typeof handler !== 'function') throw new Error(`${bundle} exports no function ${name}`);

process.on('message', async ({ event, remainingMs, movedMs }: InvocationMessage) => {
  clock.movedMs = movedMs;
  const ends = performance.now() + remainingMs;
  const context = { ...lambdaContext(), getRemainingTimeInMillis: () => ends - performance.now() };
  const answer = await answerTo(() => handler(event, context));
  // Marks the end of the invocation's output.
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
