import * as z from 'zod';
import { UsageError } from '../errors.ts';
import { checkTypes, type ReservedTypes } from '../log/entry.ts';
import { type LogId, parseLogId } from '../log/log-id.ts';
import { parsePosition } from '../log/position.ts';
import type { BuildDeps } from '../snapshot/build.ts';
import type { ChunkStore } from '../tree/chunk.ts';
import { type Replayed, replay } from '../workers/replay.ts';
import { requirePosition } from '../workers/require-position.ts';
import type { Invocation, ReplayEvent } from './function-event.ts';

const schema = z.strictObject({
  log: z.uuid().transform(parseLogId),
  at: z
    .string()
    .regex(/^\d{1,10}\/\d{1,10}$/)
    .transform(parsePosition)
    .optional(),
});

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

/**
 * The function that replays, on demand: given `{"log": "…"}`, and `"at": "SEGMENT/ENTRY"` for another place than the newest
 * snapshot's, it folds the log from its beginning and compares with what is stored. It has one invocation's time.
 * @throws TimeUpError from the function if the invocation's time is up a minute before its end
 * @throws UsageError from the function where the event is none of these, and whatever `replay` throws
 */
export function replayFunction(
  deps: ReplayFunctionDeps,
): (event: unknown, invocation: Invocation) => Promise<Replayed & { readonly log: LogId }> {
  return async (event, invocation) => {
    const run = invocation.awsRequestId;
    const deadline = deps.now() + invocation.getRemainingTimeInMillis() - MARGIN_MS;
    const { log, at } = parseEvent(event);
    if (at !== undefined) await requirePosition({ store: deps.store, types: checkTypes(deps.types) }, log, at);
    const replayed = await deps.withScratch(log, (scratch) => replay({ ...deps, scratch, deadline }, log, at));
    deps.report({ kind: 'replayed', run, log, replayed });
    return { log, ...replayed };
  };
}

function parseEvent(event: unknown): z.infer<typeof schema> {
  const parsed = schema.safeParse(event);
  if (parsed.success) return parsed.data;
  throw new UsageError(`replay does not understand its event: ${z.prettifyError(parsed.error)}`, {
    advice: 'Give {"log": "<id>"}, and "at": "SEGMENT/ENTRY" where it is not to be the newest snapshot',
  });
}
