import { expect, test } from 'vitest';
import { parseEditLine } from '../../src/cli/edit-line.ts';
import { describeEntry, type EntryLine, entryLine } from '../../src/cli/entry-line.ts';
import { BodiesAhead } from '../../src/log/body.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { query } from '../../src/log/query.ts';
import { EDITED_SHEET } from '../support/logs.ts';
import { SheetLog } from '../support/sheet-log.ts';

/** The lines of all entries of a log. */
async function linesOf({ deps, log }: SheetLog): Promise<EntryLine[]> {
  const { entries } = await query(deps, log, { from: 'start' });
  const all = (await Array.fromAsync(entries)).flat();
  const bodies = new BodiesAhead(
    deps.blobs,
    all.filter(({ external }) => external !== undefined),
  );
  const lines: EntryLine[] = [];
  for (const entry of all) lines.push(await entryLine(entry, deps.types, bodies));
  return lines;
}

const created = 1_767_225_600;
const ENTRIES: readonly NewEntry[] = [
  { type: 'Vote', version: 3, created, body: { for: 'Denver', bytes: Uint8Array.of(1, 2), at: new Date(0) } },
  { type: 'Empty', version: 1, created, body: null },
  { type: 'Large', version: 1, created, body: 'x'.repeat(100_000) },
  {
    type: 'Traced',
    version: 1,
    created,
    body: [Number.NaN, 2n ** 60n, { $odd: 1 }],
    metadata: { correlation: 'r-1', bytes: Uint8Array.of(3), who: 'Ada' },
    once: { client: 'c', mutation: 7 },
  },
];

test('append reads the same entry from the line that entries prints', async () => {
  const sheet = await SheetLog.create();
  for (const entry of ENTRIES) await sheet.append(entry);
  const lines = (await linesOf(sheet)).slice(1);
  const read = lines.map((line, i) => parseEditLine(JSON.stringify(line), i + 1, EDITED_SHEET));
  expect(read).toEqual(
    ENTRIES.map((entry) => ({ kind: 'entry', entry: { metadata: undefined, once: undefined, ...entry } })),
  );
  expect(lines).toMatchObject(ENTRIES.map((_, i) => ({ position: { segment: 0, entry: i + 1 }, number: i + 1 })));
});

test('Snapshot and End Segment entries become ops, and the first entry of a segment is skipped', async () => {
  const sheet = await SheetLog.create();
  await sheet.completed();
  await sheet.segment();
  const lines = await linesOf(sheet);
  expect(lines).toMatchObject([
    { op: 'start', snapshot: 'pending' },
    { op: 'snapshot', snapshot: 'complete' },
    { op: 'segment' },
    { op: 'start', snapshot: 'pending' },
  ]);
  const read = lines.map((line, i) => parseEditLine(JSON.stringify(line), i + 1, EDITED_SHEET));
  expect(read.map(({ kind }) => kind)).toEqual(['start', 'snapshot', 'segment', 'start']);
  expect(lines.map((line) => describeEntry(line).slice(0, 9).trim())).toEqual(['0/0', '0/1', '0/2', '1/0']);
});

test('an entry whose body cannot be read is shown with the reason, and append refuses its line', async () => {
  const sheet = await SheetLog.create();
  await sheet.append({ type: 'Large', version: 1, body: 'x'.repeat(100_000) });
  await sheet.append({ type: 'Small', version: 1, body: 1 });
  await sheet.blobs.delete(await sheet.keys());
  const [, large, small] = await linesOf(sheet);
  expect(large).toMatchObject({ type: 'Large', error: { code: 'EXTERNAL_MISSING' } });
  expect(small).toMatchObject({ type: 'Small', body: 1 });
  expect(() => parseEditLine(JSON.stringify(large), 1, EDITED_SHEET)).toThrow('error');
  expect(large && describeEntry(large)).toContain('CANNOT BE READ');
});

test('a line for people fits the width of the terminal', async () => {
  const sheet = await SheetLog.create();
  await sheet.append({ type: 'Large', version: 1, body: 'x'.repeat(1000) });
  const [, line] = await linesOf(sheet);
  if (line === undefined) throw new Error('the log has no second entry');
  expect(describeEntry(line, 80)).toHaveLength(80);
  expect(describeEntry(line).length).toBeGreaterThan(1000);
});
