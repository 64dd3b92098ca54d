import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from '@commander-js/extra-typings';
import { type GrowthPoint, growthChart } from './chart.ts';
import { wholeNumber } from './options.ts';
import { logfold } from './systems/logfold.ts';
import { markdownTable } from './tables.ts';
import { COLUMNS, Workload } from './workload.ts';

const FILE = fileURLToPath(new URL('../docs/performance/bytes-per-snapshot.svg', import.meta.url));
/**
 * The edits that every sheet gets at least, as a share of its cells. The first snapshots of a sheet
 * are cheaper than later ones, until the write buffer starts to flush.
 */
const EDITED_SHARE = 0.3;
/** Cells of the sheets, smallest first. */
const SIZES = [10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000, 5_000_000];

const plot = new Command('npm run bench:plot --')
  .description(
    'Measures the bytes that a snapshot writes for sheets of several sizes, for logfold and for rewriting everything. ' +
      'Prints a table and draws docs/performance/bytes-per-snapshot.svg. Bytes are the same on every machine.',
  )
  .option('--edits <n>', 'edits anywhere before each snapshot', wholeNumber, 1000)
  .option('--snapshots <n>', 'least number of snapshots per sheet; the result is their mean', wholeNumber, 100)
  .option('--largest <cells>', 'skip larger sheets', wholeNumber, Number.MAX_SAFE_INTEGER)
  .action(async ({ edits, snapshots, largest }) => {
    const points: GrowthPoint[] = [];
    for (const cells of SIZES.filter((size) => size <= largest)) {
      const point = await measure(cells, edits, Math.max(snapshots, Math.ceil((cells * EDITED_SHARE) / edits)));
      process.stderr.write(`${cells} cells: ${Math.round(point.logfold)} bytes, rewriting ${point.rewriting}\n`);
      points.push(point);
    }
    await mkdir(dirname(FILE), { recursive: true });
    await writeFile(FILE, growthChart(points, edits));
    const rows = points.map((point) => {
      const { cells, logfold, rewriting } = point;
      return [...[cells, logfold, rewriting].map(formatCount), (logfold / rewriting).toFixed(3)];
    });
    const head = ['cells', 'logfold, bytes', 'rewriting everything, bytes', 'share'];
    console.log(markdownTable({ title: 'Bytes per snapshot', head, rows }));
  });

async function measure(cells: number, edits: number, snapshots: number): Promise<GrowthPoint> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-plot-'));
  try {
    const workload = new Workload(cells / COLUMNS);
    const { bytes: rewriting } = await logfold.full(directory, workload.pages('rows'));
    let written = 0;
    for (let round = 0; round < snapshots; round++) {
      written += (await logfold.edit(directory, workload.edits('scattered', edits, round))).bytes;
    }
    return { cells, logfold: written / snapshots, rewriting };
  } finally {
    await rm(directory, { recursive: true });
  }
}

function formatCount(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}

await plot.parseAsync();
