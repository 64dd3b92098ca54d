import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CreateTableCommand,
  DeleteItemCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  UpdateItemCommand,
  UpdateTableCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { expect, vi } from 'vitest';
import { z } from 'zod';
import { requireDynamoDb } from '../../../src/adapters/dynamodb/endpoint.ts';
import { openBucket } from '../../../src/adapters/platform/open-bucket.ts';
import { run } from '../../../src/cli/main.ts';
import { Output } from '../../../src/cli/output.ts';
import { addName, parseName, readSettings, requireFreeName, SETTINGS_FILE } from '../../../src/cli/settings.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { Position } from '../../../src/ids/position.ts';
import { givenEndpoint } from '../../../src/local/engine.ts';
import { chooseEngine } from '../../../src/local/engine-program.ts';
import { entryTableInput } from '../../../src/local/tables.ts';
import { entryKey, segmentKey } from '../../../src/log/item-codec.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import { CLAIM_KEY, MAPPING_KEY, stopKey } from '../../../src/store/keys.ts';
import { replayPart } from '../../../src/workers/audit/replay.ts';
import type { ArchivePart } from '../../../src/workers/jobs/job.ts';
import { archiveSegment, rearchiveSegment } from '../../../src/workers/retention/archive-segment.ts';
import { CliPlace } from '../../support/cli-place.ts';
import { DAMAGED_ROOT } from '../../support/damage.ts';
import { newLogId } from '../../support/logs.ts';
import { clientConfig } from '../../support/stores/shared-engine.ts';
import { testDeployment } from '../../support/test-deployment.ts';
import { type Cases, commandsOf, numbersOf, quoted } from './case.ts';

const REDUCER = "export default { name: 'own', version: 1, fold() {} };";
const FOUND = z.array(z.object({ message: z.string() })).optional();
const FAILED = z.object({ failures: FOUND, problems: FOUND });
const A_DAY = ['--expire', 'delete', '--keep-days', '1'];

let place: CliPlace;
/** Files that commands read and write. */
let files: string;

/** Opens the data that all cases share. @returns the endpoint of its DynamoDB */
export async function openPlace(): Promise<string> {
  place = await CliPlace.open();
  files = await mkdtemp(join(tmpdir(), 'logfold-advice-'));
  return place.endpoint;
}

/** The directory of files that commands read and write. */
export function filesOfPlace(): string {
  return files;
}

/** Lets the place hold the logs of another table: the next registration claims its bucket. */
export async function releaseBucket(): Promise<void> {
  await removeObjects([CLAIM_KEY, MAPPING_KEY]);
}

/** Removes objects of the place's bucket. */
export async function removeObjects(keys: readonly string[]): Promise<void> {
  await place.blobs.delete([...keys]);
}

/** The text of an object in the place's bucket. */
export async function objectOf(key: string): Promise<string> {
  return new TextDecoder().decode(await place.blobs.get(key));
}

export async function closePlace(): Promise<void> {
  await rm(files, { recursive: true });
  await place.close();
}

/**
 * Runs a command of logfold in this process.
 * @throws the error that ends the command, or an error with the advice of the first failure
 */
async function logfold(...words: readonly string[]): Promise<unknown> {
  let answer: unknown;
  let failure: unknown;
  const fail = (error: unknown): void => {
    failure = error;
  };
  const spies = [
    vi.spyOn(Output.prototype, 'result').mockImplementation((document) => {
      answer = document;
    }),
    vi.spyOn(Output.prototype, 'error').mockImplementation(fail),
    vi.spyOn(Output.prototype, 'errorDocument').mockImplementation(fail),
    vi.spyOn(process.stderr, 'write').mockReturnValue(true),
  ];
  try {
    const code = await run([...words, '--json']);
    if (code === 0) return answer;
    throw failure ?? failureIn(answer);
  } finally {
    for (const spy of spies) spy.mockRestore();
    process.exitCode = undefined;
  }
}

/** Builds an error from the first failure or problem in the answer of a command. */
function failureIn(answer: unknown): Error {
  const { failures, problems } = FAILED.parse(answer);
  const [first] = [...(failures ?? []), ...(problems ?? [])];
  return Object.assign(new Error(first?.message ?? JSON.stringify(answer)), { advice: first?.message });
}

