import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { RESERVED_TYPES, type ReservedTypes } from '../../src/log/entry.ts';
import type { TableReader } from '../../src/log/log-store.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { NOON, newLogId } from './logs.ts';
import { versionedSheet } from './models/versioned-sheet.ts';

/** The dependencies of a process beside its stores. */
interface Ports {
  readonly platform: typeof nativePlatform;
  readonly types: ReservedTypes;
  readonly reducer: Reducer;
  readonly now: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  readonly newLogId: () => LogId;
  readonly policyOf: (log: LogId) => RetentionPolicy;
}

const PORTS: Ports = {
  platform: nativePlatform,
  types: RESERVED_TYPES,
  reducer: versionedSheet(1),
  now: () => NOON * 1000,
  random: Math.random,
  sleep: async () => undefined,
  newLogId,
  policyOf: () => DEFAULT_POLICY,
};

/**
 * A deployment on the given tables and objects: the dependencies of jobs, clients and documents.
 * Unless the test gives others, its reducer folds sheets, its clock stands still at {@link NOON},
 * and a wait takes no time.
 */
export function testDeployment<Given extends { readonly tables: TableReader; readonly blobs: BlobStore }>(
  given: Given,
): Ports & NoInfer<Given> & { readonly store: ArchivedLogStore } {
  const { tables, blobs } = given;
  return { ...PORTS, ...given, store: new ArchivedLogStore(tables, { blobs, platform: nativePlatform }) };
}
