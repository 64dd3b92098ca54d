import * as z from 'zod';
import type { ChunkStore } from '../codec/chunk.ts';
import { feedOr } from '../feed/feed-log.ts';
import { type LogId, type ParseLog, parseLogId } from '../ids/log-id.ts';
import { formatPosition, parsePosition } from '../ids/position.ts';
import type { ReservedTypes } from '../log/entry.ts';
import { assertPosition } from '../log/newest.ts';
import type { BuildDeps } from '../snapshot/build.ts';
import { logIdSchema } from '../store/log-id-schema.ts';
import { type PartlyReplayed, type Replayed, replayPart } from '../workers/audit/replay.ts';
import type { ReplayEvent } from './function-event.ts';
import { deadlineOf, type Invocation, parseEvent } from './invocation.ts';

const position = z
  .string()
  .regex(/^\d{1,10}\/\d{1,10}$/)
  .transform(parsePosition)
  .optional();

const REPLAY_EVENT = {
  name: 'replay',
  advice:
    'Give {"log": "<id>"}, with "at": "SEGMENT/ENTRY" for another position than the newest snapshot, or the "next" of an answer',
};

export interface ReplayFunctionDeps extends BuildDeps {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly types: ReservedTypes;
  /** Reads the id of a log in an event; {@link parseLogId} by default. */
  readonly parseLog?: ParseLog | undefined;
  /** Runs work with a chunk store for temporary chunks, and removes them afterwards. */
  readonly withScratch: <T>(log: LogId, work: (scratch: ChunkStore) => Promise<T>) => Promise<T>;
  readonly report: (event: ReplayEvent) => void;
}

export type ReplayAnswer = { readonly log: LogId } & (
  | Replayed
  | (PartlyReplayed & {
      /** The event of the next invocation. */
      readonly next: { readonly log: LogId; readonly at: string; readonly from: string };
    })
);

/**
 * Makes the function that replays a log on demand. Its event is `{"log": "…"}`, with
 * `"at": "SEGMENT/ENTRY"` for another position than the newest snapshot's. It folds the log from
 * its beginning and compares the result with the stored snapshot. With `from`, the position of a
 * stored snapshot, it folds from there. A minute before the invocation ends, it answers with the
 * event for the next invocation.
 *
 * The function throws what `replayPart` throws, and:
 * @throws TimeUpError if time runs out before any stored snapshot was found equal
 * @throws UsageError if the event is malformed
 */
export function replayFunction(
  deps: ReplayFunctionDeps,
): (event: unknown, invocation: Invocation) => Promise<ReplayAnswer> {
  const schema = z.strictObject({ log: logIdSchema(deps.parseLog ?? parseLogId), at: position, from: position });
  return async (event, invocation) => {
    const run = invocation.awsRequestId;
    const deadline = deadlineOf(invocation, deps);
    const { log, at, from } = parseEvent(schema, event, REPLAY_EVENT);
    if (at !== undefined) await assertPosition(deps, log, at);
    const replayed = await deps.withScratch(log, (scratch) =>
      replayPart({ ...feedOr(log, deps), scratch, deadline }, log, { at, from }),
    );
    deps.report({ kind: 'replayed', run, log, replayed });
    if (replayed.outcome === 'replayed') return { log, ...replayed };
    const { position, equalUpTo } = replayed;
    return { log, ...replayed, next: { log, at: formatPosition(position), from: formatPosition(equalUpTo) } };
  };
}
