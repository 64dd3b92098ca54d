import { expect, test } from 'vitest';
import { measureRead } from '../../bench/read-phase.ts';
import { fillEngine } from '../../bench/reads/engine-log.ts';
import { loadReadSystem, READ_SYSTEM_NAMES } from '../../bench/reads/system.ts';
import { Workload } from '../../bench/workload.ts';
import { temporaryDirectory } from '../support/stores/shared-engine.ts';

test('all systems of the phase `read` read the same log', async () => {
  const workload = new Workload(3);
  const directory = await temporaryDirectory();
  await fillEngine(directory, workload);
  const results = [];
  for (const name of READ_SYSTEM_NAMES.toReversed()) {
    const read = await loadReadSystem(name);
    const report = await measureRead({ name, read }, directory, workload);
    results.push(...report.results);
  }
  const [floor, loop, logfold] = results;
  expect(floor).toMatchObject({ system: 'floor', requests: 1, objects: 0 });
  expect(loop).toMatchObject({ system: 'sdk-loop', requests: 1, objects: 0, bytes: floor?.bytes });
  expect(logfold).toMatchObject({ system: 'logfold' });
  // The job reads little beside the entries.
  expect(logfold?.bytes).toBeGreaterThanOrEqual(floor?.bytes ?? 0);
  for (const { cpuSeconds } of results) expect(cpuSeconds).toBeGreaterThan(0);
  // The snapshot is there now, so nothing was measured.
  const name = 'logfold';
  const again = measureRead({ name, read: await loadReadSystem(name) }, directory, workload);
  await expect(again).rejects.toThrow("ended with 'present'");
});
