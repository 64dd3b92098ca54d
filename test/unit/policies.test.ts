import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { ObjectInvalidError, PolicyInvalidError } from '../../src/errors.ts';
import { merge, Policies, type PolicyChanges, readPolicies, writePolicy } from '../../src/retention/policies.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { POLICIES_KEY } from '../../src/store/keys.ts';
import { LOG, newLogId } from '../support/logs.ts';

async function storing(text: string): Promise<MemoryBlobStore> {
  const blobs = new MemoryBlobStore();
  await blobs.put(POLICIES_KEY, new TextEncoder().encode(text));
  return blobs;
}

async function stored(blobs: MemoryBlobStore): Promise<unknown> {
  const bytes = await blobs.get(POLICIES_KEY);
  return bytes === undefined ? undefined : JSON.parse(new TextDecoder().decode(bytes));
}

describe('merge', () => {
  test('it changes the given settings and leaves the others', () => {
    const changes = { archive: false, keepDays: 0, expire: undefined };
    expect(merge(DEFAULT_POLICY, changes)).toEqual({ ...DEFAULT_POLICY, archive: false, keepDays: 0 });
  });
});

describe('Policies', () => {
  test('it refuses an invalid policy of the deployment', () => {
    expect(() => new Policies({ ...DEFAULT_POLICY, keepSegments: 0 })).toThrow(PolicyInvalidError);
  });

  test("it returns the deployment's policy for a log without its own", async () => {
    const policies = await readPolicies(new MemoryBlobStore(), DEFAULT_POLICY);
    expect(policies.of(LOG)).toEqual(DEFAULT_POLICY);
    expect(policies.ownOf(LOG)).toEqual({});
    expect(policies.logs()).toEqual([]);
  });
});

describe('writePolicy', () => {
  test('each log reads its own policy as it was written', async () => {
    const blobs = new MemoryBlobStore();
    const [one, other, none] = [newLogId(), newLogId(), newLogId()];
    const all = {
      keepSegments: 5,
      keepDays: 1.5,
      archive: true,
      expire: 'delete',
      graceSeconds: 0,
      keepSnapshots: 'last',
    } as const;
    await writePolicy(blobs, DEFAULT_POLICY, { log: other, change: () => all });
    const written = await writePolicy(blobs, DEFAULT_POLICY, {
      log: one,
      change: () => ({ expire: 'ttl', archive: undefined }),
    });
    const read = await readPolicies(blobs, DEFAULT_POLICY);
    for (const policies of [written, read]) {
      expect(policies.of(one)).toEqual({ ...DEFAULT_POLICY, expire: 'ttl' });
      expect(policies.of(other)).toEqual(all);
      expect(policies.of(none)).toEqual(DEFAULT_POLICY);
      expect(policies.ownOf(one)).toEqual({ expire: 'ttl' });
      expect(policies.logs()).toEqual([one, other]);
    }
  });

  test("it stores only the changes, so that the deployment's policy may change under them", async () => {
    const blobs = new MemoryBlobStore();
    await writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => ({ keepDays: 3 }) });
    expect(await stored(blobs)).toEqual({ format: 1, logs: { [LOG]: { keepDays: 3 } } });
    const policies = await readPolicies(blobs, { ...DEFAULT_POLICY, keepSegments: 9 });
    expect(policies.of(LOG)).toMatchObject({ keepDays: 3, keepSegments: 9 });
  });

  test('it replaces the earlier policy of the log', async () => {
    const blobs = new MemoryBlobStore();
    await writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => ({ keepDays: 3 }) });
    await writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => ({ keepSegments: 4 }) });
    expect((await readPolicies(blobs, DEFAULT_POLICY)).ownOf(LOG)).toEqual({ keepSegments: 4 });
  });

  test('it removes the policy of the log, and leaves those of other logs', async () => {
    const blobs = new MemoryBlobStore();
    const other = newLogId();
    await writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => ({ keepDays: 3 }) });
    await writePolicy(blobs, DEFAULT_POLICY, { log: other, change: () => ({ keepDays: 4 }) });
    const written = await writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => undefined });
    for (const policies of [written, await readPolicies(blobs, DEFAULT_POLICY)]) {
      expect(policies.of(LOG)).toEqual(DEFAULT_POLICY);
      expect(policies.logs()).toEqual([other]);
      expect(policies.of(other).keepDays).toBe(4);
    }
  });

  test('it changes only the given settings, although others change policies concurrently', async () => {
    const blobs = new MemoryBlobStore();
    const logs = Array.from({ length: 8 }, () => newLogId());
    const changes: PolicyChanges[] = logs.flatMap(() => [{ keepDays: 3 }, { keepSegments: 4 }]);
    await Promise.all(
      changes.map((changed, i) => {
        const log = logs[i >> 1] ?? LOG;
        return writePolicy(blobs, DEFAULT_POLICY, { log, change: (own) => ({ ...own, ...changed }) });
      }),
    );
    const policies = await readPolicies(blobs, DEFAULT_POLICY);
    for (const log of logs) expect(policies.ownOf(log)).toEqual({ keepDays: 3, keepSegments: 4 });
  });

  test("it refuses a policy that contradicts the deployment's, names the log and writes nothing", async () => {
    const blobs = new MemoryBlobStore();
    const everywhere = { ...DEFAULT_POLICY, keepDays: 0, expire: 'ttl' } as const;
    await writePolicy(blobs, everywhere, { log: LOG, change: () => ({ keepSegments: 4 }) });
    const before = await stored(blobs);
    const refused = writePolicy(blobs, everywhere, { log: LOG, change: () => ({ archive: false }) });
    await expect(refused).rejects.toThrow(PolicyInvalidError);
    await expect(refused).rejects.toMatchObject({ log: LOG });
    expect(await stored(blobs)).toEqual(before);
    // Under another policy of the deployment the same makes sense.
    await writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => ({ archive: false }) });
    const policies = await readPolicies(blobs, everywhere);
    expect(policies.of(newLogId())).toEqual(everywhere);
    const reading = Promise.resolve().then(() => policies.of(LOG));
    await expect(reading).rejects.toMatchObject({ code: 'POLICY_INVALID', log: LOG });
  });

  test('it refuses an invalid change and writes nothing', async () => {
    const blobs = new MemoryBlobStore();
    const writing = writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => ({ keepSegments: 0 }) });
    await expect(writing).rejects.toThrow(PolicyInvalidError);
    expect(await stored(blobs)).toBeUndefined();
  });

  test("a stored policy out of range makes only its own log's policy invalid", async () => {
    const blobs = await storing(JSON.stringify({ format: 1, logs: { [LOG]: { graceSeconds: 86_399_999_913_600 } } }));
    const policies = await readPolicies(blobs, DEFAULT_POLICY);
    expect(() => policies.of(LOG)).toThrow(PolicyInvalidError);
    expect(policies.of(newLogId())).toEqual(DEFAULT_POLICY);
  });
});

