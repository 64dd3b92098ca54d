/** Folds the updates of a Yjs document. README.md says how to use it. */
import type { DraftMap, Reducer, ReducerDraft, Value } from 'logfold';
import * as Y from 'yjs';

/** The type of an entry whose body is an update. */
export const UPDATE = 'Yjs Update';
/** The map with the tiers: in 0 a list of the newest updates, in the others one merged update. */
export const TIERS = 'yjs';

/** The number of the oldest tier, in the metadata record. */
const OLDEST = 'yjs oldest tier';

/** The most bytes of tier 0. Each further tier has 8 times as many. */
const FIRST_BYTES = 16 * 1024;
const FACTOR = 8;

/** The newest updates of a draft. A draft that was loaded has them in tier 0. */
interface Newest {
  readonly updates: Uint8Array[];
  bytes: number;
}
const newestOf = new WeakMap<ReducerDraft, Newest>();

/** The updates of a tier. */
export function updatesIn(tier: Value | undefined): Uint8Array[] {
  return [tier].flat().filter((update) => update instanceof Uint8Array);
}

async function load(tiers: DraftMap): Promise<Newest> {
  const updates = updatesIn(await tiers.get(0));
  return { updates, bytes: updates.reduce((sum, { length }) => sum + length, 0) };
}

/** Merges the newest updates into tier 1, and each tier that becomes too large into the next. */
async function mergeDown(draft: ReducerDraft, newest: readonly Uint8Array[]): Promise<void> {
  const tiers = draft.map(TIERS, 'number');
  const oldest = Number(draft.meta.get(OLDEST) ?? 1);
  let merged = Y.mergeUpdates([...newest]);
  tiers.delete(0);
  for (let tier = 1; ; tier++) {
    merged = Y.mergeUpdates([...updatesIn(await tiers.get(tier)), merged]);
    if (tier >= oldest) {
      merged = compact(merged);
      draft.meta.set(OLDEST, tier);
    }
    if (merged.length <= FIRST_BYTES * FACTOR ** tier) return tiers.put(tier, merged);
    tiers.delete(tier);
  }
}

/** The oldest tier needs no other one, so Yjs can leave out what was deleted. */
function compact(update: Uint8Array): Uint8Array {
  const doc = new Y.Doc();
  Y.applyUpdate(doc, update);
  const compacted = Y.encodeStateAsUpdate(doc);
  doc.destroy();
  return compacted;
}

/** Raise its version after an update of Yjs that merges or encodes in another way. */
export const yjs: Reducer = {
  name: 'yjs',
  version: 1,
  async fold(draft, { type, body }) {
    if (type !== UPDATE || !(body instanceof Uint8Array)) throw new Error(`'${type}' has no update of Yjs`);
    Y.decodeUpdate(body); // throws if it is not an update, before anything changes
    const tiers = draft.map(TIERS, 'number');
    const newest = newestOf.get(draft) ?? (await load(tiers));
    newest.updates.push(body);
    newest.bytes += body.length;
    newestOf.set(draft, newest);
    // Late: the list is encoded once per snapshot. Each entry that changes it puts it again.
    if (newest.bytes <= FIRST_BYTES) return tiers.put(0, () => newest.updates);
    newestOf.delete(draft);
    await mergeDown(draft, newest.updates);
  },
};
