import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { MemoryGroupStore } from '../../../src/adapters/memory/group-store.ts';
import { runProgram } from '../../../src/cli/commands/feed.ts';
import { openLogs } from '../../../src/exports/aws.ts';
import { positionOfCheckpoint } from '../../../src/feed/checkpoint.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { START } from '../../../src/ids/position.ts';
import { openDataDirectory } from '../../../src/local/data-directory.ts';
import { joinEngine } from '../../../src/local/engine.ts';
import { SweptFeed } from '../../../src/workers/sweep/feed-ends.ts';
import { rebuildFeed } from '../../../src/workers/sweep/rebuild-feed.ts';
import { FedLogs } from '../../support/fed-logs.ts';
import { FedSheets } from '../../support/fed-sheets.ts';
import { LiveLog } from '../../support/live-logs.ts';
import { type Cases, commandsOf, numbersOf, quoted } from './case.ts';

const lease = { owner: 'ann', until: 1_060_000 };
const first = { checkpoint: 0, saved: 1_000 };

/** Advice for readers of the feed. */
export const FEED: Cases = {
  'Give a checkpoint that the feed returned, or 0 to begin with its first entry': async (refused) => {
    const advice = await refused(() => positionOfCheckpoint(-1));
    expect(positionOfCheckpoint(numbersOf(advice)[0] ?? Number.NaN)).toEqual(START);
  },
  "Give a name of 1 to … characters, such as 'search'": async (refused) => {
    const groups = new MemoryGroupStore();
    const advice = await refused(() => groups.take('', lease, first));
    await groups.take(quoted(advice)[0] ?? '', lease, first);
  },
  'Give a checkpoint up to …. If the feed was lost and begun again, read it from 0': async (refused) => {
    const fed = new FedLogs();
    await fed.feed(await fed.create());
    const read = (from: number) => Array.fromAsync(fed.logs.feed.read({ from }));
    const [end, start] = numbersOf(await refused(() => read(3)));
    expect(await read(end ?? -1)).toHaveLength(0);
    expect(await read(start ?? -1)).toHaveLength(1);
  },
  "Try again when it has ended, at the latest after …, or wait with `follow`, on the command line --follow. If that member is gone, run 'logfold feed --group … --release'":
    async (refused) => {
      const fed = new FedLogs();
      await fed.groups.take('search', { owner: 'ann', until: fed.clock.nowMs + 60_000 }, first);
      const advice = await refused(() => Array.fromAsync(fed.logs.feed.consume('search')));
      const until = Date.parse(/\d{4}-\S+Z/.exec(advice)?.[0] ?? '');
      const waiting = Array.fromAsync(fed.logs.feed.consume('search', { follow: true, limit: 1 }));
      await fed.clock.elapse(until - fed.clock.nowMs + 5_000);
      await fed.feed(await fed.create());
      await fed.clock.elapse(1_000);
      expect(await waiting).toHaveLength(1);
      expect(await Array.fromAsync(fed.logs.feed.consume('search'))).toHaveLength(0);
      await fed.groups.take('search', { owner: 'ann', until: fed.clock.nowMs + 60_000 }, first);
      const again = await refused(() => Array.fromAsync(fed.logs.feed.consume('search')));
      expect(commandsOf(again)).toEqual([['feed', '--group', 'search', '--release']]);
      await fed.logs.feed.release('search');
      expect(await Array.fromAsync(fed.logs.feed.consume('search'))).toHaveLength(0);
    },
  'Read again as a member of the group; the items since the last save come again': async (refused) => {
    const fed = new FedLogs();
    await fed.feed(await fed.create(), await fed.create());
    const reader = fed.logs.feed.consume('search');
    await reader.next();
    const other = { owner: 'bob', until: fed.clock.nowMs + 120_000 };
    await fed.groups.take('search', other, first, (await fed.groups.get('search'))?.lease);
    fed.clock.nowMs += 61_000;
    await refused(() => reader.next());
    await fed.groups.release('search', 'bob', first);
    expect(await Array.fromAsync(fed.logs.feed.consume('search'))).toHaveLength(2);
  },
  "Run 'logfold feed --groups', which lists the groups": async (refused) => {
    const fed = new FedLogs();
    await Array.fromAsync(fed.logs.feed.consume('search'));
    await refused(() => fed.logs.feed.release('serach'));
    const [{ name = '' } = {}] = await fed.logs.feed.groups();
    await fed.logs.feed.release(name);
  },
  'Find the cause in the output of the program, then run the command again: the same entries come again': async (
    refused,
  ) => {
    const file = join(await mkdtemp(join(tmpdir(), 'logfold-program-')), 'lines');
    const command = `cat >> '${file}'`;
    await refused(() => runProgram(`${command}; exit 3`, 'first\n'));
    await runProgram(command, 'first\n');
    expect(await readFile(file, 'utf8')).toBe('first\nfirst\n');
    await rm(dirname(file), { recursive: true });
  },
  "If the tables were restored, run 'logfold feed --rebuild', which feeds all logs again": async (refused) => {
    const fed = new FedSheets();
    const { sheets, writer, deps } = fed;
    const log = await sheets.atRest();
    await writer.add([{ log, position: { segment: 0, entry: 9 } }]);
    const sweep = async (): Promise<void> => {
      const onAhead = (_: LogId, error: Error): never => {
        throw error;
      };
      const swept = new SweptFeed({ ...deps, feed: writer, hasStream: false, onAhead });
      await sheets.sweep({}, { ...deps, onEnd: swept.onEnd });
      await swept.finish();
    };
    expect(commandsOf(await refused(sweep))).toEqual([['feed', '--rebuild']]);
    await rebuildFeed({ ...deps, feed: writer, onFailure: () => expect.unreachable() });
    await sweep();
  },
  'Read the feed with `skipExpired`, or --skip-expired, to leave such entries out': async (refused) => {
    const fed = new FedLogs();
    const log = await fed.create();
    await fed.feed(log);
    const segment = await fed.tables.getSegment(log, 0, { consistent: true });
    if (segment === undefined) throw new Error('the segment is missing');
    await fed.tables.setExpiration(segment, { state: 'expiring', at: 0 });
    await fed.tables.deleteEntries(log, 0, [0]);
    await refused(() => Array.fromAsync(fed.logs.feed.read()));
    expect(await Array.fromAsync(fed.logs.feed.read({ skipExpired: true }))).toEqual([]);
  },
  'Give openLogs of logfold/aws or logfold/local the table of the feed as `feedTable`': async (refused) => {
    const live = await LiveLog.create();
    await refused(() => live.logs().feed);
    await new FedLogs().logs.feed.end();
  },
  'Name another table for the feed': async (refused) => {
    const names = { entryTable: 'Entry', segmentTable: 'Segment', bucket: 'snapshots', region: 'eu-west-1' };
    for (const feedTable of ['Entry', 'Segment']) await refused(async () => openLogs({ ...names, feedTable }));
    await openLogs({ ...names, feedTable: 'Feed' }).close();
  },
  'Check the name of the feed, or create its table with the work command; nothing was created': async (refused) => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-feed-'));
    try {
      const engine = await joinEngine(directory, { creates: true });
      await (await openDataDirectory(directory, { creates: true })).engine.leave();
      const open = (creates: boolean) => openDataDirectory(directory, { feedTable: 'Feed', creates });
      await refused(() => open(false));
      // As `logfold work --feed-table Feed` does.
      await (await open(true)).engine.leave();
      await (await open(false)).engine.leave();
      await engine.leave();
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
};