/** Runs a command on the shared data. */
export function here(...words: readonly string[]): Promise<unknown> {
  return logfold(...words, ...place.words);
}

const KNOWN_SETTINGS = new Set(['local']);

/** Reads a settings file with the given text, which is removed again. */
async function settingsIn(directory: string, text: string): Promise<void> {
  const path = join(directory, SETTINGS_FILE);
  await writeFile(path, text);
  try {
    readSettings(directory, KNOWN_SETTINGS);
  } finally {
    await rm(path);
  }
}

/** Runs the commands that advice names one after another, as if pasted. */
async function paste(advice: string): Promise<void> {
  const commands = commandsOf(advice);
  expect(commands.length).toBeGreaterThan(0);
  for (const words of commands) await here(...words);
}

/** Creates a log with a complete snapshot after one edit. */
async function snapshotted(): Promise<LogId> {
  const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
  await place.client.addSnapshot(log);
  await here('sweep', '--log', log, '--keep-segments', '1000');
  return log;
}

/** Creates a log whose newest snapshot has chunks. */
async function inChunks(): Promise<LogId> {
  const cells = Array.from({ length: 5000 }, (_, row) => [row, 0, `${row}`.padStart(50)] as const);
  const log = await place.log({ type: 'Set', cells });
  await place.client.addSnapshot(log);
  await here('sweep', '--log', log);
  return log;
}

/** Creates a log whose first segment is closed and, by default, covered. */
async function closed({ covered = true } = {}): Promise<LogId> {
  const log = await snapshotted();
  await here('segment', log);
  if (covered) await here('sweep', '--log', log, '--keep-segments', '1000');
  return log;
}

/** Returns the dependencies of a function on the shared data whose time is up. */
function timedOut() {
  const { tables, blobs } = place;
  return testDeployment({ tables, blobs, reducer: spreadsheet, now: Date.now, deadline: 0 });
}

async function file(name: string, text: string): Promise<string> {
  const path = join(files, name);
  await writeFile(path, text);
  return path;
}

async function withEnvironment<T>(
  changes: Readonly<Record<string, string | undefined>>,
  act: () => T | Promise<T>,
): Promise<T> {
  for (const [name, value] of Object.entries(changes)) vi.stubEnv(name, value);
  try {
    return await act();
  } finally {
    vi.unstubAllEnvs();
  }
}

export async function withDb<T>(act: (db: DynamoDBClient) => Promise<T>): Promise<T> {
  const db = new DynamoDBClient(clientConfig(place.endpoint));
  try {
    return await act(db);
  } finally {
    db.destroy();
  }
}

