import type { Result } from './phases.ts';

/** An upper bound for a result. */
export interface Bound {
  readonly phase: string;
  readonly what: string;
  readonly limit: number;
  readonly unit: 'times' | 'KB' | 'MB' | 'objects';
  /** The measured value in the bound's unit; undefined if the run lacks a result for it. */
  readonly measure: (results: Results) => number | undefined;
}

/** Results by phase and system. */
export class Results {
  readonly all: readonly Result[];

  constructor(all: readonly Result[]) {
    this.all = all;
  }

  get(phase: string, system: string): Result | undefined {
    return this.all.find((result) => result.phase === phase && result.system === system);
  }

  /** The first result divided by the second; undefined if one is missing. */
  ratio(of: Figure, [phase, system]: Name, [otherPhase, otherSystem]: Name): number | undefined {
    const [result, other] = [this.get(phase, system), this.get(otherPhase, otherSystem)];
    return result && other && result[of] / other[of];
  }
}

type Figure = 'seconds' | 'cpuSeconds' | 'bytes';
type Name = readonly [phase: string, system: string];

/** Requests by which a snapshot job finds its entry, its base and the segments of the log. */
const JOB_READS = 4;

/** A KB is 1,000 bytes, an MB 1,000,000 bytes. */
export const BOUNDS: readonly Bound[] = [
  ratio('full', 'seconds', 1),
  figure('full', 'MB', 5.5),
  ratio('full', 'bytes', 0.35),
  ratio('full-shuffled', 'seconds', 0.6),
  ratio('edit-clustered', 'seconds', 0.25),
  figure('edit-clustered', 'objects', 6),
  figure('edit-clustered', 'KB', 150),
  ratio('edit-scattered', 'seconds', 0.25),
  figure('edit-scattered', 'objects', 4),
  figure('edit-scattered', 'KB', 200),
  ratio('edit-clustered-warm', 'seconds', 0.25),
  ratio('edit-scattered-warm', 'seconds', 0.25),
  figure('edit-100', 'objects', 3),
  figure('edit-100', 'KB', 40),
  {
    phase: 'scattered-x100',
    what: 'bytes vs. writing all leaves',
    limit: 0.2,
    unit: 'times',
    measure: (results) => results.ratio('bytes', ['scattered-x100', 'logfold'], ['scattered-x100', 'all-leaves']),
  },
  figure('view', 'objects', 3),
  figure('view', 'KB', 150),
  figure('view-buffer', 'objects', 4),
  figure('view-buffer', 'KB', 300),
  {
    phase: 'full-10m',
    what: 'peak memory above idle',
    limit: 512,
    unit: 'MB',
    measure: (results) => results.get('full-10m', 'logfold')?.peakMB,
  },
  {
    phase: 'edit-10m',
    what: 'seconds vs. edit-scattered at a tenth of the size',
    limit: 2,
    unit: 'times',
    measure: (results) => results.ratio('seconds', ['edit-10m', 'logfold'], ['edit-scattered', 'logfold']),
  },
  {
    phase: 'read',
    what: 'CPU seconds vs. the loop on the SDK',
    limit: 0.25,
    unit: 'times',
    measure: (results) => results.ratio('cpuSeconds', ['read', 'logfold'], ['read', 'sdk-loop']),
  },
  {
    phase: 'read',
    what: `requests beyond ${JOB_READS}, for each MB of 1,048,576 bytes`,
    limit: 1.2,
    unit: 'times',
    measure: (results) => {
      const [build, loop] = [results.get('read', 'logfold'), results.get('read', 'sdk-loop')];
      return build && loop && (build.requests - JOB_READS) / (loop.bytes / 2 ** 20);
    },
  },
  {
    phase: 'read',
    what: 'peak memory above idle',
    limit: 256,
    unit: 'MB',
    measure: (results) => results.get('read', 'logfold')?.peakMB,
  },
];

function ratio(phase: string, of: Figure, limit: number): Bound {
  const measure: Bound['measure'] = (results) => results.ratio(of, [phase, 'logfold'], [phase, 'sqlite']);
  return { phase, what: `${of} vs. SQLite`, limit, unit: 'times', measure };
}

function figure(phase: string, unit: 'objects' | 'KB' | 'MB', limit: number): Bound {
  const scale = { objects: 1, KB: 1e3, MB: 1e6 }[unit];
  return {
    phase,
    what: unit === 'objects' ? 'objects' : 'bytes',
    limit,
    unit,
    measure: (results) => {
      const result = results.get(phase, 'logfold');
      return result && (unit === 'objects' ? result.objects : result.bytes) / scale;
    },
  };
}
