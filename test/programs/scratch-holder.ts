/** Stores a scratch chunk, prints a message, and keeps the chunk until the process is killed. */

import { withScratch } from '../../src/adapters/filesystem/scratch.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { chunkId } from '../../src/codec/chunk.ts';
import { LOG } from '../support/logs.ts';

await withScratch(LOG, async (scratch) => {
  const bytes = new TextEncoder().encode('a chunk');
  await scratch.put(chunkId(nativePlatform, bytes), bytes);
  process.send?.('stored');
  await new Promise(() => setInterval(() => undefined, 3_600_000));
});
