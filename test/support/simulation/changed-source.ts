import assert from 'node:assert/strict';
import { MappingDiffersError, SourceChangedError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { comparePositions, type Position } from '../../../src/ids/position.ts';
import { rootOf } from '../../../src/log/entry.ts';
import { isFrozen } from '../../../src/log/segment.ts';
import { mappingDocument } from '../../../src/mapping/meaning.ts';
import { parseMapping } from '../../../src/mapping/schema-mapping.ts';
import { loadState } from '../../../src/snapshot/load.ts';
import { loadRoot } from '../../../src/snapshot/snapshots.ts';
import { runJob } from '../../../src/workers/dispatch/run-job.ts';
import { restoreSegment } from '../../../src/workers/retention/restore-segment.ts';
import type { MappedTables } from '../stores/mapped-tables.ts';
import { correctItem, fillBlock } from './application.ts';
import { isHealthy, snapshotEntries } from './log-truth.ts';
import type { World } from './world.ts';

/**
 * At the end of a history another mapping reads the logs, and then the application corrects the
 * last item that a snapshot folds. Nobody may continue from what was made before.
 */
export async function checkChangedSources(world: World, mapped: MappedTables): Promise<void> {
  for (const log of world.logs) {
    const position = await newestSnapshot(world, log);
    if (position === undefined || !isHealthy(world, log)) continue;
    await checkOtherMapping(world, mapped, log, position);
    await checkCorrection(world, mapped, log, position);
  }
}

/** The newest complete snapshot. */
async function newestSnapshot(world: World, log: LogId): Promise<Position | undefined> {
  for (const position of snapshotEntries(world, log).toReversed()) {
    const entry = await world.store.getEntry(log, position, { consistent: true });
    if (entry !== undefined && rootOf(entry) !== undefined) return position;
  }
  return undefined;
}

async function checkOtherMapping(world: World, mapped: MappedTables, log: LogId, position: Position): Promise<void> {
  const document = mappingDocument(mapped.mapping);
  const other = parseMapping({ ...document, time: undefined, type: { constant: 'another mapping' } });
  const tables = mapped.mappedBy(other);
  const { blobs, platform } = world.deps();
  const differs = (error: unknown): boolean => error instanceof MappingDiffersError;
  const entry = await world.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  assert.ok(ref !== undefined);
  await assert.rejects(loadRoot({ store: tables, blobs, platform }, { log, position }, ref), differs);
  for await (const { segment, archive } of world.tables.segments(log)) {
    if (archive === undefined) continue;
    const restoring = restoreSegment({ ...world.deps(), tables }, { log, segment }, { holdSeconds: 60, dryRun: true });
    await assert.rejects(restoring, differs, `a restore of ${log}/${segment} with another mapping`);
  }
}

async function checkCorrection(world: World, mapped: MappedTables, log: LogId, position: Position): Promise<void> {
  const entry = await world.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  const root = ref && (await loadRoot(world.deps(), { log, position }, ref));
  const index = (entry?.number ?? 0) - 1;
  if (root?.reducer.version !== world.version || index < 0 || !correctItem(world, mapped, log, index)) return;
  const isChanged = (error: unknown): boolean => error instanceof SourceChangedError;
  await assert.rejects(loadState(world.deps(), log), isChanged, `a load of ${log} after a correction`);
  fillBlock(world, mapped, log, 1);
  await mapped.register(log, { items: 1, snapshotEvery: 1 });
  const later = snapshotEntries(world, log).find((each) => comparePositions(each, position) > 0);
  const segment = later && (await world.tables.getSegment(log, later.segment, { consistent: true }));
  if (later === undefined || segment === undefined || isFrozen(segment)) return;
  world.trace(`${world.scheduler.now()} correction of item ${index} of '${log}'`);
  const queue = { send: async () => undefined };
  const result = await runJob({ ...world.deps(), queue }, { kind: 'snapshot', log, position: later });
  assert.equal(result.outcome, 'stopped', `a snapshot of ${log} after item ${index} was corrected`);
}
