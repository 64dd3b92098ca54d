import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { type CollectionRecord, NOTHING_CONDEMNED } from '../../src/workers/gc/collection-record.ts';
import { Reaper, type ReaperOptions } from '../../src/workers/gc/reaper.ts';
import { NOON } from '../support/logs.ts';

const GRACE = 3_600_000;

class Bucket {
  /** Epoch milliseconds. */
  ms = NOON * 1000;
  readonly blobs = new MemoryBlobStore(() => this.ms);

  async put(...keys: string[]): Promise<void> {
    for (const key of keys) await this.blobs.put(key, new Uint8Array(10));
  }

  async keys(): Promise<string[]> {
    return (await Array.fromAsync(this.blobs.list(''))).map(({ key }) => key);
  }

  reaper(options: Partial<ReaperOptions> = {}): Reaper {
    return new Reaper(this.blobs, { now: this.ms, graceMs: GRACE, before: NOTHING_CONDEMNED, dry: false, ...options });
  }

  /** A collection that finds nothing reached. */
  async reap(
    options: Partial<ReaperOptions> = {},
  ): Promise<{ readonly reaper: Reaper; readonly record: CollectionRecord }> {
    const reaper = this.reaper(options);
    for await (const blob of this.blobs.list('')) await reaper.judge(blob);
    await reaper.flush();
    return { reaper, record: { condemned: [...reaper.condemned], dropped: [] } };
  }
}

function keysOf({ condemned }: CollectionRecord): string[] {
  return condemned.map(([key]) => key);
}

/** A bucket with `a` and `b`, which a collection has just condemned. */
async function condemned(): Promise<{ readonly bucket: Bucket; readonly before: CollectionRecord }> {
  const bucket = new Bucket();
  await bucket.put('a', 'b');
  bucket.ms += GRACE;
  const { record } = await bucket.reap();
  return { bucket, before: record };
}