/** Advice that the command line prints. */
export const COMMANDS: Cases = {
  'Change to another directory, for example with cd ~, then run the command again': async (refused) => {
    const before = process.cwd();
    const removed = await mkdtemp(join(files, 'removed-'));
    process.chdir(removed);
    try {
      await rm(removed, { recursive: true });
      await refused(() => here('list'));
    } finally {
      process.chdir(before);
    }
    await here('list');
  },
  'Add --help for the commands and options': async (refused) => {
    await refused(() => here('statsu'));
    await refused(() => here('status', '--nonsense'));
    await logfold('--help');
    await logfold('status', '--help');
  },
  'Write one JSON object with text for settings, such as {"local":"data","names":{"budget":"LOG"}}': async (
    refused,
  ) => {
    const said = await refused(() => settingsIn(files, '{"local":1}'));
    await refused(() => settingsIn(files, 'local: data'));
    const valid = said.slice(said.indexOf('{'));
    await settingsIn(files, valid);
  },
  'Remove it, or write one of …': async (refused) => {
    const said = await refused(() => settingsIn(files, '{"directory":"data"}'));
    expect(said).toContain('local');
    await settingsIn(files, '{"local":"data"}');
  },
  'Make it a file that you may read, or work in a directory without … above it': async (refused) => {
    const directory = join(files, 'unreadable');
    await mkdir(join(directory, SETTINGS_FILE), { recursive: true });
    await refused(() => readSettings(directory, KNOWN_SETTINGS));
    await rm(join(directory, SETTINGS_FILE), { recursive: true });
    await settingsIn(directory, '{}');
  },
  'Check the id, the tables and the region': async (refused) => {
    const log = await snapshotted();
    await refused(() => here('status', newLogId()));
    await here('status', log);
  },
  "Give a prefix too; '' lists all chosen ids": async (refused) => {
    for (const words of [
      ['--limit', '1'],
      ['--after', 'a'],
    ])
      await refused(() => here('list', ...words));
    await here('create', 'advice/1');
    await here('create', 'advice/2');
    expect(await here('list', '--prefix', '', '--limit', '1', '--after', 'advice/1')).toMatchObject({
      logs: [{ log: 'advice/2' }],
    });
  },
  'Write one JSON object of names and values, such as \'{"owner":"ann"}\'': async (refused) => {
    const advices = [];
    for (const given of ['owner', '[1]']) advices.push(await refused(() => here('create', '--attributes', given)));
    const [, json = ''] = /'(.*)'/.exec(advices[0] ?? '') ?? [];
    await here('create', 'advice/attributes', '--attributes', json);
    expect(await here('attributes', 'advice/attributes')).toMatchObject({ attributes: JSON.parse(json) });
  },
  'Give --set or --remove too': async (refused) => {
    const log = await snapshotted();
    await refused(() => here('attributes', log, '--if-absent', 'owner'));
    for (const change of [
      ['--set', '{"owner":"ann"}'],
      ['--remove', 'owner'],
    ])
      await here('attributes', log, ...change, '--if-absent', 'title');
  },
  'Check the name, or create a log there with the create command': async (refused) => {
    const directory = join(files, 'new');
    await refused(() => logfold('status', '--local', directory));
    await logfold('create', '--local', directory);
    await logfold('status', '--local', directory);
  },
  'Check the names, or create the table with the create command; nothing was created': async (refused) => {
    const other = ['--entry-table', 'Other'];
    await refused(() => here('status', ...other));
    await here('status', '--entry-table', 'Entry');
    await here('create', ...other);
    await here('status', ...other);
  },
  'Give --entry-table, --segment-table and --bucket, or --local DIR to try it on this machine': async (refused) => {
    expect(await refused(() => logfold('status'))).toContain(place.words[0]);
    await here('status');
  },
  'Set AWS_REGION or a profile with a region, or give --local DIR to try it on this machine': async (refused) => {
    const none = { AWS_REGION: undefined, AWS_DEFAULT_REGION: undefined, AWS_PROFILE: undefined };
    const nowhere = { AWS_CONFIG_FILE: '/nonexistent', AWS_SHARED_CREDENTIALS_FILE: '/nonexistent' };
    const names = ['--entry-table', 'Entry', '--segment-table', 'Segment', '--bucket', 'b'];
    await withEnvironment({ ...none, ...nowhere }, () => refused(() => logfold('status', ...names)));
    await here('status');
  },
  'Leave out --bucket: with --local, objects are in the directory': async (refused) => {
    await refused(() => here('status', '--bucket', 'b'));
    await here('status');
  },
  'Give the name of a bucket, or a URL that begins with …://': async (refused) => {
    const [, scheme = ''] = /(\w+):\/\/$/.exec(await refused(() => openBucket('ftp://snapshots'))) ?? [];
    expect(() => openBucket('constructor://snapshots')).toThrow('no store of objects');
    for (const bucket of ['snapshots', `${scheme}://snapshots`]) openBucket(bucket);
  },
  'Give --local DIR': async (refused) => {
    const [, option = ''] = /(--\w+) DIR/.exec(await refused(() => logfold('engine'))) ?? [];
    // These tests use data that `logfold engine` holds with this option.
    expect(place.words[0]).toBe(option);
  },
  'Give --feed-table NAME': async (refused) => {
    const [option = ''] = /--[\w-]+/.exec(await refused(() => here('feed', '--groups'))) ?? [];
    await here('sweep', option, 'Feed');
    await here('feed', '--groups', option, 'Feed');
  },
  'Give 3 to 255 letters, digits and characters of _-. as a name': async (refused) => {
    const advice = await refused(() => here('create', '--entry-table', 'no name'));
    const [least = 0, most = 0] = numbersOf(advice);
    for (const name of ['x'.repeat(least), `aZ0_-.${'x'.repeat(most - 6)}`])
      await here('create', '--entry-table', name);
  },
  'Choose a directory that you can create or write to': async (refused) => {
    const directory = join(await file('no-directory', ''), 'data');
    await refused(() => logfold('create', '--local', directory));
    await here('create');
  },
  'Enable its stream with the view type NEW_IMAGE': async (refused) => {
    const { StreamSpecification: _, ...input } = entryTableInput('Streamless');
    await withDb(async (db) => {
      await db.send(new CreateTableCommand(input));
      const create = () => here('create', '--entry-table', 'Streamless');
      const type = (await refused(create)).split(' ').at(-1);
      await db.send(
        new UpdateTableCommand({
          TableName: 'Streamless',
          StreamSpecification: { StreamEnabled: true, StreamViewType: type === 'NEW_IMAGE' ? type : 'KEYS_ONLY' },
        }),
      );
      await create();
    });
  },
  "Switch TTL on for attribute '…', or use --expire delete; nothing was changed": async (refused) => {
    const log = await closed();
    await here('archive', log, '0');
    await withDb(async (db) => {
      const ttl = (Enabled: boolean, AttributeName: string) =>
        db.send(
          new UpdateTimeToLiveCommand({ TableName: 'Entry', TimeToLiveSpecification: { Enabled, AttributeName } }),
        );
      await ttl(false, 'X');
      const words = ['expire', log, '0', '--dry-run'];
      const advice = await refused(() => here(...words, '--expire', 'ttl'));
      const [, how = ''] = /--expire (\w+)/.exec(advice) ?? [];
      await here(...words, '--expire', how);
      await ttl(true, quoted(advice)[0] ?? '');
      await here(...words, '--expire', 'ttl');
    });
  },
  'Give a number above 0 up to 1, such as 0.25': async (refused) => {
    const log = await closed();
    const expire = (share: string) => here('expire', log, '--dry-run', '--capacity-share', share);
    const [example = ''] = /0\.\d+/.exec(await refused(() => expire('25%'))) ?? [];
    for (const share of [example, '1']) await expire(share);
  },
  'Give …d at most': async (refused) => {
    const log = await closed();
    await here('archive', log, '0');
    const restore = (hold: string) => here('restore', log, '0', '--dry-run', '--hold', hold);
    const [days] = numbersOf(await refused(() => restore('9999999d')));
    await restore(`${days}d`);
  },
  'Write a date such as 2026-01-31 or 2026-01-31T12:00:00Z': async (refused) => {
    const sweep = (since: string) => here('sweep', '--dry-run', '--since', since);
    const dates = [...(await refused(() => sweep('yesterday'))).matchAll(/\d{4}-[\d:TZ-]+/g)];
    expect(dates).toHaveLength(2);
    for (const [date] of dates) await sweep(date);
  },
  'Name a file, or - for standard input': async (refused) => {
    const log = await snapshotted();
    await refused(() => here('append', log, join(files, 'nowhere')));
    await here('append', log, await file('edits', '{"op":"insertRows","at":0,"count":1}\n'));
  },
  'Give --format csv or --format xlsx': async (refused) => {
    const log = await snapshotted();
    const cities = await file('cities', 'Denver,CO\n');
    await refused(() => here('import', log, cities));
    await here('import', log, cities, '--format', 'csv');
  },
  'Leave these options out, or give --format csv or --format xlsx if the file is a table': async (refused) => {
    const log = await snapshotted();
    const lines = await file('lines.ndjson', '{"op":"insertRows","at":0,"count":1}\n');
    await refused(() => here('import', log, lines, '--row', '1'));
    await here('import', log, lines);
    const table = await file('table.ndjson', 'Denver,CO\n');
    await here('import', log, table, '--row', '1', '--format', 'csv');
  },
  'Check which file it is, and for XLSX name the sheet with --sheet': async (refused) => {
    const log = await snapshotted();
    await refused(async () => here('import', log, await file('empty.csv', ',\n')));
    await here('import', log, await file('cities.csv', 'Denver,CO\n'));
  },
  'Name a file that can be written': async (refused) => {
    const log = await snapshotted();
    await refused(() => here('export', log, '--csv', files));
    await here('export', log, '--csv', join(files, 'sheet.csv'));
  },
  'Select fewer rows with --rows FROM:TO, or give --all-rows': async (refused) => {
    const log = await place.log({ type: 'Set', cells: [[1_048_575, 16_383, 'far']] });
    const to = ['--csv', join(files, 'far.csv')];
    const advice = await refused(() => here('export', log, ...to));
    await here('export', log, ...to, /--rows/.exec(advice)?.[0] ?? '', '0:5');
    expect(advice).toContain('--all-rows');
  },
  'Leave out --follow or --to': async (refused) => {
    const log = await snapshotted();
    await refused(() => here('entries', log, '--follow', '--to', '0/1'));
    await here('entries', log, '--to', '0/1');
  },
  "Give up to 100 letters, digits, '_', '-' and '.', such as 'budget-2026', and no UUID": async (refused) => {
    for (const name of ['two words', '-x', newLogId()]) await refused(() => parseName(name));
    expect(parseName('budget-2026')).toBe('budget-2026');
  },
  'Give another name, or remove that one from the file': async (refused) => {
    const path = join(files, SETTINGS_FILE);
    await addName(path, 'taken', newLogId());
    try {
      const settings = () => readSettings(files, KNOWN_SETTINGS);
      await refused(() => requireFreeName(settings(), 'taken'));
      requireFreeName(settings(), 'free');
      await writeFile(path, '{"names":{}}');
      requireFreeName(settings(), 'taken');
    } finally {
      await rm(path);
    }
  },
  'Write "names":{"…":"…"} into that file': async (refused) => {
    const directory = join(files, 'absent');
    const log = newLogId();
    const said = await refused(() => addName(join(directory, SETTINGS_FILE), 'budget', log));
    await mkdir(directory);
    await writeFile(join(directory, SETTINGS_FILE), `{${/"names":{.*?}/.exec(said)?.[0]}}`);
    expect(readSettings(directory, KNOWN_SETTINGS)?.names.get('budget')).toBe(log);
    await rm(directory, { recursive: true });
  },
  'Give --map NAME': async (refused) => {
    const log = await snapshotted();
    await refused(() => here('state', log, '--from', '0'));
    await here('state', log, '--map', 'cells', '--from', '0');
  },
  'Give --prefix, or --from and --to': async (refused) => {
    const log = await snapshotted();
    const words = ['state', log, '--map', 'any'];
    await refused(() => here(...words, '--from', 'a', '--prefix', 'a'));
    await here(...words, '--prefix', 'a');
    await here(...words, '--from', 'a', '--to', 'b');
  },
  'Give --from and --to instead of --prefix': async (refused) => {
    const words = ['state', await snapshotted(), '--map', 'cells'];
    await refused(() => here(...words, '--prefix', '1'));
    await here(...words, '--from', '1', '--to', '2');
  },
  "Use 'logfold state LOG', or 'logfold export LOG' without options for sheets": async (refused) => {
    const log = await place.client.createLog();
    const own = ['--reducer', await file('own.mjs', REDUCER)];
    await refused(() => here('export', log, '--rows', '0:1', ...own));
    await refused(() => here('view', log, '--rows', '0:1', '--columns', '0:1', ...own));
    await here('state', log, ...own);
  },
  'Give --cell ROW:COLUMN, --row N, --map NAME with --key KEY, or --collection NAME with --item ID': async (
    refused,
  ) => {
    const words = ['history', await snapshotted()];
    for (const more of [[], ['--map', 'cells'], ['--row', '0', '--cell', '0:0'], ['--row', '0', '--item', 'a']]) {
      await refused(() => here(...words, ...more));
    }
    for (const place of [
      ['--cell', '0:0'],
      ['--row', '0'],
      ['--map', 'cells', '--key', '0'],
    ]) {
      await here(...words, ...place);
    }
    const documents = await place.client.createLog();
    await here('history', documents, '--collection', 'tasks', '--item', 'a', '--reducer', 'collections');
  },
  'Nothing was changed. Give --reducer …, or --reducer … to change the reducer of the log': async (refused) => {
    const recorded = await place.client.createLog();
    await here('sweep', '--log', recorded, '--reducer', 'spreadsheet+history');
    const [, named = ''] =
      /Give --reducer (\S+),/.exec(await refused(() => here('view', recorded, '--rows', '0:1', '--columns', '0:1'))) ??
      [];
    await here('view', recorded, '--rows', '0:1', '--columns', '0:1', '--reducer', named);

    const log = await place.client.createLog();
    const module = await file('own.mjs', REDUCER);
    await here('sweep', '--log', log, '--reducer', module);
    const advice = await refused(() => here('flush', log));
    await here('flush', log, '--reducer', module);
    const [, own = ''] = /or --reducer (\S+)/.exec(advice) ?? [];
    await here('flush', log, '--reducer', own).catch((error: unknown) => {
      // The command accepts the reducer, but does not flush a snapshot of another reducer.
      expect(error).toMatchObject({ message: expect.stringContaining('"outcome":"foreign"') });
    });
  },
  "Run 'logfold replay LOG' to check the snapshot at …, from which the sheet was loaded": async (refused) => {
    const log = await snapshotted();
    const check = await file('check', `{"op":"check","rows":9,"sha256":"${'0'.repeat(64)}"}\n`);
    await paste(await refused(() => here('append', log, check, '--check')));
  },
  "Run 'logfold sweep --log LOG' first, which completes one that is due": async (refused) => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await paste(await refused(() => here('flush', log)));
    await here('flush', log);
  },
  "Run 'logfold sweep --log LOG' to complete a snapshot, or name a position with --at": async (refused) => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    const advice = await refused(() => here('replay', log));
    await here('replay', log, '--at', '0/1').catch((error: Error) => expect(error.message).toContain('"equal":null'));
    await paste(advice);
    await here('replay', log);
  },
  "Run 'logfold sweep --log LOG' to complete one, or read from the start": async (refused) => {
    const log = await closed({ covered: false });
    await withoutLastSnapshot(log);
    const read = (from: 'snapshot' | 'start') => place.client.query(log, { from });
    const advice = await refused(() => read('snapshot'));
    await read('start');
    await paste(advice);
    await read('snapshot');
  },
  "Run 'logfold status LOG' to see its segments": async (refused) => {
    const log = await closed();
    await paste(await refused(() => here('archive', log, '7')));
  },
  "Run 'logfold segment LOG' to start the next one; nothing was changed": async (refused) => {
    const log = await snapshotted();
    await paste(await refused(() => here('archive', log, '0')));
    await here('sweep', '--log', log, '--keep-segments', '1000');
    await here('archive', log, '0');
  },
  "Run 'logfold sweep --log LOG' to complete it; nothing was changed": async (refused) => {
    const log = await closed({ covered: false });
    await paste(await refused(() => here('archive', log, '0')));
    await here('archive', log, '0');
  },
  "Run 'logfold archive LOG …' on your own machine, where there is no time limit": async (refused) => {
    const log = await closed();
    const timed = { ...timedOut(), frames: { bytes: 1, atLeast: 0 } };
    await paste(
      await refused(async () => {
        for (let parts: readonly ArchivePart[] | undefined; ; ) {
          const result = await archiveSegment(timed, { log, segment: 0, parts });
          if (result.outcome !== 'archiving') return;
          parts = result.parts;
        }
      }),
    );
    expect(await place.keys(log, 'archives')).toHaveLength(1);
  },
  "Run 'logfold sweep --rebuild --log LOG' on your own machine, where there is no time limit": async (refused) => {
    const log = await closed();
    await here('archive', log, '0');
    const { tables, blobs } = place;
    const segment = await tables.getSegment(log, 0, { consistent: true });
    if (segment?.archive === undefined) throw new Error('it is not archived');
    await blobs.delete([segment.archive.key]);
    await paste(await refused(() => rearchiveSegment(timedOut(), segment, { source: tables })));
    await here('verify', log);
  },
  "Run 'logfold replay LOG --at …' on your own machine, where there is no time limit": async (refused) => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    const { position } = await place.client.addSnapshot(log);
    await here('sweep', '--log', log, '--keep-segments', '1000');
    const scratch = { get: async () => undefined, put: async () => undefined };
    const replayFrom = (from?: Position) => replayPart({ ...timedOut(), scratch, rangeEntries: 1 }, log, { from });
    await paste(await refused(() => replayFrom()));
    await place.client.addEntry(log, { type: 'Set', version: 1, body: [[0, 0, 'b']] });
    await place.client.addSnapshot(log);
    await here('sweep', '--log', log, '--keep-segments', '1000');
    const advice = await refused(() => replayFrom(position));
    expect(advice).toContain('--from');
    await paste(advice);
  },
  "Run 'logfold archive LOG …' first; nothing was changed": async (refused) => {
    const log = await closed();
    const expire = () => here('expire', log, '0', '--expire', 'delete');
    await paste(await refused(expire));
    await expire();
  },
  "Run 'logfold expire LOG … --undo', then 'logfold archive LOG …'": async (refused) => {
    const log = await closed();
    await here('expire', log, '0', '--no-archive', ...A_DAY);
    await paste(await refused(() => here('archive', log, '0')));
    await here('verify', log);
  },
  "Run 'logfold expire LOG … --undo'. The next sweep then archives the segment": async (refused) => {
    const log = await closed();
    await here('expire', log, '0', '--no-archive', ...A_DAY);
    const sweep = () => here('sweep', '--log', log, '--keep-segments', '1');
    await paste(await refused(sweep));
    await sweep();
  },
  "Run 'logfold restore LOG …' to restore them": async (refused) => {
    const log = await closed();
    await here('archive', log, '0');
    await here('expire', log, '0', '--expire', 'delete');
    await place.deleteItem(log, { segment: 0, entry: 1 });
    await paste(await refused(() => here('expire', log, '0', '--undo')));
    await place.getItem(log, { segment: 0, entry: 1 });
  },
  "Run 'logfold policy LOG --no-archive' to expire the remaining entries too: no archive can restore the missing ones":
    async (refused) => {
      const log = await closed();
      await here('expire', log, '0', '--no-archive', ...A_DAY);
      await place.deleteItem(log, { segment: 0, entry: 1 });
      const advice = await refused(() => here('expire', log, '0', '--undo'));
      const sweep = () => here('sweep', '--log', log, '--keep-segments', '1');
      await expect(sweep()).rejects.toThrow('expire without the archive');
      await paste(advice);
      await sweep();
    },
  "Name the segment: 'logfold expire LOG SEGMENT --undo'": async (refused) => {
    const log = await closed();
    const advice = await refused(() => here('expire', log, '--undo'));
    await paste(advice.replace('SEGMENT', '0'));
  },
  "Restore its item from a backup of the Segment table, or use the tables that belong to this bucket. If the log was deleted on purpose, remove all objects under '…'. Until then no garbage of the log is collected":
    async (refused) => {
      const log = await closed();
      const item = { TableName: 'Segment', Key: segmentKey(log, 0) };
      await withDb(async (db) => {
        const { Item } = await db.send(new GetItemCommand(item));
        await db.send(new DeleteItemCommand(item));
        const collect = () => here('collect', log);
        const [objects = ''] = quoted(await refused(collect));
        expect(await Array.fromAsync(place.blobs.list(objects))).not.toEqual([]);
        await db.send(new PutItemCommand({ TableName: 'Segment', Item }));
        await collect();
      });
    },
  'Leave out the policy options; nothing was changed': async (refused) => {
    const log = await closed();
    await refused(() => here('expire', log, '0', '--undo', '--keep-days', '3'));
    await here('expire', log, '0', '--undo');
  },
  'Only an archived segment can be restored; the entries of this one may still be in the table': async (refused) => {
    const log = await closed();
    const restore = () => here('restore', log, '0', '--dry-run');
    await refused(restore);
    await here('archive', log, '0');
    await restore();
  },
  "Look at the object, then run 'logfold resume LOG', which removes it": async (refused) => {
    const log = await snapshotted();
    await place.blobs.put(stopKey(log), Buffer.from('{'));
    await place.client.addSnapshot(log);
    const sweep = () => here('sweep', '--log', log);
    await paste(await refused(sweep));
    await sweep();
  },
  "Restore the object from a version or a backup of the bucket, or run 'logfold sweep --rebuild --log LOG'; 'logfold verify LOG' says what else is wrong":
    async (refused) => {
      const log = await inChunks();
      const [chunk = ''] = await place.keys(log, 'chunks');
      await place.harm(chunk, () => undefined);
      await paste(await refused(() => here('verify', log)));
      await here('export', log, '--csv', join(files, 'mended.csv'));
    },
  "The entry is gone. Restore it from a backup of the table, then run 'logfold sweep --rebuild --log LOG'": async (
    refused,
  ) => {
    const log = await snapshotted();
    const at = { segment: 0, entry: 2 };
    await place.client.addSnapshot(log);
    const { S, N, ...item } = await place.getItem(log, at);
    const Key = entryKey(log, at);
    await withDb((db) => db.send(new DeleteItemCommand({ TableName: 'Entry', Key })));
    const advice = await refused(() => here('view', log, '--rows', '0:1', '--columns', '0:1'));
    await place.putItem(log, at, item);
    await paste(advice);
    await here('verify', log);
  },
  "Nothing was changed. Remove attribute '…' from the item and run 'logfold resume LOG', or restore the objects. Then find out what wrote it":
    async (refused) => {
      const log = await snapshotted();
      const at = (await place.client.addSnapshot(log)).position;
      const { S, N, ...bare } = await place.getItem(log, at);
      await place.putItem(log, at, { ...bare, B: { B: DAMAGED_ROOT } });
      const advice = await refused(() => here('sweep', '--log', log));
      const [attribute = ''] = quoted(advice);
      const left = Object.entries(await place.getItem(log, at)).filter(([name]) => name !== attribute);
      await place.putItem(log, at, Object.fromEntries(left));
      await paste(advice);
      await here('sweep', '--log', log);
      await here('verify', log);
    },
  'Set DYNAMODB_ENDPOINT to the URL of a DynamoDB API, or unset it': async (refused) => {
    const server = createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the server has no port');
    try {
      await refused(() => requireDynamoDb(`http://127.0.0.1:${address.port}`));
    } finally {
      server.close();
    }
    await requireDynamoDb(place.endpoint);
  },
  "Set it to a URL: 'http://127.0.0.1:8000'": async (refused) => {
    const advice = await withEnvironment({ DYNAMODB_ENDPOINT: 'localhost' }, () => refused(givenEndpoint));
    const [example = ''] = quoted(advice);
    expect(await withEnvironment({ DYNAMODB_ENDPOINT: example }, givenEndpoint)).toBe(example);
  },
  'Set it to one of: …': async (refused) => {
    const advice = await refused(() => chooseEngine(files, 'sqlite'));
    const [first] = advice.split(': ')[1]?.split(', ') ?? [];
    expect((await chooseEngine(files, first)).name).toBe(first);
  },
  "Unset LOGFOLD_ENGINE or set it to '…', or choose another directory": async (refused) => {
    const [present] = quoted(await refused(() => chooseEngine(place.directory, 'dynamodb-local')));
    for (const wanted of [present, undefined]) {
      expect((await chooseEngine(place.directory, wanted)).name).toBe(present);
    }
  },
};

/** Removes Last Snapshot from the first segment of a log, as another program might. */
async function withoutLastSnapshot(log: LogId): Promise<void> {
  await withDb((db) =>
    db.send(new UpdateItemCommand({ TableName: 'Segment', Key: segmentKey(log, 0), UpdateExpression: 'REMOVE L' })),
  );
}
