import { type LogId, parseLogId } from '../ids/log-id.ts';
import type { DivisionPolicy } from '../log/division-policy.ts';
import type { Reducer } from '../state/reducer.ts';
import { feedReducer } from './feed-reducer.ts';

/** The id of the feed, in every deployment. No generated id equals it. */
export const FEED_LOG: LogId = parseLogId('66656564-0000-8000-8000-000000000000');

/** Divides the feed. Its segments are the epochs. */
export const FEED_DIVISION: DivisionPolicy = {
  snapshotEvery: { entries: 1_000 },
  segmentEvery: { entries: 100_000 },
};

/** How the logs of a deployment are folded and divided. */
export interface LogSettings {
  readonly reducer: Reducer;
  readonly division?: DivisionPolicy | undefined;
  /** Finds what is due in scheduled logs. The feed is not scheduled. */
  readonly scheduler?: unknown;
  /** Refuses logs of other reducers. */
  readonly otherReducer?: unknown;
}

/**
 * The settings for a log: those of the feed for the feed itself, and the given ones for every other
 * log.
 */
export function feedOr<Settings extends LogSettings>(log: LogId, settings: Settings): Settings {
  if (log !== FEED_LOG) return settings;
  return {
    ...settings,
    reducer: feedReducer,
    division: FEED_DIVISION,
    scheduler: undefined,
    otherReducer: undefined,
  };
}