describe('Reaper', () => {
  test('it keeps objects that are younger than the grace period', async () => {
    const bucket = new Bucket();
    await bucket.put('a');
    bucket.ms += GRACE - 1;
    const { reaper, record } = await bucket.reap();
    expect(keysOf(record)).toEqual([]);
    expect(reaper.tallies).toEqual({
      kept: { objects: 1, bytes: 10 },
      condemned: { objects: 0, bytes: 0 },
      removed: { objects: 0, bytes: 0 },
    });
    expect(await bucket.keys()).toEqual(['a']);
  });

  test('it reports whether an unreachable object was too young', async () => {
    const bucket = new Bucket();
    await bucket.put('a', 'b');
    bucket.ms += GRACE;
    expect((await bucket.reap()).reaper.foundYoung).toBe(false);
    bucket.ms -= 1;
    const { reaper } = await bucket.reap();
    expect(reaper.foundYoung).toBe(true);
    const keeping = bucket.reaper();
    for await (const blob of bucket.blobs.list('')) keeping.keep(blob);
    expect(keeping.foundYoung).toBe(false);
  });

  test('it condemns old objects first, and removes nothing', async () => {
    const bucket = new Bucket();
    await bucket.put('a', 'b');
    bucket.ms += GRACE;
    await bucket.put('c');
    const { reaper, record } = await bucket.reap();
    expect(keysOf(record)).toEqual(['a', 'b']);
    expect(reaper.tallies).toEqual({
      kept: { objects: 1, bytes: 10 },
      condemned: { objects: 2, bytes: 20 },
      removed: { objects: 0, bytes: 0 },
    });
    expect(await bucket.keys()).toEqual(['a', 'b', 'c']);
  });

  test('it removes nothing before a grace period has passed since an object was condemned', async () => {
    const { bucket, before } = await condemned();
    bucket.ms += GRACE - 1;
    const { reaper, record } = await bucket.reap({ before });
    expect(await bucket.keys()).toEqual(['a', 'b']);
    expect(keysOf(record)).toEqual(['a', 'b']);
    expect(reaper.tallies.removed.objects).toBe(0);
  });

  test('it removes objects that were condemned a grace period ago', async () => {
    const { bucket, before } = await condemned();
    bucket.ms += GRACE;
    const { reaper, record } = await bucket.reap({ before });
    expect(await bucket.keys()).toEqual([]);
    expect(keysOf(record)).toEqual([]);
    expect(reaper.removedKeys).toEqual([]);
    expect(reaper.tallies).toEqual({
      kept: { objects: 0, bytes: 0 },
      condemned: { objects: 0, bytes: 0 },
      removed: { objects: 2, bytes: 20 },
    });
  });

  test('it removes an object a grace period after it was condemned, however many collections run in the meantime', async () => {
    const { bucket, before } = await condemned();
    let record = before;
    for (let times = 0; times < 4; times++) {
      expect(await bucket.keys()).toEqual(['a', 'b']);
      bucket.ms += GRACE / 4;
      ({ record } = await bucket.reap({ before: record }));
    }
    expect(await bucket.keys()).toEqual([]);
  });

  test('it only condemns objects that became unreachable since then, beside those that it removes', async () => {
    const bucket = new Bucket();
    await bucket.put('a', 'b');
    bucket.ms += GRACE;
    const before: CollectionRecord = { condemned: [['a', bucket.ms]], dropped: [] };
    bucket.ms += GRACE;
    const { record } = await bucket.reap({ before });
    expect(await bucket.keys()).toEqual(['b']);
    expect(keysOf(record)).toEqual(['b']);
  });

  test('it condemns an object again that was written again after it was condemned', async () => {
    const { bucket, before } = await condemned();
    bucket.ms += 1;
    await bucket.put('a');
    bucket.ms += GRACE;
    const { record } = await bucket.reap({ before });
    expect(await bucket.keys()).toEqual(['a']);
    expect(keysOf(record)).toEqual(['a']);
  });

  test('an object that was written when it was condemned counts as written again', async () => {
    const { bucket, before } = await condemned();
    await bucket.put('a');
    bucket.ms += GRACE;
    await bucket.reap({ before });
    expect(await bucket.keys()).toEqual(['a']);
  });

  test('it leaves an object that is written again between its listing and its removal', { tags: ['I4'] }, async () => {
    const { bucket, before } = await condemned();
    bucket.ms += GRACE;
    const reaper = bucket.reaper({ before });
    for await (const blob of bucket.blobs.list('')) await reaper.judge(blob);
    await bucket.put('a');
    await reaper.flush();
    expect(await bucket.keys()).toEqual(['a']);
    expect(reaper.tallies.removed.objects).toBe(1);
  });

  test('it leaves a condemned object that is needed again', async () => {
    const { bucket, before } = await condemned();
    bucket.ms += GRACE;
    const reaper = bucket.reaper({ before });
    for await (const blob of bucket.blobs.list('')) {
      if (blob.key === 'a') reaper.keep(blob);
      else await reaper.judge(blob);
    }
    await reaper.flush();
    expect(await bucket.keys()).toEqual(['a']);
    expect(reaper.tallies).toMatchObject({ kept: { objects: 1, bytes: 10 }, removed: { objects: 1, bytes: 10 } });
  });

  test('it removes objects immediately if there is no grace period', async () => {
    const bucket = new Bucket();
    await bucket.put('a', 'b');
    const { record } = await bucket.reap({ graceMs: 0 });
    expect(await bucket.keys()).toEqual([]);
    expect(keysOf(record)).toEqual([]);
  });

  test('it removes nothing in a dry run, and names the keys to remove and condemn', async () => {
    const { bucket, before } = await condemned();
    await bucket.put('c');
    bucket.ms += GRACE;
    const { reaper } = await bucket.reap({ before, dry: true });
    expect(await bucket.keys()).toEqual(['a', 'b', 'c']);
    expect(reaper.removedKeys).toEqual(['a', 'b']);
    expect([...reaper.condemned.keys()]).toEqual(['c']);
    expect(reaper.tallies.removed).toEqual({ objects: 2, bytes: 20 });
  });

  test('it removes full batches without a flush', async () => {
    const bucket = new Bucket();
    await bucket.put(...Array.from({ length: 2500 }, (_, i) => `object-${String(i).padStart(4, '0')}`));
    const reaper = bucket.reaper({ graceMs: 0 });
    for await (const blob of bucket.blobs.list('')) await reaper.judge(blob);
    expect(reaper.tallies.removed.objects).toBe(2000);
    await reaper.flush();
    expect(reaper.tallies.removed).toEqual({ objects: 2500, bytes: 25_000 });
    expect(await bucket.keys()).toEqual([]);
  });

  test('it condemns a limited number of objects; the others stay for the next collection', async () => {
    const bucket = new Bucket();
    const modified = bucket.ms;
    bucket.ms += GRACE;
    const reaper = bucket.reaper();
    for (let i = 0; i < 200_010; i++) await reaper.judge({ key: `object-${i}`, bytes: 1, modified });
    expect(reaper.condemned.size).toBe(200_000);
    expect(reaper.overflowed).toBe(true);
    expect(reaper.tallies).toMatchObject({ kept: { objects: 10 }, condemned: { objects: 200_000, bytes: 200_000 } });
  });
});
