import { READ_SYSTEM_NAMES, type ReadSystemName } from './reads/system.ts';
import { SYSTEM_NAMES, type SystemName } from './systems/system.ts';
import type { Spread } from './workload.ts';

/** The work of a phase. */
export type Work =
  | { readonly kind: 'full'; readonly order: 'rows' | 'shuffled' }
  | EditWork
  | { readonly kind: 'view' }
  | { readonly kind: 'parts' }
  | { readonly kind: 'read' };

/** Rounds of edits by one process, with a snapshot after each. */
export interface EditWork {
  readonly kind: 'edit';
  readonly spread: Spread;
  /** Edits of a round. */
  readonly count: number;
  readonly rounds: number;
  /**
   * `cold` measures all rounds, and no round keeps anything for the next. `warm` measures only the
   * last round. The system keeps what it keeps in a process that takes many snapshots.
   */
  readonly process: 'cold' | 'warm';
}

/** The data that a phase starts from. The worker prepares it once, and every run gets a copy. */
export type Base = SheetBase | LogBase;

/** A snapshot. */
export interface SheetBase {
  readonly kind: 'sheet';
  /** The size of the sheet, as a multiple of the default. */
  readonly scale: number;
  /** The scattered edits of a second snapshot; 0 if there is only the first. */
  readonly edits: number;
}

/** A log in the data of an engine. */
export interface LogBase {
  readonly kind: 'log';
}

export interface Phase {
  readonly name: string;
  /** One line for the help. */
  readonly about: string;
  /** The systems that run the phase. */
  readonly systems: readonly (SystemName | ReadSystemName)[];
  readonly work: Work;
  readonly scale: number;
  readonly base?: Base;
}

/** The most rows of the sheet in the phase `read`. Each cell is an entry of the log. */
export const LOG_ROWS = 2_000;

/** The last of these rounds is that of a warm process. */
const WARM_ROUNDS = 10;

const FLUSHED: Base = { kind: 'sheet', scale: 1, edits: 0 };
const BUFFERED: Base = { kind: 'sheet', scale: 1, edits: 10_000 };
const TEN_TIMES: Base = { kind: 'sheet', scale: 10, edits: 0 };

function edit(spread: Spread, count: number, rounds = 1): EditWork {
  return { kind: 'edit', spread, count, rounds, process: 'cold' };
}

function warmEdit(spread: Spread): EditWork {
  return { ...edit(spread, 10_000, WARM_ROUNDS), process: 'warm' };
}

export const PHASES: readonly Phase[] = [
  {
    name: 'full',
    about: 'first snapshot of 1M cells, one cell an entry, rows in order',
    systems: SYSTEM_NAMES,
    work: { kind: 'full', order: 'rows' },
    scale: 1,
  },
  {
    name: 'full-shuffled',
    about: 'the same, entries in random order',
    systems: SYSTEM_NAMES,
    work: { kind: 'full', order: 'shuffled' },
    scale: 1,
  },
  {
    name: 'edit-clustered',
    about: 'next snapshot after 10,000 edits within 100 adjacent rows',
    systems: SYSTEM_NAMES,
    work: edit('clustered', 10_000),
    scale: 1,
    base: FLUSHED,
  },
  {
    name: 'edit-scattered',
    about: 'next snapshot after 10,000 edits anywhere',
    systems: SYSTEM_NAMES,
    work: edit('scattered', 10_000),
    scale: 1,
    base: FLUSHED,
  },
  {
    name: 'edit-clustered-warm',
    about: 'the tenth edit-clustered of a process, each with new edits (logfold and SQLite)',
    systems: ['logfold', 'sqlite'],
    work: warmEdit('clustered'),
    scale: 1,
    base: FLUSHED,
  },
  {
    name: 'edit-scattered-warm',
    about: 'the tenth edit-scattered of a process, each with new edits (logfold and SQLite)',
    systems: ['logfold', 'sqlite'],
    work: warmEdit('scattered'),
    scale: 1,
    base: FLUSHED,
  },
  {
    name: 'edit-100',
    about: 'next snapshot after 100 edits anywhere',
    systems: SYSTEM_NAMES,
    work: edit('scattered', 100),
    scale: 1,
    base: FLUSHED,
  },
  {
    name: 'scattered-x100',
    about: '100 snapshots, 10,000 edits anywhere before each (not json-gzip and yjs, which repeat edit-scattered)',
    systems: ['logfold', 'sqlite'],
    work: edit('scattered', 10_000, 100),
    scale: 1,
    base: FLUSHED,
  },
  {
    name: 'view',
    about: 'a fresh reader shows 50 x 20 cells in the middle',
    systems: SYSTEM_NAMES,
    work: { kind: 'view' },
    scale: 1,
    base: FLUSHED,
  },
  {
    name: 'view-buffer',
    about: 'the same after a snapshot of 10,000 edits anywhere (logfold alone: the others have no write buffer)',
    systems: ['logfold'],
    work: { kind: 'view' },
    scale: 1,
    base: BUFFERED,
  },
  {
    name: 'full-10m',
    about: 'first snapshot of 10M cells in random order (logfold alone)',
    systems: ['logfold'],
    work: { kind: 'full', order: 'shuffled' },
    scale: 10,
  },
  {
    name: 'edit-10m',
    about: 'next snapshot after 10,000 edits anywhere in 10M cells (logfold alone)',
    systems: ['logfold'],
    work: edit('scattered', 10_000),
    scale: 10,
    base: TEN_TIMES,
  },
  {
    name: 'parts',
    about: 'decode, fold, sort, cut, encode, hash and compress, each alone, for 1M cells (logfold alone)',
    systems: ['logfold'],
    work: { kind: 'parts' },
    scale: 1,
  },
  {
    name: 'read',
    about: 'first snapshot of 200,000 entries from a DynamoDB API on this machine, and bare reads of them',
    systems: READ_SYSTEM_NAMES,
    work: { kind: 'read' },
    scale: 1,
    base: { kind: 'log' },
  },
];

/** One row of the results: a single run, or the medians of all runs. */
export interface Result {
  readonly phase: string;
  /** The system. In the phase `parts`, the part. */
  readonly system: string;
  readonly seconds: number;
  /** Processor time of the process while the clock ran, of all threads. */
  readonly cpuSeconds: number;
  /** Bytes written to the store. In a view, bytes read from it; in `read`, from DynamoDB. */
  readonly bytes: number;
  readonly objects: number;
  /** Requests to the store; in `read`, those to DynamoDB that read. */
  readonly requests: number;
  /** Peak memory of the process minus that of an idle one, in 1,000,000 bytes. */
  readonly peakMB: number;
}
