import pLimit from 'p-limit';
import type { Document } from '../../client/document.ts';
import { EntryRejectedError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { ImageChange } from '../../revisions/image-change.ts';
import { newRevisions } from '../../revisions/new-revisions.ts';
import { itemKey } from '../../state/items/item-key.ts';
import { lastRevisions } from '../../state/items/reducer.ts';
import { countMetric, type Report } from '../jobs/report.ts';
import type { RevisionLogs } from './revision-logs.ts';

export interface RecordDeps {
  /** Keep one object for all calls in a process: it holds the documents of recent logs. */
  readonly logs: RevisionLogs;
  /** Learns why a change was not recorded. */
  readonly onFailure?: ((error: unknown, change: ImageChange) => void) | undefined;
}

export interface RecordResult {
  /** Changes that were appended, without those that a log had already. */
  readonly recorded: number;
  /** `Gap` revisions that were appended. */
  readonly gaps: number;
  /** Sequence numbers of the changes that are not recorded, in the order of the call. */
  readonly failed: readonly string[];
}

export function reportRecorded({ recorded, gaps }: Pick<RecordResult, 'recorded' | 'gaps'>): Report {
  const metrics = [countMetric('RevisionsRecorded', recorded), countMetric('GapsFound', gaps)];
  return { text: 'recorded changes of the plain table', level: gaps > 0 ? 'warn' : 'info', metrics };
}

/** Logs to which one call appends at the same time. */
const PARALLEL_LOGS = 16;
/** Attempts to record a change while other processes record changes of the same item. */
const ATTEMPTS = 8;

/**
 * Records changes of a table as revisions: those of one log in order, logs in parallel. Creates the
 * logs that are missing. A change that is recorded already, by an earlier call or by another
 * process, is left out. If a change cannot be recorded, the later changes of its log wait for
 * another call. Costs one write for each revision; a log that is not open takes two queries more.
 * @param changes in the order of their stream
 */
export async function recordRevisions(deps: RecordDeps, changes: readonly ImageChange[]): Promise<RecordResult> {
  const { logs, onFailure } = deps;
  const limit = pLimit(PARALLEL_LOGS);
  const failed = new Set<ImageChange>();
  const counts = { recorded: 0, gaps: 0 };
  const recordAll = async (log: LogId, ofLog: readonly ImageChange[]): Promise<void> => {
    let done = 0;
    try {
      await logs.use(
        log,
        async (document) => {
          for (const change of ofLog) {
            await recordChange(document, change, logs, counts);
            done++;
          }
        },
        ofLog[0]?.created,
      );
    } catch (error) {
      for (const change of ofLog.slice(done)) failed.add(change);
      const first = ofLog[done];
      if (first !== undefined) onFailure?.(error, first);
    }
  };
  const groups = Map.groupBy(changes, (change) => {
    try {
      return logs.logOf(change.keys);
    } catch (error) {
      failed.add(change);
      onFailure?.(error, change);
      return undefined;
    }
  });
  groups.delete(undefined);
  await Promise.all(Array.from(groups, ([log, ofLog]) => log && limit(() => recordAll(log, ofLog))));
  return { ...counts, failed: changes.filter((change) => failed.has(change)).map(({ sequence }) => sequence) };
}

/** @throws EntryRejectedError if the reducer refuses the entry although nobody was faster */
async function recordChange(
  document: Document,
  change: ImageChange,
  { source }: RevisionLogs,
  counts: { recorded: number; gaps: number },
): Promise<void> {
  const key = itemKey(source, change.keys);
  for (let attempt = 1; ; attempt++) {
    const before = await lastRevisions(document.state, key);
    try {
      for (const entry of newRevisions(source, before, change)) {
        await document.append(entry);
        if (entry.type === 'Gap') counts.gaps++;
        else counts.recorded++;
      }
      return;
    } catch (error) {
      if (!(error instanceof EntryRejectedError) || attempt === ATTEMPTS) throw error;
      const { last, time } = await lastRevisions(document.state, key);
      // The document read on before the reducer refused the entry.
      if (last?.revision === before.last?.revision && time === before.time) throw error;
    }
  }
}
