import { expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { checkpointOf } from '../../src/feed/checkpoint.ts';
import { appendsEntry, readSpans, type Span } from '../../src/feed/feed-entry.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { feedReducer } from '../../src/feed/feed-reducer.ts';
import { logIdBytes, textLogId } from '../../src/ids/log-id.ts';
import { decodeBody, encodeBody } from '../../src/log/body.ts';
import { Draft } from '../../src/state/draft.ts';
import { flushState, saveState, stateHash } from '../../src/state/state.ts';
import { mergedValues } from '../../src/tree/buffered-tree.ts';
import { nodeStore } from '../support/chunks.ts';
import { expectGoldenText } from '../support/golden.ts';
import { LOG } from '../support/logs.ts';

const order = textLogId('order-7');
const long = textLogId('l'.repeat(2_000));
const at = (segment: number, entry: number) => ({ segment, entry });

/** The spans of the feed's entries; undefined stands for a restart. */
const ENTRIES: readonly (readonly Span[] | undefined)[] = [
  [{ log: order, after: undefined, to: at(3, 0) }],
  undefined,
  [
    { log: LOG, after: undefined, to: at(0, 0) },
    { log: order, after: undefined, to: at(2, 300) },
  ],
  [
    { log: LOG, after: at(0, 0), to: at(2 ** 32 - 1, 2 ** 32 - 1) },
    { log: long, after: undefined, to: at(0, 70_000) },
  ],
];

test('the feed has the bodies, the map and the state hash of the golden file', async () => {
  const nodes = nodeStore();
  const draft = new Draft(nodes);
  const lines = [`log ${FEED_LOG} ${toHex(logIdBytes(FEED_LOG))}`];
  for (const [i, spans] of ENTRIES.entries()) {
    const position = at(1, i + 1);
    const { type, version, body = null } = spans === undefined ? { type: 'Restart', version: 1 } : appendsEntry(spans);
    const bytes = encodeBody(body);
    const checkpoint = checkpointOf(position);
    lines.push(`checkpoint ${checkpoint} ${type} ${version} ${toHex(bytes)}`);
    if (spans !== undefined) expect(readSpans(decodeBody({ format: 'bytes', bytes }))).toEqual(spans);
    await feedReducer.fold(draft, { position, log: LOG, created: 1, createdMs: 1000, type, version, body });
  }
  const state = await flushState(nodes, await draft.state());
  await saveState(nodes, state);
  lines.push(`state hash ${stateHash(nativePlatform, state)}`, `meta ${JSON.stringify(state.meta)}`);
  for (const [name, map] of state.maps) {
    for await (const { key, value } of mergedValues(nodes, map)) lines.push(`${name} ${key} ${JSON.stringify(value)}`);
  }
  await expectGoldenText('feed.txt', `${lines.join('\n')}\n`);
});
