import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as Y from 'yjs';
import { bind } from '../../examples/yjs/binding.ts';
import { TIERS, UPDATE, updatesIn, yjs } from '../../examples/yjs/reducer.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { Document } from '../../src/client/document.ts';
import { encodeBody } from '../../src/log/body.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { foldEntries } from '../../src/snapshot/fold.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import { saveState } from '../../src/state/state.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';
import { FoldedLogs } from '../support/folded-logs.ts';
import { LOG } from '../support/logs.ts';
import { flushedHash } from '../support/models/flushed-hash.ts';
import { reloaded } from '../support/models/reloaded.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** A random edit of one of three clients. */
interface Edit {
  readonly client: number;
  readonly op: 'insert' | 'delete' | 'set' | 'nest' | 'format';
  readonly at: number;
  readonly length: number;
  /** Whether the client first reads what the others wrote. */
  readonly reads: boolean;
}

const edits = (largest: number): fc.Arbitrary<Edit[]> =>
  fc.array(
    fc.record({
      client: fc.nat({ max: 2 }),
      op: fc.constantFrom('insert', 'insert', 'insert', 'delete', 'set', 'nest', 'format'),
      at: fc.nat({ max: 1000 }),
      length: fc.nat({ max: largest }),
      reads: fc.boolean(),
    }),
    { minLength: 5, maxLength: 40, size: 'max' },
  );

function take(doc: Y.Doc, { op, at, length }: Edit): void {
  const [text, map] = [doc.getText('text'), doc.getMap('map')];
  const place = Math.min(at, text.length);
  if (op === 'insert') text.insert(place, 'x'.repeat(length + 1));
  else if (op === 'delete') text.delete(place, Math.min(length, text.length - place));
  else if (op === 'format') text.format(place, Math.min(length, text.length - place), { bold: at % 2 === 0 });
  else if (op === 'set') map.set(`k${at % 3}`, length);
  else map.set(`k${at % 3}`, new Y.Map([['inner', new Y.Text('y')]]));
}

const contentOf = (doc: Y.Doc) => ({
  text: doc.getText('text').toDelta(),
  map: doc.getMap('map').toJSON(),
  vector: Y.encodeStateVector(doc),
});

function newDoc(client: number): Y.Doc {
  const doc = new Y.Doc();
  doc.clientID = client + 1;
  return doc;
}

const throws = (error: unknown): never => {
  throw error;
};

/** The updates that three clients append with random edits, in the order of the log. */
function updatesOf(random: readonly Edit[]): { readonly updates: Uint8Array[]; readonly doc: Y.Doc } {
  const updates: Uint8Array[] = [];
  const clients = [0, 1, 2].map((client) => ({ doc: newDoc(client), read: 0 }));
  for (const { doc } of clients) doc.on('update', (update, origin) => origin === 'log' || updates.push(update));
  const read = (client: { doc: Y.Doc; read: number }): void => {
    for (const update of updates.slice(client.read)) Y.applyUpdate(client.doc, update, 'log');
    client.read = updates.length;
  };
  for (const edit of random) {
    const client = clients[edit.client];
    if (client === undefined) continue;
    if (edit.reads) read(client);
    take(client.doc, edit);
  }
  const doc = newDoc(9);
  for (const update of updates) Y.applyUpdate(doc, update);
  return { updates, doc };
}

/** Folds updates, and loads the state again after some of them. */
async function folded(updates: readonly Uint8Array[], reloads: (index: number) => boolean) {
  const chunks = new MemoryChunks();
  let nodes = nodeStore({}, chunks);
  let draft = new Draft(nodes);
  const blobs = new MemoryBlobStore();
  for (const [entry, update] of updates.entries()) {
    const body = { format: 'bytes', bytes: encodeBody(update) } as const;
    async function* page() {
      yield [{ log: LOG, position: { segment: 0, entry }, created: 1, type: UPDATE, version: 1, body }];
    }
    await foldEntries(draft, page(), { reducer: yjs, blobs, types: RESERVED_TYPES });
    if (!reloads(entry)) continue;
    const state = await draft.state();
    await saveState(nodes, state);
    const next = await reloaded(nodes, state, entry + 1);
    nodes = nodeStore({}, chunks);
    draft = new Draft(nodes, next);
  }
  const state = await draft.state();
  await saveState(nodes, state);
  const tiers = await Array.fromAsync(new FrozenState(nodes, state).map(TIERS).range());
  return { hash: await flushedHash(chunks, state), tiers };
}

