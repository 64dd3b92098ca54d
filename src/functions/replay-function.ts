import * as z from 'zod';
import type { ChunkStore } from '../codec/chunk.ts';
import { UsageError } from '../errors.ts';
import { type LogId, parseLogId } from '../ids/log-id.ts';
import { formatPosition, parsePosition } from '../ids/position.ts';
import { checkTypes, type ReservedTypes } from '../log/entry.ts';
import { assertPosition } from '../log/newest.ts';
import type { BuildDeps } from '../snapshot/build.ts';
import { type PartlyReplayed, type Replayed, replayTurn } from '../workers/inspect/replay.ts';
import type { Invocation, ReplayEvent } from './function-event.ts';

const position = z
  .string()
  .regex(/^\d{1,10}\/\d{1,10}$/)
  .transform(parsePosition)
  .optional();

const schema = z.strictObject({ log: z.uuid().transform(parseLogId), at: position, from: position });

/** What a replay needs at most once its time is up, in milliseconds: to put its edits into their trees, and to clean up. */
const MARGIN_MS = 60_000;

export interface ReplayFunctionDeps extends BuildDeps {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly types?: ReservedTypes | undefined;
  /** Does work that needs room for chunks of its own, and removes them afterwards. */
  readonly withScratch: <T>(log: LogId, work: (scratch: ChunkStore) => Promise<T>) => Promise<T>;
  readonly report: (event: ReplayEvent) => void;
}

/** The answer to an invocation. */
export type ReplayAnswer = { readonly log: LogId } & (
  | Replayed
  | (PartlyReplayed & {
      /** The event of the invocation that goes on from here. */
      readonly next: { readonly log: LogId; readonly at: string; readonly from: string };
    })
);

/**
 * The function that replays, on demand: given `{"log": "…"}`, and `"at": "SEGMENT/ENTRY"` for another place than the newest
 * snapshot's, it folds the log from its beginning and compares with what is stored. With `from`, a stored snapshot, it folds
 * from there. A minute before the invocation ends, it answers with the event that the next invocation needs.
 * @throws TimeUpError from the function if the time is up before any stored snapshot was found equal
 * @throws UsageError from the function where the event is none of these, and whatever `replayTurn` throws
 */
export function replayFunction(
  deps: ReplayFunctionDeps,
): (event: unknown, invocation: Invocation) => Promise<ReplayAnswer> {
  return async (event, invocation) => {
    const run = invocation.awsRequestId;
    const deadline = deps.now() + invocation.getRemainingTimeInMillis() - MARGIN_MS;
    const { log, at, from } = parseEvent(event);
    if (at !== undefined) await assertPosition({ store: deps.store, types: checkTypes(deps.types) }, log, at);
    const replayed = await deps.withScratch(log, (scratch) =>
      replayTurn({ ...deps, scratch, deadline }, log, { at, from }),
    );
    deps.report({ kind: 'replayed', run, log, replayed });
    if (replayed.outcome === 'replayed') return { log, ...replayed };
    const { position, equalUpTo } = replayed;
    return { log, ...replayed, next: { log, at: formatPosition(position), from: formatPosition(equalUpTo) } };
  };
}

function parseEvent(event: unknown): z.infer<typeof schema> {
  const parsed = schema.safeParse(event);
  if (parsed.success) return parsed.data;
  throw new UsageError(`replay does not understand its event: ${z.prettifyError(parsed.error)}`, {
    advice:
      'Give {"log": "<id>"}, with "at": "SEGMENT/ENTRY" for another place than the newest snapshot, or the "next" of an answer',
  });
}
