import { EntryGapError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { checkPosition, comparePositions, type Position, START } from '../ids/position.ts';
import { assertPosition, queryNewestSegments } from '../log/newest.ts';
import { positionAtTime } from '../log/position-at-time.ts';
import type { BadEntry } from '../snapshot/bad-entry.ts';
import { type LoadDeps, type LoadOptions, loadState } from '../snapshot/load.ts';
import { nodeStore } from '../snapshot/snapshots.ts';
import type { Reducer } from '../state/reducer.ts';
import type { State } from '../state/state.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { DocumentState } from './document-state.ts';

/**
 * A place in the past of a log. A position means the state before the entry there. A time means the
 * state after all entries up to that second: see {@link positionAtTime}.
 */
export type Moment = Position | Date;

/** The content of a document at a moment. */
export class PastState extends DocumentState {
  /** The state folds all entries before this position. */
  readonly position: Position;
  /** The snapshot from which the state was loaded; undefined for the beginning of the log. */
  readonly snapshot: Position | undefined;
  /** The entry at {@link position}, if the load stopped there before the moment. */
  readonly badEntry: BadEntry | undefined;

  constructor(
    nodes: NodeStore,
    content: { readonly state: State; readonly reducer: Reducer },
    place: Pick<PastState, 'position' | 'snapshot' | 'badEntry'>,
  ) {
    super(nodes, content.state, content.reducer);
    this.position = place.position;
    this.snapshot = place.snapshot;
    this.badEntry = place.badEntry;
  }
}

/**
 * The position of a moment. Takes no request if the moment is a position, which need not exist.
 * @throws PositionInvalidError if it is an object that is not a position
 * @throws UsageError if it is neither a position nor a valid date
 * @throws the errors of {@link positionAtTime}
 */
export async function positionOfMoment(
  source: Pick<LoadDeps, 'store' | 'types'>,
  log: LogId,
  moment: Moment,
): Promise<Position> {
  if (moment instanceof Date) {
    const seconds = Math.floor(moment.getTime() / 1000);
    if (!Number.isNaN(seconds)) return positionAtTime(source, log, seconds);
  }
  if (typeof moment !== 'object' || moment instanceof Date) {
    throw new UsageError('`moment` is neither a position nor a valid date', {
      log,
      advice: "Give { segment, entry }, or a date such as new Date('2024-01-31T08:00:00Z')",
    });
  }
  checkPosition(moment, { log, name: 'moment' });
  return moment;
}

/**
 * Loads the state of a log at a moment. Downloads chunks only when something reads them.
 * @throws LogNotFoundError if the log does not exist
 * @throws EntryNotFoundError if the log has no such position, or its entries have expired
 * @throws the errors of {@link positionOfMoment}, and any error that stops a log
 */
export async function loadPastState(
  deps: LoadDeps,
  log: LogId,
  moment: Moment,
  { nodes = nodeStore(deps, log), ...options }: Pick<LoadOptions, 'nodes' | 'onBadEntry'> = {},
): Promise<PastState> {
  const position = await positionOfMoment(deps, log, moment);
  // The state before the first entry takes no read that shows whether the log exists.
  if (comparePositions(position, START) === 0) await queryNewestSegments(deps.store, log);
  try {
    const { draft, base, badEntry } = await loadState(deps, log, { ...options, at: position, nodes });
    const content = { state: await draft.state(), reducer: deps.reducer };
    return new PastState(nodes, content, {
      position: badEntry?.position ?? position,
      snapshot: base?.position,
      badEntry,
    });
  } catch (error) {
    // Beyond the end of the log, all entries are missing.
    if (error instanceof EntryGapError) await assertPosition(deps, log, position);
    throw error;
  }
}
