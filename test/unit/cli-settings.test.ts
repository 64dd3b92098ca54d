import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { command, parse, prepareCommand } from '../../src/cli/command.ts';
import { readSettings, SETTINGS_FILE, type Settings, settingsOf } from '../../src/cli/settings.ts';
import { parseLogId } from '../../src/ids/log-id.ts';

const BUDGET = parseLogId('0b1e4c62-4a1f-4a3e-9b6e-0d5a3b1c2d3e');

let project: string;

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'logfold-settings-'));
  await mkdir(join(project, 'below'));
});
afterAll(() => rm(project, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

const KNOWN = new Set(settingsOf(command('any', '')).map((setting) => setting.attributeName()));

/** Reads a settings file from the directory below its own. */
async function written(content: object): Promise<Settings | undefined> {
  await writeFile(join(project, SETTINGS_FILE), JSON.stringify(content));
  return readSettings(join(project, 'below'), KNOWN);
}

/** The options and the argument of a command, as its action gets them. */
async function parsed(settings: Settings | undefined, ...words: string[]): Promise<Record<string, unknown>> {
  let found: Record<string, unknown> = {};
  const reading = command('read', '')
    .argument('[log]', '', parse.log)
    .option('--log <log>', '')
    .action((argument, options) => {
      found = { ...options, argument };
    });
  await prepareCommand(reading, () => settings).parseAsync(words, { from: 'user' });
  return found;
}

test('an option beats a variable, which beats the settings file, which beats the default', async () => {
  const settings = await written({ snapshotType: 'FromFile' });
  expect(await parsed(undefined)).toMatchObject({ snapshotType: 'Snapshot' });
  expect(await parsed(settings)).toMatchObject({ snapshotType: 'FromFile' });
  vi.stubEnv('LOGFOLD_SNAPSHOT_TYPE', '');
  expect(await parsed(settings)).toMatchObject({ snapshotType: 'FromFile' });
  vi.stubEnv('LOGFOLD_SNAPSHOT_TYPE', 'FromVariable');
  expect(await parsed(settings)).toMatchObject({ snapshotType: 'FromVariable' });
  expect(await parsed(settings, '--snapshot-type', 'Given')).toMatchObject({ snapshotType: 'Given' });
});

test('paths of the settings file are relative to it, and built-in names are not paths', async () => {
  expect(await parsed(await written({ local: 'data', reducer: 'own.ts', mapping: 'castore' }))).toMatchObject({
    local: join(project, 'data'),
    reducer: join(project, 'own.ts'),
    mapping: { partitionKey: { name: 'aggregateId' } },
  });
  expect(await parsed(await written({ reducer: 'spreadsheet' }))).toMatchObject({ reducer: 'spreadsheet' });
});

test('if a directory and a bucket are given, the one closer to the command counts', async () => {
  const settings = await written({ local: 'data' });
  expect(await parsed(settings, '--bucket', 'b')).not.toHaveProperty('local');
  vi.stubEnv('LOGFOLD_BUCKET', 'b');
  expect(await parsed(settings)).not.toHaveProperty('local');
  expect(await parsed(settings, '--local', 'other')).not.toHaveProperty('bucket');
  // The command refuses both.
  expect(await parsed(settings, '--local', 'other', '--bucket', 'b')).toMatchObject({ local: 'other', bucket: 'b' });
});

test('a log may be given by its name, as an argument and as an option', async () => {
  const settings = await written({ names: { budget: BUDGET } });
  expect(await parsed(settings, 'budget', '--log', 'budget')).toMatchObject({ argument: BUDGET, log: BUDGET });
  expect(await parsed(settings, BUDGET)).toMatchObject({ argument: BUDGET });
  // Any other text is the id of a log.
  expect(await parsed(settings, 'budge')).toMatchObject({ argument: 'budge' });
  await expect(parsed(settings, 'feed')).rejects.toThrow("'feed'");
});

test('an error names the variable or the file that has the value', async () => {
  const settings = await written({ mapping: 'missing.json' });
  const path = join(project, 'logfold.json');
  await expect(parsed(settings)).rejects.toThrow(`${path}: --mapping: '${join(project, 'missing.json')}'`);
  // A value that is not used is not read.
  expect(await parsed(settings, '--mapping', 'logfold')).not.toHaveProperty('mapping.partitionKey');
  vi.stubEnv('LOGFOLD_MAPPING', 'absent.json');
  await expect(parsed(settings)).rejects.toThrow("LOGFOLD_MAPPING: --mapping: 'absent.json'");
});

test('help needs no valid settings file', async () => {
  await writeFile(join(project, SETTINGS_FILE), '{');
  const broken = prepareCommand(command('read', ''), () => readSettings(project, KNOWN)).exitOverride();
  broken.configureOutput({ writeOut: () => undefined });
  await expect(broken.parseAsync(['--help'], { from: 'user' })).rejects.toThrow('outputHelp');
  await expect(broken.parseAsync([], { from: 'user' })).rejects.toThrow('is not valid');
});

test('no name of the settings file hides the id of a log', async () => {
  const other = '11111111-2222-4333-8444-555555555555';
  await expect(written({ names: { [other]: BUDGET } })).rejects.toThrow(`the name '${other}' is the id of a log`);
  await expect(written({ names: { [other.replace('8444', 'B444')]: BUDGET } })).rejects.toThrow('is the id of a log');
});
