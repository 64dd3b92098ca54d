import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { runCli, startCli } from '../support/cli.ts';
import { CliPlace } from '../support/cli-place.ts';
import { xlsxBytes, xlsxFiles, zipArchive } from '../support/xlsx.ts';

const MB = 2 ** 20;
const FORMULAS = fileURLToPath(new URL('../support/workbooks/openpyxl-formulas.xlsx', import.meta.url));
const CITIES = 'city,state\nDenver,CO\nAustin,TX\n';
const UNKNOWN = '0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f';

let place: CliPlace;

beforeAll(async () => {
  place = await CliPlace.open();
});
afterAll(() => place.close());

function pathOf(name: string): string {
  return join(place.directory, name);
}

async function write(name: string, content: string | Uint8Array): Promise<string> {
  await writeFile(pathOf(name), content);
  return pathOf(name);
}

async function csvOf(log: LogId): Promise<string> {
  return (await runCli(['export', log, ...place.words])).stdout;
}

describe('import', () => {
  test('a file becomes one entry and a snapshot', async () => {
    const log = await place.log();
    const file = await write('cities.csv', CITIES);
    expect(await place.json('import', log, file)).toEqual({
      log,
      position: { segment: 0, entry: 1 },
      snapshot: { segment: 0, entry: 2 },
      file: (await place.keys(log, 'bodies'))[0],
      rows: 3,
      columns: 2,
      cells: 6,
      invalidResults: 0,
    });
    const shown = await runCli(['import', log, file, '--row', '3', '--column', '1', ...place.words]);
    expect(shown.stdout).toContain('6 cells in 3 rows and 2 columns imported at 0/3');
    await place.json('work', '--until-idle');
    expect(await csvOf(log)).toBe('city,state,\nDenver,CO,\nAustin,TX,\n,city,state\n,Denver,CO\n,Austin,TX\n');
    expect(await place.json('replay', log)).toMatchObject({ equal: true });
  });

  test('a pipe and standard input are read as files are', async () => {
    const log = await place.log();
    const words = ['import', log, '-', '--format', 'csv', '--delimiter', ';', '--json', ...place.words];
    const { stdout } = await runCli(words, { input: CITIES.replaceAll(',', ';') });
    expect(JSON.parse(stdout)).toMatchObject({ rows: 3, columns: 2, cells: 6 });
    expect(await csvOf(log)).toBe(CITIES);
  });

  test('the extension says the form: tabs, and lines as append takes them', async () => {
    const log = await place.log();
    await place.json('import', log, await write('cities.tsv', CITIES.replaceAll(',', '\t')));
    const lines = await write('more.ndjson', '{"op":"set","cells":[[3,0,"Boise"],[3,1,"ID"]]}\n');
    expect(await place.json('import', log, lines)).toMatchObject({ entries: 1, snapshots: 0 });
    expect(await csvOf(log)).toBe(`${CITIES}Boise,ID\n`);
  });

  test('a sheet of an XLSX file is imported by its name, with numbers as values if asked for', async () => {
    const log = await place.log();
    const bytes = await xlsxBytes({
      sheets: {
        Other: ['<row r="1"><c><v>1</v></c></row>'],
        Cities: ['<row r="2"><c t="s"><v>0</v></c><c><v>2.50</v></c></row>'],
      },
      strings: ['<t>Denver</t>'],
    });
    const file = await write('cities.xlsx', bytes);
    const answer = await place.json('import', log, file, '--sheet', 'Cities', '--values', 'typed');
    expect(answer).toMatchObject({ rows: 2, columns: 2, cells: 2 });
    const shown = await place.json('state', log, '--map', 'cells');
    expect(JSON.stringify(shown)).toContain('2.5');
    expect(await csvOf(log)).toBe(',\nDenver,2.5\n');
  });

  test('a time of day becomes what the help says', async () => {
    const log = await place.log();
    const csv = await write('times.csv', '13:45\n');
    const sheets = { Sheet: ['<row r="1"><c s="1"><v>0.5729166666666666</v></c></row>'] };
    const xlsx = await write('times.xlsx', await xlsxBytes({ sheets, formats: ['h:mm'] }));
    const [text, typed] = [[], ['--values', 'typed']];
    for (const [row, [file, ...words]] of [
      [csv, ...text],
      [xlsx, ...text],
      [csv, ...typed],
      [xlsx, ...typed],
    ].entries()) {
      await place.json('import', log, file ?? '', '--row', `${row}`, ...words);
    }
    const { items } = await place.json('state', log, '--map', 'cells');
    const values = (items as { value: unknown }[]).map(({ value }) => value);
    expect(values).toEqual(['13:45', '13:45', '13:45', 0.5729166666666666]);
    const { stdout } = await runCli(['import', '--help']);
    expect(stdout.replaceAll('\n', ' ')).toContain(
      'With --values typed, 13:45 is the text 13:45 in a CSV file, and the part of the day 0.5729166666666666 in an XLSX file',
    );
  });

  test('formulas without valid results are counted, if their stored results are asked for', async () => {
    const log = await place.log();
    const words = ['import', log, FORMULAS, '--formulas', 'stored', ...place.words];
    expect((await runCli(words)).stdout).toContain(
      '1 cell in 2 rows and 3 columns imported at 0/1 (7 formulas without a valid result); Snapshot',
    );
    const answer = await place.json('import', log, FORMULAS, '--formulas', 'stored');
    expect(answer).toMatchObject({ rows: 2, columns: 3, cells: 1, invalidResults: 7 });
  });

  test('an import that cannot be folded is refused, and changes nothing', async () => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'kept']] });
    const good = await write('good.csv', CITIES);
    const bad: readonly (readonly [string, RegExp, ...string[]])[] = [
      ['WORKBOOK_INVALID', /^'.*open\.csv': row 3: a quote is not closed.*log/, await write('open.csv', 'a\nb\n"c')],
      ['WORKBOOK_INVALID', /UTF-8/, await write('latin.csv', Buffer.from('caf\xe9', 'latin1'))],
      ['WORKBOOK_INVALID', /zip\.csv/, await write('zip.csv', Uint8Array.of(0x50, 0x4b, 3, 4, 0, 0, 0, 0))],
      ['WORKBOOK_INVALID', /text\.xlsx/, await write('text.xlsx', CITIES)],
      ['WORKBOOK_INVALID', /sheets/, good, '--sheet', 'Cities'],
      ['WORKBOOK_INVALID', /sheet 'Sheet': cell A1 has a formula without its result/, FORMULAS],
      ['WORKBOOK_INVALID', /no formulas/, good, '--formulas', 'stored'],
      ['WORKBOOK_INVALID', /delimiter/, good, '--delimiter', ';;'],
      ['SHEET_LIMIT', /row 4294967296/, good, '--row', '4294967294'],
      ['SHEET_LIMIT', /column 1048576/, good, '--column', '1048575'],
      ['USAGE', /format of/, await write('cities.txt', CITIES)],
      ['USAGE', /line by line/, await write('lines.ndjson', '{"op":"snapshot"}\n'), '--row', '1'],
      ['USAGE', /no cell/, await write('empty.csv', '\n,\n')],
      ['USAGE', /cannot be read/, pathOf('missing.csv')],
      ['USAGE', /not a whole number of at least 0/, good, '--row', '-1'],
      ['USAGE', /sheets/, good, '--reducer', 'collections'],
    ];
    const refusals = await place.refusals(...bad.map(([, , ...words]) => ['import', log, ...words]));
    for (const [i, [code, message]] of bad.entries()) {
      expect(refusals[i]?.code).toBe(code);
      expect(refusals[i]?.message).toMatch(message);
      expect(refusals[i]?.advice).not.toBe('');
    }
    const [unknown] = await place.refusals(['import', UNKNOWN, good]);
    expect(unknown).toMatchObject({ code: 'LOG_NOT_FOUND', log: UNKNOWN });
  });
});

