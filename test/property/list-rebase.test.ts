import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import { EntryDroppedError } from '../../src/errors.ts';
import type { Reducer, UnplacedEntry } from '../../src/state/reducer.ts';
import { LiveLog } from '../support/live-logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** A list of texts: ['Insert', [position, text]], ['Remove', [position]]. */
const list: Reducer = {
  name: 'list',
  version: 1,
  async fold(draft, { type, body }) {
    const map = draft.map('lists', 'string');
    const known = await map.get('all');
    const texts = Array.isArray(known) ? known : [];
    const [position, text] = Array.isArray(body) ? body : [];
    const added = type === 'Insert' && text !== undefined ? [text] : [];
    map.put('all', texts.toSpliced(Number(position), type === 'Remove' ? 1 : 0, ...added));
  },
  rebase(entry, other, side) {
    const [position, at] = [positionOf(entry), positionOf(other)];
    if (at > position || !Array.isArray(entry.body)) return undefined;
    if (other.type === 'Insert') {
      if (at === position && entry.type === 'Insert' && side === 'earlier') return undefined;
      return { bodies: [entry.body.with(0, position + 1)] };
    }
    if (at < position) return { bodies: [entry.body.with(0, position - 1)] };
    return entry.type === 'Remove' ? { bodies: [], reason: 'the text is gone already' } : undefined;
  },
};

function positionOf({ body }: UnplacedEntry): number {
  return Array.isArray(body) ? Number(body[0]) : 0;
}

async function textsOf(document: Document): Promise<readonly string[]> {
  const texts = await document.map('lists').get('all');
  return Array.isArray(texts) ? texts.map(String) : [];
}

const edit = fc.record({
  writer: fc.integer({ min: 0, max: 2 }),
  kind: fc.constantFrom('insert', 'insert', 'remove', 'refresh'),
  at: fc.nat({ max: 1_000 }),
});

test('a removal that others made first drops no later edit of its author', { tags: ['I12'] }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { maxLength: 30 }), fc.nat({ max: 40 }), async (edits, turns) => {
      const live = await LiveLog.create();
      const first = await live.open({ reducer: list });
      const started = ['a', 'b', 'c', 'd', 'e'];
      await first.append(started.map((text, i) => ({ type: 'Insert', version: 1, body: [i, text] })));
      const writers = [first, await live.open({ reducer: list }), await live.open({ reducer: list })];
      // Requests take a while, so that authors write on top of entries that the log does not have.
      live.interceptor = async (_, effect) => {
        for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
        return effect();
      };
      const sent: Promise<unknown>[] = [];
      const gone = new Set<string>();
      const inserted: string[] = [];
      for (const [i, { writer, kind, at }] of edits.entries()) {
        const document = writers[writer] ?? first;
        if (kind === 'refresh') {
          await Promise.all([document.refresh(), ...sent]);
          continue;
        }
        let texts = await textsOf(document);
        for (let { state } = document; ; { state } = document) {
          texts = await textsOf(document);
          if (state === document.state) break;
        }
        const position = at % (texts.length + 1);
        const removed = texts[position];
        const isRemoval = kind === 'remove' && removed !== undefined;
        if (isRemoval) gone.add(removed);
        else inserted.push(`${i}`);
        const entry = isRemoval
          ? { type: 'Remove', version: 1, body: [position] }
          : { type: 'Insert', version: 1, body: [position, `${i}`] };
        const told = document.mutate(entry);
        const isDropped = (error: unknown) => expect(error).toBeInstanceOf(EntryDroppedError);
        sent.push(isRemoval ? told.catch(isDropped) : told);
        // A mutation counts as seen before it is shown, so the next look waits for that.
        while (!document.pending.some((each) => each.entry.body === entry.body)) {
          const isSettled = await Promise.race([told.then(Boolean, () => true), new Promise((r) => setImmediate(r))]);
          if (isSettled === true) break;
        }
      }
      await Promise.all(sent);
      for (const document of writers) await document.refresh();
      const end = await textsOf(first);
      for (const document of writers) expect(await textsOf(document)).toEqual(end);
      expect([...end].sort()).toEqual([...started, ...inserted].filter((text) => !gone.has(text)).sort());
    }),
    { numRuns: propertyRuns(1_000) },
  );
});
