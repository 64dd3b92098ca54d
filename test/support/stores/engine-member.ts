/**
 * A process that uses the engine of a directory (its only argument). It prints a line of JSON when
 * it has joined, when the engine is lost and when it has left. It leaves at the first line of
 * input, and then ends because nothing keeps it running.
 */

import { LogfoldError } from '../../../src/errors.ts';
import { joinEngine } from '../../../src/local/engine.ts';

const [, , dir = ''] = process.argv;
const say = (what: unknown) => console.log(JSON.stringify(what));
try {
  const engine = await joinEngine(dir);
  engine.lost.addEventListener('abort', () => say({ lost: engine.lost.reason }));
  say({ endpoint: engine.endpoint });
  process.stdin.once('data', async () => {
    await engine.leave();
    say({ left: true });
    process.stdin.destroy();
  });
} catch (error) {
  say({ failed: error instanceof LogfoldError ? error : String(error) });
}
