import { FEED_DIVISION, FEED_LOG } from '../../feed/feed-log.ts';
import { asksAt } from '../../log/division-policy.ts';
import { type JobSender, jobMessage, logLabel } from '../jobs/job.ts';
import type { FeedWriter } from './feed-writer.ts';

/**
 * A feed that also sends the divide job of the feed, because no stream watches its table. If a
 * process ends before it sends the job, the next sweep finds the job due.
 */
export function dividedFeed(feed: Pick<FeedWriter, 'add'>, queue: JobSender): Pick<FeedWriter, 'add'> {
  return {
    add: async (ends) => {
      const fed = await feed.add(ends);
      const asking = fed.entries.find(({ entry }) => asksAt(FEED_DIVISION, { entry, bytes: 0, share: 1 }));
      if (asking !== undefined) {
        const { segment, entry } = asking;
        const id = `feed:divide:${logLabel(FEED_LOG)}:${segment}:${entry}`;
        await queue.send(jobMessage({ kind: 'divide', log: FEED_LOG }, id));
      }
      return fed;
    },
  };
}
