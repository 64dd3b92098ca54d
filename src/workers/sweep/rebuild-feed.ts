import type { FeedWriter } from '../feed/feed-writer.ts';
import { SweptFeed } from './feed-ends.ts';
import { type SweepDeps, sweep } from './sweep.ts';

export interface RebuildFeedDeps extends Omit<SweepDeps, 'send' | 'holdsBack' | 'onEnd'> {
  readonly feed: Pick<FeedWriter, 'add' | 'restart'>;
}

/** The result of {@link rebuildFeed}. */
export interface RebuiltFeed {
  /** The checkpoint from which the feed has all entries of all logs again. */
  readonly from: number;
  /** The end of the feed. */
  readonly to: number;
  readonly logs: number;
  readonly spans: number;
}

/**
 * Begins the feed again and feeds all logs from their first entry on. Readers that are before this
 * place continue with it, so they get every entry again; checkpoints only grow. If it ends early,
 * the next sweep feeds the rest. Takes the requests of a sweep, and sends no jobs.
 * @throws the errors of `FeedWriter.add`
 */
export async function rebuildFeed({ feed, ...deps }: RebuildFeedDeps): Promise<RebuiltFeed> {
  const from = await feed.restart();
  const swept = new SweptFeed({ ...deps, feed, hasStream: false, onAhead: deps.onFailure });
  const { logs } = await sweep(
    { ...deps, onEnd: swept.onEnd, holdsBack: () => true, send: async () => undefined },
    { gcCandidates: false },
  );
  const { spans, checkpoint = from } = await swept.finish();
  return { from, to: checkpoint, logs, spans };
}
