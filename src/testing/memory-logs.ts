import { MemoryBlobStore } from '../adapters/memory/blob-store.ts';
import { MemoryGroupStore } from '../adapters/memory/group-store.ts';
import { MemoryLogStore } from '../adapters/memory/log-store.ts';
import { nativePlatform } from '../adapters/platform/native.ts';
import { checkLogsSettings, type LogsSettings, type NODE_PORTS } from '../adapters/platform/node-logs.ts';
import { ServerLogs } from '../adapters/web/server-logs.ts';
import { ArchivedLogStore } from '../archive/archived-log-store.ts';
import type { LogsDeps } from '../client/logs.ts';
import { ReducerInvalidError, UsageError } from '../errors.ts';
import { withFeed } from '../feed/feed-log-store.ts';
import { type LogId, parseLogId } from '../ids/log-id.ts';
import { DIVISION, type DivisionSettings, divisionOf } from '../log/division-policy.ts';
import { RESERVED_TYPES, type ReservedTypes } from '../log/entry.ts';
import type { LogStore } from '../log/log-store.ts';
import { checkOptionNames } from '../log/option-names.ts';
import { checkPolicy, DEFAULT_POLICY, RETENTION, type RetentionPolicy } from '../retention/retention-policy.ts';
import { isReducer, REDUCER_PARTS, type Reducer } from '../state/reducer.ts';
import { FakeClock } from './fake-clock.ts';
import { MemoryPipeline } from './memory-pipeline.ts';

/** Options of `openLogs` for logs in memory. All have defaults. */
export interface MemoryLogsOptions extends Pick<LogsSettings, 'types' | 'cacheBytes' | 'warmBytes'> {
  /** Folds the snapshots of `pipeline.run()`, which throws without it. */
  readonly reducer?: Reducer | undefined;
  /** Snapshots and segments that are due without being asked for; none by default. */
  readonly division?: DivisionSettings | undefined;
  /** Changes of the default policy, which archives segments after 30 days and expires none. */
  readonly retention?: Partial<RetentionPolicy> | undefined;
  /** A new one by default. */
  readonly clock?: FakeClock | undefined;
}

const MEMORY_OPTIONS = [
  'types',
  'cacheBytes',
  'warmBytes',
  'reducer',
  'division',
  'retention',
  'clock',
] satisfies (keyof MemoryLogsOptions)[];

/**
 * Logs in the memory of one process, for tests. Everything above the stores is the code of a
 * deployment: clients, documents, the feed, and the workers of the pipeline.
 *
 * They are deterministic: equal calls give equal log ids, entries and snapshots. There is no clock
 * but {@link clock}, and random numbers always begin with the same ones.
 */
export class MemoryLogs extends ServerLogs {
  /** The clock of these logs. */
  readonly clock: FakeClock;
  /** Builds snapshots and does whatever else is due, when it is told to. */
  readonly pipeline: MemoryPipeline;

  /**
   * Use `openLogs` of `logfold/testing`.
   * @throws UsageError if an option is invalid
   * @throws PolicyInvalidError if a policy is out of range
   */
  constructor(options: MemoryLogsOptions = {}) {
    checkOptionNames('openLogs', options, MEMORY_OPTIONS);
    const { reducer, division = {}, retention = {}, clock = new FakeClock(), cacheBytes, warmBytes } = options;
    if (reducer !== undefined && !isReducer(reducer)) {
      throw new ReducerInvalidError(`'reducer' of openLogs is not a reducer: it needs ${REDUCER_PARTS}`);
    }
    if (!(clock instanceof FakeClock)) throw new UsageError("'clock' of openLogs is not a FakeClock");
    const { types = RESERVED_TYPES } = checkLogsSettings({}, options);
    checkOptionNames("'division' of openLogs", division, Object.keys(DIVISION.shape));
    checkOptionNames("'retention' of openLogs", retention, Object.keys(RETENTION.shape));
    const policies = {
      division: divisionOf(division),
      retention: checkPolicy({ ...DEFAULT_POLICY, ...retention }),
    };
    const entries = new MemoryLogStore();
    const feed = new MemoryLogStore();
    const deps = { ...memoryPorts(entries, feed, { clock, types }), cacheBytes, warmBytes };
    super(deps);
    this.clock = clock;
    this.pipeline = new MemoryPipeline({ ...deps, ...policies, reducer, expiring: [entries, feed], logs: this });
  }
}

type MemoryPorts = Omit<LogsDeps, 'tables' | 'types' | keyof typeof NODE_PORTS> &
  Required<Pick<LogsDeps, keyof typeof NODE_PORTS>> & { readonly tables: LogStore; readonly types: ReservedTypes };

function memoryPorts(
  logs: MemoryLogStore,
  feed: MemoryLogStore,
  { clock, types }: { readonly clock: FakeClock; readonly types: ReservedTypes },
): MemoryPorts {
  const tables = withFeed(logs, feed);
  const blobs = new MemoryBlobStore(clock.now);
  return {
    tables,
    blobs,
    store: new ArchivedLogStore(tables, { blobs, platform: nativePlatform }),
    feedGroups: new MemoryGroupStore(),
    platform: nativePlatform,
    types,
    now: clock.now,
    random: repeatedRandom(),
    sleep: clock.sleep,
    newLogId: countedLogIds(),
  };
}

/** Log ids in the form of random UUIDs: 1, 2, 3, … */
function countedLogIds(): () => LogId {
  let logs = 0;
  return () => parseLogId(`00000000-0000-4000-8000-${(++logs).toString(16).padStart(12, '0')}`);
}

/** Numbers that look random and are always the same: xorshift of 32 bits (Marsaglia, 2003). */
function repeatedRandom(): () => number {
  let bits = 0x9e3779b9;
  return () => {
    bits ^= bits << 13;
    bits ^= bits >>> 17;
    bits ^= bits << 5;
    return (bits >>> 0) / 2 ** 32;
  };
}
