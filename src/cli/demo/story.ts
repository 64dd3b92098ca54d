import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FilesystemBlobStore } from '../../adapters/filesystem-blob-store.ts';
import { RESERVED_TYPES } from '../../log/entry.ts';
import type { LogId } from '../../log/log-id.ts';
import type { Position } from '../../log/position.ts';
import { loadState } from '../../snapshot/load.ts';
import { chunkStore, nodeStore } from '../../snapshot/snapshots.ts';
import { sheetOf } from '../../state/spreadsheet/reducer.ts';
import { replay } from '../../workers/replay.ts';
import { type Environment, openEnvironment } from '../environment.ts';
import type { Output } from '../output.ts';
import { usageOf } from '../prices.ts';
import { Application } from './application.ts';
import { rootAt, totalSnapshots } from './audit.ts';
import { addOffsets, areaAt, fill, OFFSETS_PER_ENTRY, placeOf, ROWS_PER_ENTRY, review } from './edits.ts';
import { PipelineWatch } from './pipeline-watch.ts';
import { compareSheets, type PlainSheet } from './plain-sheet.ts';
import { Choices } from './random.ts';
import type { DemoResult } from './report.ts';
import { compareChunks, type Moment, TouchedCells } from './sharing.ts';
import { readView } from './view.ts';
import { COLUMNS, DATA, readZipCodes } from './zip-codes.ts';

const REVIEWS = 6;
const EDITS_PER_REVIEW = 100;
/** Edits between the two snapshots that are compared. */
const EDITS_BETWEEN = 200;
/** Edits after the last snapshot. */
const TAIL_EDITS = 25;

export interface StoryOptions {
  /** An empty directory for everything. */
  readonly directory: string;
  /** How many rows of the data to use. */
  readonly rows: number;
  readonly output: Output;
  readonly signal: AbortSignal;
}

/** Everybody who takes part, each with connections of their own, so that their requests are counted apart. */
interface Cast {
  readonly application: Environment;
  readonly pipeline: Environment;
  readonly client: Environment;
  /** Looks at what was stored, for the report; its requests are nobody's. */
  readonly auditor: Environment;
}

/** Runs the demo from an empty directory to the proof. */
export async function tellStory(options: StoryOptions): Promise<DemoResult> {
  const started = performance.now();
  const cast = await openCast(options.directory);
  try {
    const watch = new PipelineWatch(cast.pipeline, await cast.pipeline.streamArn());
    const signal = AbortSignal.any([options.signal, cast.pipeline.lost, watch.failed]);
    try {
      const told = await new Story(cast, watch, { ...options, signal }).tell();
      return { ...told, seconds: (performance.now() - started) / 1000 };
    } finally {
      await watch.stop();
    }
  } finally {
    await closeCast(cast);
  }
}