describe('an object that cannot be read', () => {
  const own = (changes: unknown): string => JSON.stringify({ format: 1, logs: { [LOG]: changes } });
  test.each([
    ['no JSON', '{"format":1,'],
    ['nothing', ''],
    ['another format', JSON.stringify({ format: 2, logs: {} })],
    ['no logs', JSON.stringify({ format: 1 })],
    ['an unknown field', JSON.stringify({ format: 1, logs: {}, more: true })],
    ['an unknown setting', own({ keepDay: 3 })],
    ['a setting out of range', own({ keepSegments: 0 })],
    ['a setting of the wrong kind', own({ expire: 'soon' })],
    ['a log id that is none', JSON.stringify({ format: 1, logs: { feed: {} } })],
  ])('%s: the error has advice, and nothing overwrites the object', async (_, text) => {
    const blobs = await storing(text);
    const before = await blobs.get(POLICIES_KEY);
    for (const trying of [
      readPolicies(blobs, DEFAULT_POLICY),
      writePolicy(blobs, DEFAULT_POLICY, { log: LOG, change: () => ({ keepDays: 3 }) }),
    ]) {
      await expect(trying).rejects.toThrow(ObjectInvalidError);
      await expect(trying).rejects.toThrow(POLICIES_KEY);
      await expect(trying).rejects.toMatchObject({ advice: expect.stringContaining('remove it') });
    }
    expect(await blobs.get(POLICIES_KEY)).toEqual(before);
  });

  test('it accepts a log id in capital letters', async () => {
    const blobs = await storing(JSON.stringify({ format: 1, logs: { [LOG.toUpperCase()]: { keepDays: 3 } } }));
    expect((await readPolicies(blobs, DEFAULT_POLICY)).of(LOG).keepDays).toBe(3);
  });
});

test.each([
  ['{', 'it is not JSON'],
  ['[]', 'it is wrong'],
  ['{"format":2,"logs":{}}', "'format' is wrong"],
  [`{"format":1,"logs":{"${LOG}":{"keepDays":"7"}}}`, `'logs.${LOG}.keepDays' is wrong`],
  [`{"format":1,"logs":{"${LOG}":{"expire":"soon","archive":1}}}`, `'logs.${LOG}.archive' is wrong`],
  [`{"format":1,"logs":{"${LOG}":{"keepDay":7}}}`, 'keepDay'],
])('%s is refused in one sentence that names the object and the key and gives advice', async (text, about) => {
  const refusal = await readPolicies(await storing(text), DEFAULT_POLICY).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(ObjectInvalidError);
  const { message } = refusal as ObjectInvalidError;
  expect(message).toContain(`the object '${POLICIES_KEY}' cannot be read: `);
  expect(message).toContain(about);
  expect(message).toContain('Correct it, or remove it');
  expect(message).not.toMatch(/[\n{[]/);
});
