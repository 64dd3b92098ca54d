import { join } from 'node:path';
import { type Measured, peakBytes, type Report, type Task, taskSchema } from './measured.ts';
import { LOG_ROWS, PHASES, type Phase } from './phases.ts';
import { loadReadSystem, READ_SYSTEM_NAMES } from './reads/system.ts';
import { SYSTEM_NAMES } from './systems/system.ts';
import { Workload } from './workload.ts';

/**
 * Runs one phase with one system in this process. The argument is a task and the output a report,
 * each as one line of JSON. Modules are imported when needed, so that an idle run measures the
 * memory of the modules of its task only.
 */
async function work(task: Task): Promise<Report> {
  const phase = PHASES.find(({ name }) => name === task.phase);
  if (phase === undefined) throw new Error(`there is no phase ${task.phase}`);
  const run = await prepareRun(task, phase);
  return task.kind === 'idle' ? { results: [], peakBytes: peakBytes() } : run();
}

/** Imports the modules of a task. */
async function prepareRun({ kind, directory, ...task }: Task, phase: Phase): Promise<() => Promise<Report>> {
  const { work, scale, base } = phase;
  const rows = task.rows * scale;
  if (work.kind === 'parts') {
    const { measureParts } = await import('./parts.ts');
    return () => measureParts(rows);
  }
  if (work.kind === 'read') return prepareRead({ kind, directory, ...task });
  const system = SYSTEM_NAMES.find((name) => name === task.system);
  if (system === undefined) throw new Error(`there is no system ${task.system}`);
  const { loadSystem } = await import('./systems/load.ts');
  const { SheetPhases } = await import('./sheet-phases.ts');
  const phases = new SheetPhases(system, await loadSystem(system), rows);
  if (work.kind === 'full') return () => phases.full(directory, work);
  if (base?.kind !== 'sheet') throw new Error(`phase ${phase.name} has no snapshot as base`);
  if (kind === 'prepare') {
    return async () => {
      await phases.prepare(directory, base);
      return { results: [], peakBytes: peakBytes() };
    };
  }
  if (work.kind === 'view') return () => phases.view(directory, base);
  if (system !== 'logfold' || work.rounds === 1 || work.process === 'warm') return () => phases.edit(directory, work);
  const { rewriteLeaves } = await import('./leaves.ts');
  return async () => {
    const rewritten = await rewriteLeaves(directory, join(directory, 'rewritten'));
    const { results, peakBytes } = await phases.edit(directory, work);
    return { results: [...results, { system: ALL_LEAVES, ...times(rewritten, work.rounds) }], peakBytes };
  };
}

async function prepareRead({ kind, directory, ...task }: Task): Promise<() => Promise<Report>> {
  const workload = new Workload(Math.min(task.rows, LOG_ROWS));
  const name = READ_SYSTEM_NAMES.find((each) => each === task.system);
  if (name === undefined) throw new Error(`there is no system ${task.system}`);
  if (kind === 'prepare') {
    const { fillEngine } = await import('./reads/engine-log.ts');
    return async () => {
      await fillEngine(directory, workload);
      return { results: [], peakBytes: peakBytes() };
    };
  }
  const { measureRead } = await import('./read-phase.ts');
  const read = await loadReadSystem(name);
  return () => measureRead({ name, read }, directory, workload);
}

/**
 * The cost of the rounds if each wrote every leaf: all leaves of the first snapshot, times the
 * rounds.
 */
const ALL_LEAVES = 'all-leaves';

function times({ seconds, cpuSeconds, bytes, objects, requests }: Measured, rounds: number): Measured {
  return {
    seconds: seconds * rounds,
    cpuSeconds: cpuSeconds * rounds,
    bytes: bytes * rounds,
    objects: objects * rounds,
    requests: requests * rounds,
  };
}

process.stdout.write(`${JSON.stringify(await work(taskSchema.parse(JSON.parse(process.argv[2] ?? ''))))}\n`);
