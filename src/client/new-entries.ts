import type { Position } from '../ids/position.ts';
import type { Entry } from '../log/entry.ts';
import { type EntrySource, readUpTo } from '../log/read-entries.ts';
import { type BadEntry, type OnBadEntry, untilBadEntry } from '../snapshot/bad-entry.ts';
import { Draft } from '../state/draft.ts';
import type { State } from '../state/state.ts';
import type { StateFolder } from './state-folder.ts';

/** How far a follower may be behind before it loads the newest snapshot instead of all entries. */
export interface ReloadLimits {
  readonly entries: number;
  readonly segments: number;
}

export interface FollowOptions {
  readonly limits: ReloadLimits;
  /** As in {@link LoadOptions}. */
  readonly onBadEntry?: OnBadEntry | undefined;
}

/** The state of a log up to a position. */
export interface Confirmed {
  readonly state: State;
  /** The position after the last entry in the state. */
  readonly end: Position;
  /** The entry at which the follower has stopped. */
  readonly badEntry?: BadEntry | undefined;
}

/** There are more new entries than the limits allow. */
export class FarBehind extends Error {}

/** Entries to read and fold. */
export interface NewRange {
  readonly to: Position | 'end';
  readonly limits?: ReloadLimits | undefined;
  readonly onBadEntry?: OnBadEntry | undefined;
}

/** Entries and the draft into which they are folded. */
export interface Folded {
  readonly draft: Draft;
  readonly entries: readonly Entry[];
  readonly badEntry: BadEntry | undefined;
}

/**
 * Reads and folds the entries after a state, up to a bad one if the range stops there.
 * @throws FarBehind if there are more than the limits allow
 * @throws the errors of {@link readUpTo} and of the fold
 */
export async function foldAfter(
  source: EntrySource,
  folder: StateFolder,
  { state, end: from }: Confirmed,
  { to, limits, onBadEntry }: NewRange,
): Promise<Folded> {
  const { loaded, badEntry } = await untilBadEntry(onBadEntry, to, async (end) => {
    const entries: Entry[] = [];
    async function* followed(): AsyncGenerator<readonly Entry[]> {
      for await (const page of readUpTo(source, folder.log, { from, to: end, newestSegment: from.segment })) {
        entries.push(...page);
        const segments = (page.at(-1)?.position.segment ?? from.segment) - from.segment;
        if (limits !== undefined && (entries.length > limits.entries || segments > limits.segments))
          throw new FarBehind();
        yield page;
      }
    }
    const draft = new Draft(folder.nodes, state);
    await folder.foldInto(draft, followed());
    return { draft, entries };
  });
  return { ...loaded, badEntry };
}
