import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { ObjectInvalidError, ResourceMissingError } from '../../src/errors.ts';
import { readPolicies, writePolicy } from '../../src/retention/policies.ts';
import type { RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { readStop, writeStop } from '../../src/snapshot/stop.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { SWEEP_KEY } from '../../src/store/keys.ts';
import { readAdoptNote, writeAdoptNote } from '../../src/workers/adopt/adopt-logs.ts';
import {
  readCollected,
  readCondemned,
  writeCollected,
  writeCondemned,
} from '../../src/workers/gc/collection-record.ts';
import { readCompareNote, writeCompareNote } from '../../src/workers/revisions/compare-note.ts';
import { readSweepNote, writeSweepNote } from '../../src/workers/sweep/sweep-note.ts';
import { LOG } from '../support/logs.ts';

interface Note {
  readonly write: (blobs: BlobStore) => Promise<unknown>;
  readonly read: (blobs: BlobStore) => Promise<unknown>;
}

const PLACES = ['beginning' as const, { after: 'key' }];

const NOTES: Readonly<Record<string, Note>> = {
  'sweep.json': {
    write: (blobs) =>
      writeSweepNote(blobs, undefined, {
        rest: ['end', { log: LOG, segment: 3 }],
        requested: [{ queue: 'maintenance', at: 17, jobs: ['abc'] }],
      }),
    read: readSweepNote,
  },
  'adopt.json': {
    write: (blobs) => writeAdoptNote(blobs, 'table', PLACES),
    read: (blobs) => readAdoptNote(blobs, 'table'),
  },
  'compare.json': {
    write: (blobs) => {
      const looks = [{ at: 1, again: true, differences: ['abc'] }];
      return writeCompareNote(blobs, 'table', { rest: { items: PLACES, logs: PLACES, began: 1 }, looks });
    },
    read: (blobs) => readCompareNote(blobs, 'table'),
  },
  'the stop note': {
    write: (blobs) => {
      const error = new ResourceMissingError('gone');
      return writeStop(blobs, LOG, { error, reducer: { name: 'spreadsheet', version: 1 }, since: 1 });
    },
    read: (blobs) => readStop(blobs, LOG),
  },
  'the record of a collection': {
    write: (blobs) => {
      const next = { turn: 1, since: 1, after: 'key', again: false };
      const record = { condemned: [['key', 1] as [string, number]], dropped: [['0/1', 1] as [string, number]], next };
      return writeCondemned(blobs, LOG, record, { judged: { after: undefined, to: undefined }, again: false });
    },
    read: (blobs) => readCondemned(blobs, LOG),
  },
  'collected.json': {
    write: (blobs) => writeCollected(blobs, LOG, { bodies: 1, dropped: [['0/1', 1]] }),
    read: (blobs) => readCollected(blobs, LOG),
  },
};

/** A JSON value with one more field in each of its objects. */
function grown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(grown);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([name, field]) => [name, grown(field)]);
  return { ...Object.fromEntries(fields), 'field of a newer release': { since: 1 } };
}

/** Changes every object of a bucket. */
async function change(blobs: BlobStore, to: (document: unknown) => unknown): Promise<void> {
  for await (const { key } of blobs.list('')) {
    const bytes = await blobs.get(key);
    await blobs.put(key, new TextEncoder().encode(JSON.stringify(to(JSON.parse(new TextDecoder().decode(bytes))))));
  }
}

describe('an object of a newer release', () => {
  test.each(Object.entries(NOTES))('%s is read without the fields that this release does not know', async (_, note) => {
    const blobs = new MemoryBlobStore();
    await note.write(blobs);
    const before = await note.read(blobs);
    expect(before).toBeDefined();
    await change(blobs, grown);
    expect(await note.read(blobs)).toEqual(before);
  });

  test('a sweep ignores the requested jobs of a queue that it does not know', async () => {
    const blobs = new MemoryBlobStore();
    const known = { queue: 'snapshot', at: 17, jobs: ['abc'] };
    const put = (requested: readonly object[]) =>
      blobs.put(SWEEP_KEY, new TextEncoder().encode(JSON.stringify({ format: 1, requested })));
    await put([known, { queue: 'express', at: 'noon' }]);
    expect(await readSweepNote(blobs)).toEqual({ rest: undefined, requested: [known] });
    await put([{ ...known, at: 'noon' }]);
    await expect(readSweepNote(blobs)).rejects.toThrow(ObjectInvalidError);
  });

  test('a policy with a setting that this release does not know is refused, because it may forbid a removal', async () => {
    const blobs = new MemoryBlobStore();
    const policy: RetentionPolicy = {
      ...{ keepSegments: 2, keepDays: 30, archive: true, expire: 'never', graceSeconds: 86400, keepSnapshots: 'all' },
    };
    await writePolicy(blobs, policy, { log: LOG, change: () => ({ keepDays: 1 }) });
    await change(blobs, grown);
    await expect(readPolicies(blobs, policy)).rejects.toThrow(ObjectInvalidError);
  });
});
