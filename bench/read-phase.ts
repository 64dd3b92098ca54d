import { join } from 'node:path';
import { peakBytes, type Report } from './measured.ts';
import { withEngine } from './reads/engine-log.ts';
import type { ReadSystem, ReadSystemName } from './reads/system.ts';
import { Stopwatch } from './stopwatch.ts';
import type { Workload } from './workload.ts';

/** Bytes that an eventually consistent read unit pays for. */
const UNIT_BYTES = 8192;

/** Measures one system of the phase `read`. The engine is another process and does not count. */
export async function measureRead(
  { name, read }: { readonly name: ReadSystemName; readonly read: ReadSystem },
  directory: string,
  workload: Workload,
): Promise<Report> {
  return withEngine(directory, async (endpoint) => {
    const clock = new Stopwatch();
    const source = { endpoint, workload, directory: join(directory, 'blobs') };
    const { entries, requests, readUnits, objects, finish } = await read(source, clock);
    const peak = peakBytes();
    await finish();
    // The log begins with a Snapshot entry.
    if (entries !== workload.cells + 1) throw new Error(`${name} read ${entries} entries of ${workload.cells + 1}`);
    const { seconds, cpuSeconds } = clock;
    const bytes = readUnits * UNIT_BYTES;
    return { results: [{ system: name, seconds, cpuSeconds, bytes, objects, requests }], peakBytes: peak };
  });
}
