import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import type { Output } from '../../src/cli/output.ts';
import type { ProgressBar } from '../../src/cli/progress.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { chunkStore, nodeStore } from '../../src/snapshot/snapshots.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import { type Replayed, replay } from '../../src/workers/audit/replay.ts';
import { type Actors, Choices } from './actors.ts';
import { rootAt, totalSnapshots } from './audit.ts';
import {
  type Area,
  addOffsets,
  areaAt,
  fill,
  middleOf,
  OFFSETS_PER_ENTRY,
  placeOf,
  ROWS_PER_ENTRY,
  review,
} from './edits.ts';
import type { PipelineWatch } from './pipeline-watch.ts';
import type { PlainRow } from './plain-sheet.ts';
import { PRICES, usageOf } from './prices.ts';
import { type Between, costOf, type DemoResult } from './report.ts';
import { compareChunks, TouchedCells } from './sharing.ts';
import { Team } from './team.ts';
import { readView } from './view.ts';
import { DATA, readZipCodes } from './zip-codes.ts';

/** Areas that are reviewed before the two compared snapshots. */
const AREAS = 20;
const EDITS_PER_AREA = 100;
/** Edits between the two compared snapshots. */
const EDITS_BETWEEN = 200;
/** The place of these edits as a fraction of the sheet's height: Denver, in the complete data. */
const COMPARED_AT = 0.8305;
/** Edits after the last snapshot, which the client folds itself. */
const TAIL_EDITS = 25;
const VIEW = { rows: 20, columns: 6 };
/** Width of the labels of progress bars. */
const LABEL = 38;

export interface ScenarioDeps {
  readonly actors: Actors;
  readonly watch: PipelineWatch;
  readonly log: LogId;
  /** A directory for the replay's own chunks. */
  readonly scratch: string;
  /** The number of rows of the data to use. */
  readonly rows: number;
  readonly output: Output;
  readonly signal: AbortSignal;
}

/** A Snapshot entry, and the table at its position. */
interface RequestedSnapshot {
  readonly position: Position;
  readonly rows: readonly PlainRow[];
  /** Entries of the log before this entry. */
  readonly entries: number;
}

/** The script of the demo, from an empty log to the proof. */
export class Scenario {
  readonly #deps: ScenarioDeps;
  readonly #team: Team;
  readonly #choices = new Choices(80_202);

  constructor(deps: ScenarioDeps) {
    this.#deps = deps;
    this.#team = new Team(deps.actors.team, deps.log, deps.signal);
  }

