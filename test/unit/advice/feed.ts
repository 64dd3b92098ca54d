import { MemoryGroupStore } from '../../../src/adapters/memory/group-store.ts';
import { type Cases, quoted } from './case.ts';

const NOW = 1_000_000;
const lease = { owner: 'ann', until: NOW + 60_000 };
const first = { checkpoint: 0, saved: 1_000 };

/** Advice for readers of the feed. */
export const FEED: Cases = {
  "Give a name of 1 to … characters, such as 'search'": async (refused) => {
    const groups = new MemoryGroupStore();
    const advice = await refused(() => groups.take('', lease, first, NOW));
    await groups.take(quoted(advice)[0] ?? '', lease, first, NOW);
  },
};
