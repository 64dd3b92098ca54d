import { describe, expect, test } from 'vitest';
import { runSourceHistory } from '../support/simulation/source-history.ts';
import { inTimeZones } from '../support/time-zones.ts';

/** A failed history prints its seed. SEED=17 runs only this one. */
const onlySeed = process.env.SEED;
const HISTORIES = Number(process.env.LOGFOLD_HISTORIES) * 5;
const SEEDS = onlySeed === undefined ? Array.from({ length: HISTORIES }, (_, i) => i + 1) : [Number(onlySeed)];

const lines: string[] = [];

describe('a simulated log whose source changes', () => {
  test(`gives the state of its current items, or says why not (${SEEDS.length} seeds)`, {
    tags: ['I1', 'I5'],
  }, async () => {
    for (const seed of SEEDS) lines.push(...(await runSourceHistory(seed)));
  });

  test('has the same history for the same seed, in every time zone', { tags: ['I9'] }, async () => {
    const [one, other] = await inTimeZones(() => runSourceHistory(SEEDS[0] ?? 1));
    expect(one).toEqual(other);
  });

  if (onlySeed === undefined) {
    test('changes in every way, and every answer occurs', () => {
      const happened = new Set(lines.map((line) => line.replace(/:? \d+ to.*/, '')));
      const changes = ['append', 'correction', 'beginning again', 'restore'];
      const answers = ['equal', 'SOURCE_CHANGED', 'MAPPING_DIFFERS', 'LOG_NOT_FOUND', 'ENTRY_GAP'];
      const loads = answers.map((answer) => `load: ${answer}`);
      const divisions = ['divided', 'stopped', 'undivided'].map((outcome) => `divide: ${outcome}`);
      const snapshots = ['built', 'progress', 'crashed', 'stopped'].map((outcome) => `snapshot: ${outcome}`);
      const rebuilds = ['rebuilt', 'progress', 'crashed', 'stopped'].map((outcome) => `rebuild: ${outcome}`);
      const mappings = ['mapping: replaced', 'mapping: MAPPING_DIFFERS'];
      const troubles = ['rival', 'crash before', 'crash after'].map((trouble) => `${trouble} itemPages`);
      const kinds = [...changes, ...loads, ...divisions, ...snapshots, ...rebuilds, ...mappings, ...troubles];
      expect(kinds.filter((kind) => !happened.has(kind))).toEqual([]);
    });
  }
});
