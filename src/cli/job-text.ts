import { printable } from '../errors.ts';
import { formatPosition } from '../ids/position.ts';
import type { JobResult } from '../workers/dispatch/run-job.ts';
import type { Job } from '../workers/jobs/job.ts';
import { count, countEntries, formatBytes, formatDate } from './format.ts';

/** A job in words. */
export function describeJob(job: Job): string {
  const what = `${job.kind} ${printable(job.log)}`;
  if ('position' in job) return `${what} ${formatPosition(job.position)}`;
  return 'segment' in job ? `${what} segment ${job.segment}` : what;
}

/** A job and its result in words; undefined if there was nothing to do. */
export function describeJobResult(job: Job, result: JobResult): string | undefined {
  const what = describeJob(job);
  switch (result.outcome) {
    case 'built': {
      const why = result.rebuiltBecause === undefined ? '' : `, from the beginning because ${result.rebuiltBecause}`;
      const size = formatBytes(result.bytesWritten + result.rootBytes);
      return `${what}: ${countEntries(result.entries)}, ${count(result.chunksWritten, 'chunk')}, ${size}${why}${passed(result)}`;
    }
    case 'divided': {
      const at = formatPosition(result.position);
      return `${what}: ${result.startsSegment ? `started a segment at ${at}` : `Snapshot entry at ${at}`}`;
    }
    case 'registered':
      return `${what}: ${count(result.segments, 'segment')} registered`;
    case 'flushed': {
      const size = formatBytes(result.bytesWritten + result.rootBytes);
      return `${what}: ${count(result.flushedEdits, 'edit')} flushed, ${count(result.chunksWritten, 'chunk')}, ${size}`;
    }
    case 'stopped':
      return `${what}: the log is stopped: ${result.stop.message}`;
    case 'archived':
      return `${what}: ${countEntries(result.entries)}, ${formatBytes(result.bytes)} as ${formatBytes(result.stored)}`;
    case 'expired':
      return `${what}: ${countEntries(result.entries)} ${result.entries === 1 ? 'leaves' : 'leave'} the table from ${formatDate(result.expires)} on`;
    case 'waiting':
      return `${what}: the entries may be deleted after ${formatDate(result.expires)}`;
    case 'collected': {
      const { removed, condemned, aborted } = result;
      if (removed.objects + condemned.objects + aborted === 0) return undefined;
      const done = `${count(removed.objects, 'object')} removed, ${formatBytes(removed.bytes)}`;
      const later = `${condemned.objects} removable after the grace period, ${formatBytes(condemned.bytes)}`;
      return `${what}: ${done}; ${later}${aborted === 0 ? '' : `; ${count(aborted, 'unfinished upload')} aborted`}`;
    }
    case 'refused':
      return `${what}: refused: ${result.error.message}`;
    case 'rebuilt': {
      const { snapshots, replaced, differed, entries } = result;
      const difference =
        differed.length === 0
          ? ''
          : `; ${differed.length} HAD A DIFFERENT STATE: ${differed.map(formatPosition).join(', ')}`;
      return `${what}: ${count(snapshots, 'snapshot')} from ${countEntries(entries)}, ${replaced} replaced${difference}${passed(result)}`;
    }
    case 'undivided':
    case 'progress':
    case 'flushing':
    case 'collecting':
    case 'archiving':
    case 'present':
    case 'kept':
    case 'obsolete':
    case 'empty':
    case 'passed':
      return undefined;
    case 'foreign':
      return `${what}: passed over: ${result.reason}`;
  }
}

/** Parts that another program wrote, and a job left alone. */
function passed({ passedOver = [] }: { readonly passedOver?: readonly string[] | undefined }): string {
  return passedOver.length === 0 ? '' : `; passed over: ${passedOver.join(', ')}`;
}