describe('the reducer of Yjs', () => {
  test('gives the same hash for snapshots after any entries, and a state that has the whole document', {
    tags: ['I9'],
  }, async () => {
    let most = 0;
    await fc.assert(
      fc.asyncProperty(
        edits(6000),
        fc.array(fc.boolean(), { maxLength: 40 }),
        fc.option(fc.nat(), { nil: undefined, freq: 3 }),
        async (random, where, late) => {
          const { updates, doc } = updatesOf(random);
          // Another program may append an update before those that it needs.
          if (late !== undefined) updates.unshift(...updates.splice(late % updates.length));
          const plain = await folded(updates, () => false);
          expect((await folded(updates, () => true)).hash).toBe(plain.hash);
          expect((await folded(updates, (index) => where[index] === true)).hash).toBe(plain.hash);
          const read = newDoc(8);
          for (const { value } of plain.tiers.reverse()) for (const each of updatesIn(value)) Y.applyUpdate(read, each);
          expect(contentOf(read)).toEqual(contentOf(doc));
          most = Math.max(most, ...plain.tiers.map(({ key }) => Number(key)));
        },
      ),
      { numRuns: propertyRuns(100) },
    );
    // The test needs states with several tiers.
    expect(most).toBeGreaterThan(0);
  });

  test('writes a new snapshot without the older tiers', async () => {
    const doc = newDoc(0);
    const updates: Uint8Array[] = [];
    doc.on('update', (update) => updates.push(update));
    for (let i = 0; i < 300; i++) doc.getText('text').insert(0, 'x'.repeat(1000));
    const before = await folded(updates, () => false);
    doc.getText('text').insert(0, 'last');
    const after = await folded(updates, () => false);
    const changed = after.tiers.filter(({ key, value }) => {
      const old = before.tiers.find((tier) => tier.key === key);
      return Buffer.compare(Buffer.concat(updatesIn(value)), Buffer.concat(updatesIn(old?.value))) !== 0;
    });
    expect(changed.map(({ key }) => key)).toEqual([0]);
    expect(after.tiers.length).toBeGreaterThan(1);
  });

  test('leaves out deleted text when it merges into the oldest tier', async () => {
    const doc = newDoc(0);
    const updates: Uint8Array[] = [];
    doc.on('update', (update) => updates.push(update));
    for (let i = 0; i < 100; i++) {
      doc.getText('text').insert(0, 'x'.repeat(1000));
      doc.getText('text').delete(0, 1000);
    }
    const { tiers } = await folded(updates, () => false);
    const bytes = tiers.flatMap(({ value }) => updatesIn(value)).reduce((sum, { length }) => sum + length, 0);
    expect(bytes).toBeLessThan(30_000);
  });
});

interface Client {
  readonly doc: Y.Doc;
  readonly document: Document;
  readonly binding: Awaited<ReturnType<typeof bind>>;
}

describe('Y.Docs on a log', () => {
  async function opened(logs: FoldedLogs, log: string, client: number): Promise<Client> {
    const document = await logs.logs().open(log, { reducer: yjs });
    const doc = newDoc(client);
    return { doc, document, binding: await bind(document, doc, throws) };
  }

  test('agree after random concurrent edits of three clients, and so does one that loads the log', async () => {
    await fc.assert(
      fc.asyncProperty(edits(2000), fc.nat({ max: 40 }), async (random, snapshotAt) => {
        const logs = new FoldedLogs(yjs);
        const log = await logs.logs().create();
        const clients = await Promise.all([0, 1, 2].map((client) => opened(logs, log, client)));
        for (const [index, edit] of random.entries()) {
          const client = clients[edit.client];
          if (client === undefined) continue;
          if (edit.reads) await client.document.refresh();
          take(client.doc, edit);
          if (index === snapshotAt) await logs.snapshot(log);
        }
        await settle(clients);
        const last = await opened(logs, log, 3);
        const contents = [...clients, last].map(({ doc }) => contentOf(doc));
        for (const content of contents) expect(content).toEqual(contents[0]);
      }),
      { numRuns: propertyRuns(30) },
    );
  });

  /** Waits until everything is stored, read and shown. */
  async function settle(clients: readonly Client[]): Promise<void> {
    for (const { binding } of clients) await binding.stored();
    for (const { document } of clients) await document.refresh();
    for (const { binding } of clients) await binding.shown();
  }

  test('have what changed while they were bound, and the log has what they had before', async () => {
    const logs = new FoldedLogs(yjs);
    const log = await logs.logs().create();
    const other = await opened(logs, log, 0);
    other.doc.getText('text').insert(0, 'log ');
    await other.binding.stored();
    const document = await logs.logs().open(log, { reducer: yjs });
    const doc = newDoc(1);
    doc.getText('text').insert(0, 'before ');
    doc.getText('text').delete(0, 1);
    const binding = bind(document, doc, throws);
    doc.getText('text').insert(0, 'meanwhile ');
    other.doc.getText('text').insert(0, 'others ');
    await other.binding.stored();
    await document.refresh();
    await settle([other, { doc, document, binding: await binding }]);
    expect(contentOf(other.doc)).toEqual(contentOf(doc));
    for (const word of ['log ', 'efore ', 'meanwhile ', 'others '])
      expect(doc.getText('text').toString()).toContain(word);
    // All of it is in the log now, so another connection sends nothing.
    const { number } = document;
    (await binding).stop();
    await (await bind(document, doc, throws)).stored();
    expect(document.number).toBe(number);
  });

  test('that cannot be loaded stay as they are, and send nothing', async () => {
    const logs = new FoldedLogs(yjs);
    const document = await logs.logs().open(await logs.logs().create(), { reducer: yjs });
    const doc = newDoc(0);
    Object.defineProperty(document, 'state', { get: () => throws(new Error('no state')) });
    await expect(bind(document, doc, throws)).rejects.toThrow('no state');
    doc.getText('text').insert(0, 'x');
    expect(document.pending).toEqual([]);
  });

  test('refuse what is not an update before it is stored', async () => {
    const logs = new FoldedLogs(yjs);
    const document = await logs.logs().open(await logs.logs().create(), { reducer: yjs });
    for (const body of [Uint8Array.of(1, 255), 'text', null]) {
      await expect(document.append({ type: UPDATE, version: 1, body })).rejects.toMatchObject({
        code: 'ENTRY_REJECTED',
      });
    }
    expect(document.number).toBe(0);
  });
});
