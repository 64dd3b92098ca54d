/** Stores a scratch chunk, says so, and keeps it until somebody kills the process. */

import { nativePlatform } from '../../src/adapters/native-platform.ts';
import { withScratch } from '../../src/adapters/scratch.ts';
import { chunkId } from '../../src/tree/chunk-codec.ts';
import { LOG } from './logs.ts';

await withScratch(LOG, async (scratch) => {
  const bytes = new TextEncoder().encode('a chunk');
  await scratch.put(chunkId(nativePlatform, bytes), bytes);
  process.send?.('stored');
  await new Promise(() => setInterval(() => undefined, 3_600_000));
});
