/** The package `logfold/testing`: logs in memory and tests of reducers, for Node. */
import { MemoryLogs, type MemoryLogsOptions } from '../testing/memory-logs.ts';

export { FakeClock } from '../testing/fake-clock.ts';
export {
  type ExpectedState,
  type GivenEntries,
  given,
  type ReducerTest,
  type ReducerTestOptions,
} from '../testing/given.ts';
export { MemoryLogs, type MemoryLogsOptions } from '../testing/memory-logs.ts';
export type { MemoryPipeline } from '../testing/memory-pipeline.ts';

/**
 * Logs in the memory of this process, for tests: no files, no engine and no network. Each call
 * gives other logs. Documents that share one object are clients of the same logs.
 * @throws UsageError if an option is invalid
 * @throws PolicyInvalidError if a policy is out of range
 */
export function openLogs(options: MemoryLogsOptions = {}): MemoryLogs {
  return new MemoryLogs(options);
}
