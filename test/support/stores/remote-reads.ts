import { answerLogRequest } from '../../../src/adapters/web/answer-log-request.ts';
import { RemoteLogStore } from '../../../src/adapters/web/remote-log-store.ts';
import { textLogId } from '../../../src/ids/log-id.ts';
import type { LogStore } from '../../../src/log/log-store.ts';
import { unarchived } from '../logs.ts';

/** A store whose reads go through the messages between a page and its server. */
export function readsOfPage(tables: LogStore): LogStore {
  const remote = new RemoteLogStore(async (request) => {
    const options = { allows: () => true, parseLog: textLogId };
    const answer = await answerLogRequest({ store: unarchived(tables), tables }, jsonOf(request), options);
    return jsonOf(answer);
  });
  return new Proxy(tables, {
    get(target, name) {
      const owner = REMOTE_READS.has(String(name)) ? remote : target;
      const member: unknown = Reflect.get(owner, name, owner);
      return typeof member === 'function' ? member.bind(owner) : member;
    },
  });
}

const REMOTE_READS = new Set(['newestSegments', 'getSegment', 'newestEntry', 'getEntry', 'entries', 'items']);

function jsonOf(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