  async run(): Promise<Omit<DemoResult, 'seconds'>> {
    const { actors, log, watch } = this.#deps;
    const data = await this.#fillTable();
    await this.#reviewAreas();
    const area = areaAt(this.#team.sheet, COMPARED_AT);
    const { touched, older, newer } = await this.#editBetweenSnapshots(area);
    await this.#team.editOnly(this.#review(area, TAIL_EDITS), this.#progress('A few more edits', TAIL_EDITS));
    await this.#awaitSnapshot(newer);
    const [team, logfold] = [usageOf(actors.team), usageOf(actors.pipeline)];
    const from = middleOf(area) - VIEW.rows / 2;
    const rectangle = { rows: { from, to: from + VIEW.rows }, columns: { from: 0, to: VIEW.columns } };
    const { view, compareAll } = await readView(actors.client, log, rectangle, this.#team.sheet);
    const usage = { team, logfold, client: usageOf(actors.client) };
    const sheet = await compareAll();
    const replayed = await this.#replay(newer);
    const between = await this.#compare(older, newer, touched);
    const snapshots = await totalSnapshots(actors.auditor.deps, log, watch.built);
    return {
      proved: view.equal && sheet.equal && replayed.equal === true && between.lost === 0,
      log,
      data,
      entries: this.#team.counts(),
      snapshots,
      retriedJobs: watch.retries,
      usage,
      cost: costOf(usage),
      prices: PRICES,
      between: { ...between, place: placeOf(this.#team.sheet, area) },
      view,
      sheet,
      replayed,
    };
  }

  async #fillTable(): Promise<DemoResult['data']> {
    const rows = await readZipCodes(this.#deps.rows);
    this.#deps.output.note(
      `A team stores a table of ${rows.length.toLocaleString('en')} ${DATA.title} as a log of edits in DynamoDB. Sometimes it appends\n` +
        "a Snapshot entry. Then logfold, which reads the table's stream, folds the entries and writes the\n" +
        'snapshot to S3. Here, DynamoDB is a process on this machine, and S3 is a directory.\n',
    );
    const entries = Math.ceil((rows.length + 1) / ROWS_PER_ENTRY);
    await this.#team.edit(fill(rows), this.#progress(`Rows of the file, ${ROWS_PER_ENTRY} per entry`, entries));
    const offsets = 2 + Math.ceil(rows.length / OFFSETS_PER_ENTRY);
    await this.#team.edit(addOffsets(this.#team.sheet), this.#progress('A column inserted and filled', offsets));
    return { ...DATA, rows: rows.length, columns: rows[0]?.length ?? 0 };
  }

  async #reviewAreas(): Promise<void> {
    const progress = this.#progress(`Corrections in ${AREAS} areas`, AREAS * EDITS_PER_AREA);
    await this.#team.edit(this.#reviews(), progress);
  }

  *#reviews(): Generator<SheetEdit> {
    for (let i = 0; i < AREAS; i++) {
      yield* this.#review(areaAt(this.#team.sheet, (i + 0.5) / AREAS), EDITS_PER_AREA);
    }
  }

  #review(area: Area, count: number): Generator<SheetEdit> {
    return review(this.#team.sheet, area, count, this.#choices);
  }

  async #editBetweenSnapshots(area: Area) {
    const { sheet } = this.#team;
    const touched = new TouchedCells();
    const older = await this.#requestSnapshot();
    const progress = this.#progress(`${EDITS_BETWEEN} edits between two snapshots`, EDITS_BETWEEN);
    await this.#team.editOnly(touched.noting(this.#review(area, EDITS_BETWEEN), sheet), progress);
    return { touched, older, newer: await this.#requestSnapshot() };
  }

  async #requestSnapshot(): Promise<RequestedSnapshot> {
    const { entries } = this.#team.counts();
    return { position: await this.#team.addSnapshot(), rows: [...this.#team.sheet.rows], entries };
  }

  async #awaitSnapshot({ position }: RequestedSnapshot): Promise<void> {
    const progress = this.#progress('Snapshots built', this.#team.counts().snapshotEntries);
    try {
      await this.#deps.watch.completed(position, this.#deps.signal, (snapshots) => progress.update(snapshots));
    } finally {
      progress.stop();
    }
  }

  async #replay({ position, entries }: RequestedSnapshot): Promise<Replayed> {
    const { actors, log, scratch } = this.#deps;
    const progress = this.#progress('Replay from the first entry', entries);
    const chunks = chunkStore(new FilesystemBlobStore(scratch, { fsync: false }), log);
    const onProgress = (folded: number) => {
      this.#deps.signal.throwIfAborted();
      progress.update(folded);
    };
    try {
      return await replay({ ...actors.auditor.deps, scratch: chunks, onProgress }, log, { at: position });
    } finally {
      progress.stop();
    }
  }

  async #compare(
    older: RequestedSnapshot,
    newer: RequestedSnapshot,
    touched: TouchedCells,
  ): Promise<Omit<Between, 'place'>> {
    const { actors, log } = this.#deps;
    const { deps } = actors.auditor;
    const moment = async ({ position, rows }: RequestedSnapshot) => ({ ...(await rootAt(deps, log, position)), rows });
    const store = nodeStore(deps, log);
    const sharing = await compareChunks(store, await moment(older), await moment(newer), touched);
    return { edits: EDITS_BETWEEN, older: older.position, newer: newer.position, ...sharing };
  }

  #progress(label: string, total: number): ProgressBar {
    return this.#deps.output.progress(label.padEnd(LABEL), total);
  }
}
