import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseLogId } from '../../src/ids/log-id.ts';
import { runCli } from '../support/cli.ts';
import { CliPlace } from '../support/cli-place.ts';

/** Ids that could lead out of a directory, end a word of a shell, or begin a key. */
const IDS = ['org-7/budget', '../..', "'; rm -rf /", 'e\u0301 \u{1f5fa}', 'logs', 'x'.repeat(256)];
const GIVEN = { owner: 'ann', title: 'Budget', '~': [1, null] };
const FEED = ['--feed-table', 'Feed'];
const NOW = ['--keep-segments', '1', '--keep-days', '0'];

let place: CliPlace;
beforeAll(async () => {
  place = await CliPlace.open();
});
afterAll(() => place.close());

const attributesOf = async (id: string) => (await place.json('attributes', id)).attributes;

describe('logs with chosen ids, and their attributes', () => {
  test('live through stream, sweep, feed, archive, expiry and restore', async () => {
    const file = join(place.directory, 'edits.ndjson');
    for (const [i, id] of IDS.entries()) {
      const created = await place.json('create', id, '--attributes', JSON.stringify(GIVEN));
      expect(created).toEqual({ log: id });
      await writeFile(file, JSON.stringify({ op: 'set', cells: [[0, 0, `row of ${i}`]] }));
      await place.json('append', id, file);
      await place.json('snapshot', id);
    }
    await place.json('work', '--until-idle', ...FEED);
    for (const id of IDS) await place.json('segment', id);
    await place.json('work', '--until-idle', ...FEED);
    for (const id of IDS) {
      // A segment took the attributes with it, and they are still open to changes.
      const change = ['--set', '{"owner":"bob"}', '--if', '{"owner":"ann"}', '--remove', '~'];
      expect(await place.json('attributes', id, ...change)).toEqual({ log: id, updated: true });
    }
    await place.json('sweep', ...NOW, '--expire', 'delete', '--grace', '0s', ...FEED);
    const expired = { owner: 'bob', title: 'Budget' };
    for (const [i, id] of IDS.entries()) {
      const { segments } = await place.json('status', id);
      expect(segments).toMatchObject([{ archived: true, expired: true }, { archived: false }]);
      expect(await attributesOf(id)).toEqual(expired);
      expect(
        await place.tables.getEntry(parseLogId(id), { segment: 0, entry: 1 }, { consistent: true }),
      ).toBeUndefined();
      await place.json('restore', id, '0', '--capacity-share', '1');
      const restored = await place.tables.getEntry(parseLogId(id), { segment: 0, entry: 1 }, { consistent: true });
      expect(restored).toMatchObject({ type: 'Set', log: id });
      expect(await attributesOf(id)).toEqual(expired);
      expect(await place.json('verify', id)).toMatchObject({ log: id, problems: [] });
      expect(await place.json('replay', id)).toMatchObject({ equal: true });
      const { rows } = await place.json('view', id, '--rows', '0:1', '--columns', '0:1');
      expect(rows).toEqual([[`row of ${i}`]]);
    }
    const { stdout } = await runCli(['feed', '--from', '0', '--json', ...FEED, ...place.words]);
    const fed = new Set(stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line).log])));
    expect([...fed].filter((log) => log !== undefined).sort()).toEqual(IDS.toSorted());
    const { logs } = await place.json('list', '--prefix', '');
    expect(logs).toHaveLength(IDS.length);
  });

  test('a change whose condition fails says so and changes nothing', async () => {
    await place.json('create', 'conditions', '--attributes', '{"owner":"ann"}');
    const change = ['attributes', 'conditions', '--set', '{"owner":"bob"}'];
    for (const condition of [
      ['--if', '{"owner":"carl"}'],
      ['--if', '{"owner":null}'],
      ['--if-absent', 'title', '--if-absent', 'owner'],
    ]) {
      const json = await runCli([...change, ...condition, '--json', ...place.words]);
      expect([json.code, JSON.parse(json.stdout)]).toEqual([
        1,
        { log: 'conditions', updated: false, attributes: { owner: 'ann' } },
      ]);
    }
    const text = await runCli([...change, '--if-absent', 'owner', ...place.words]);
    expect(text).toMatchObject({ code: 1, stdout: 'Nothing was changed: a condition does not hold.\nowner: "ann"\n' });
    expect(await attributesOf('conditions')).toEqual({ owner: 'ann' });
    await place.json('attributes', 'conditions', '--remove', 'owner');
    const none = await runCli(['attributes', 'conditions', ...place.words]);
    expect(none).toMatchObject({ code: 0, stdout: 'The log has no attributes.\n' });
  });
});
