import type { FunctionEvent } from './function-event.ts';

export interface Metric {
  readonly name: string;
  readonly unit: 'Count' | 'Seconds' | 'Bytes';
  readonly value: number;
}

/** The metric values that an event adds. */
export function metricsOf(event: FunctionEvent): Metric[] {
  switch (event.kind) {
    case 'record':
      return [count('RecordsFailed', 1)];
    case 'failed':
      return [count('JobsFailed', 1), ...retries(event)];
    case 'job':
      return [...metricsOfJob(event), ...retries(event)];
    case 'swept':
      return [
        count('LogsLookedAt', event.result.logs),
        count('JobsSent', event.result.jobs),
        count('JobsHeldBack', event.result.waiting),
        ...(event.result.longestTail === undefined ? [] : [count('LongestTailEntries', event.result.longestTail)]),
        ...metricsOfTrouble(event),
        ...metricsOfAges(event),
        ...(event.unusableStreams === undefined ? [] : [count('UnusableStreams', event.unusableStreams)]),
      ];
    case 'fed':
      return [
        count('FeedSpans', event.spans),
        ...(event.missed === undefined ? [] : [count('FeedSpansMissed', event.missed)]),
      ];
    case 'unfed':
      return [count('FeedFailures', 1)];
    case 'replayed':
      return [count('ReplaysDiffered', differs(event) ? 1 : 0)];
    case 'unrecorded':
      return [count('RecordsFailed', 1)];
    case 'recorded':
      return [count('RevisionsRecorded', event.recorded), count('GapsFound', event.gaps)];
    case 'compared':
      return [
        count('ItemsCompared', event.result.items),
        count('GapsFound', event.result.gaps),
        count('DifferencesWaiting', event.result.waiting),
        seconds('CompareIncompleteSeconds', event.result.incompleteSeconds),
      ];
    case 'uncompared':
      return [count('LogsFailed', 1)];
    case 'routed':
    case 'visibility unchanged':
    case 'due':
    case 'unswept':
    case 'ahead':
    case 'unusable stream':
    case 'not adopted':
    case 'adopted':
      return [];
  }
}

function differs({ replayed }: Extract<FunctionEvent, { kind: 'replayed' }>): boolean {
  return replayed.outcome === 'replayed' && replayed.equal === false;
}

/**
 * A partial sweep reports no zeros, because a zero would end an alarm for logs that it did not look
 * at.
 */
function metricsOfTrouble({ result, ages }: Extract<FunctionEvent, { kind: 'swept' }>): Metric[] {
  const found = [
    count('LogsFailed', result.failed),
    count('LogsStopped', result.stopped),
    count('RecordsMissed', result.missed),
    // Absent without a feed.
    ...(result.feedAhead === undefined ? [] : [count('FeedAhead', result.feedAhead)]),
    // Absent without a division policy.
    ...(result.undivided === undefined ? [] : [count('LogsUndivided', result.undivided)]),
  ];
  return ages === undefined ? found.filter(({ value }) => value > 0) : found;
}

function metricsOfAges({ ages }: Extract<FunctionEvent, { kind: 'swept' }>): Metric[] {
  if (ages === undefined) return [];
  return [
    seconds('OldestUnsnapshottedSeconds', ages.unsnapshottedSeconds),
    seconds('OldestDueSeconds', ages.dueSeconds),
  ];
}

function metricsOfJob({ result, ms, lag }: Extract<FunctionEvent, { kind: 'job' }>): Metric[] {
  const lags = lag === undefined ? [] : [count('SnapshotLagEntries', lag.entries)];
  if (lag?.seconds !== undefined) lags.push(seconds('SnapshotLagSeconds', lag.seconds));
  switch (result.outcome) {
    case 'built':
      return [seconds('BuildSeconds', ms / 1000), ...folded(result), ...written(result), ...lags];
    case 'progress':
      // Several kinds of jobs have continuations. Only a snapshot job reports what it has written.
      return 'chunksWritten' in result
        ? [seconds('BuildSeconds', ms / 1000), ...folded(result), ...written(result)]
        : [];
    case 'flushing':
    case 'flushed':
      return written(result);
    case 'archived':
    case 'archiving':
      return [bytes('BytesWritten', result.stored)];
    case 'stopped':
      return [count('LogsStopped', 1)];
    case 'refused':
      return [count('JobsFailed', 1)];
    default:
      return [];
  }
}

/**
 * Chunks that were read from earlier snapshots count as reused: their entries are not folded again.
 */
function folded(work: { readonly entries: number; readonly chunksRead: number; readonly bytesRead: number }): Metric[] {
  return [
    count('EntriesFolded', work.entries),
    count('ChunksReused', work.chunksRead),
    bytes('BytesReused', work.bytesRead),
  ];
}

function written(work: {
  readonly chunksWritten: number;
  readonly bytesWritten: number;
  readonly rootBytes: number;
}): Metric[] {
  return [count('ChunksWritten', work.chunksWritten), bytes('BytesWritten', work.bytesWritten + work.rootBytes)];
}

function retries({ delivery }: Extract<FunctionEvent, { readonly delivery: unknown }>): Metric[] {
  return delivery.receiveCount > 1 ? [count('JobRetries', 1)] : [];
}

function count(name: string, value: number): Metric {
  return { name, unit: 'Count', value };
}

function seconds(name: string, value: number): Metric {
  return { name, unit: 'Seconds', value };
}

function bytes(name: string, value: number): Metric {
  return { name, unit: 'Bytes', value };
}