describe('a million rows of ten columns', () => {
  const ROWS = 1_000_000;
  const COLUMNS = 10;
  const LIMIT = 512 * MB;

  function numberAt(row: number, column: number): number {
    return ((row * 7919 * column) % 9_999_991) / 100;
  }

  /** Rows in pieces of a thousand. */
  function* pieces(rowAt: (row: number) => string): Generator<string> {
    for (let from = 0; from < ROWS; from += 1_000) {
      yield Array.from({ length: 1_000 }, (_, i) => rowAt(from + i)).join('');
    }
  }

  const numbered = Array.from({ length: COLUMNS - 1 }, (_, i) => i + 1);
  const csvRow = (row: number) => `row ${row},${numbered.map((column) => numberAt(row, column)).join()}\n`;
  const xlsxRow = (row: number) =>
    `<row r="${row + 1}"><c t="s"><v>${row}</v></c>${numbered.map((column) => `<c><v>${numberAt(row, column)}</v></c>`).join('')}</row>`;

  /** The files, with a different text in each row. */
  const contents: Readonly<Record<string, () => Iterable<string> | AsyncIterable<Uint8Array>>> = {
    'large.csv': () => pieces(csvRow),
    'large.xlsx': () => {
      const strings = Array.from({ length: ROWS }, (_, row) => `<t>row ${row}</t>`);
      return zipArchive(xlsxFiles({ sheets: { Large: pieces(xlsxRow) }, strings }), { level: 1 });
    },
  };

  /** Runs a command. @returns its answer, and the peak of its memory in bytes */
  async function measured(...words: readonly string[]): Promise<{ answer: Record<string, unknown>; peak: number }> {
    const child = startCli([...words, '--json', ...place.words]);
    let stdout = '';
    let peak = 0;
    child.stdout?.on('data', (data: Buffer) => {
      stdout += data.toString();
    });
    // The kernel keeps the peak, so only the time after the last look is unknown.
    const look = async (): Promise<void> => {
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '');
      peak = Math.max(peak, Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024);
    };
    const timer = setInterval(() => void look(), 100);
    await once(child, 'close');
    clearInterval(timer);
    return { answer: JSON.parse(stdout), peak };
  }

  test.runIf(process.platform === 'linux').each(Object.keys(contents))(
    'import and snapshot of %s each take at most 512 MB',
    async (name) => {
      const log = await place.log();
      await pipeline(Readable.from(contents[name]?.() ?? []), createWriteStream(pathOf(name)));
      const imported = await measured('import', log, pathOf(name));
      expect(imported.answer).toMatchObject({ rows: ROWS, columns: COLUMNS, cells: ROWS * COLUMNS });
      expect(imported.peak).toBeGreaterThan(30 * MB);
      expect(imported.peak).toBeLessThan(LIMIT);
      const worked = await measured('work', '--until-idle');
      expect(worked.answer).toMatchObject({ stopped: [], failures: [] });
      expect(worked.peak).toBeLessThan(LIMIT);
      const last = ROWS - 1;
      expect(await place.json('view', log, '--rows', `${last}:${ROWS}`, '--columns', '0:2')).toMatchObject({
        rows: [[`row ${last}`, String(numberAt(last, 1))]],
      });
      console.log(`${name}: import ${Math.round(imported.peak / MB)} MB, work ${Math.round(worked.peak / MB)} MB`);
    },
  );
});
