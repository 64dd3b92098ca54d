import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { type SheetEdit, sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import { chunkPrefix, collectedKey, condemnedKey } from '../../src/store/keys.ts';
import { runCli } from '../support/cli.ts';
import { CliPlace, itemTexts } from '../support/cli-place.ts';
import { Random } from '../support/models/random.ts';
import { testDeployment } from '../support/test-deployment.ts';

const DIE_AT_WRITE = new URL('../programs/die-at-write.ts', import.meta.url).href;
/** The approximate time of a local request, in milliseconds. */
const IN_FLIGHT_MS = 4;

/** The moment of a kill: before a write is sent, on its way or just after it. */
interface Moment {
  readonly write: number;
  readonly afterMs: number;
}

/** The number of a command's writes if nothing is due, and if it does all of its work. */
interface Writes {
  readonly idle: number;
  readonly whole: number;
}

/** A random moment in the middle of a command's work, before its last write ends. */
function moment(random: Random, { idle, whole }: Writes): Moment {
  const write = random.integer(idle + 1, whole);
  const sent = write < whole && random.chance(0.5);
  return { write, afterMs: sent ? random.integer(1, IN_FLIGHT_MS) : 0 };
}

/** Runs a command without a kill, and counts its writes. */
async function writesOf(words: readonly string[]): Promise<number> {
  const { writes } = await run(words, { write: 0, afterMs: 0 });
  if (writes === undefined) throw new Error(`logfold ${words.join(' ')} was killed by another process`);
  return writes;
}

/**
 * Starts a command that kills itself at that moment, unless it comes to its end before.
 * @returns whether it was killed
 * @throws Error where it failed by itself
 */
async function runAndKill(words: readonly string[], at: Moment): Promise<boolean> {
  return (await run(words, at)).writes === undefined;
}

/** @returns how often it wrote; undefined where it was killed */
async function run(words: readonly string[], at: Moment): Promise<{ readonly writes: number | undefined }> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-writes-'));
  try {
    const countFile = join(directory, 'writes');
    const environment = {
      NODE_OPTIONS: `--import=${DIE_AT_WRITE}`,
      LOGFOLD_DEATH: JSON.stringify({ ...at, countFile }),
    };
    const { code, signal, stderr } = await runCli(words, { environment });
    if (signal === 'SIGKILL') return { writes: undefined };
    if (code !== 0) throw new Error(`logfold ${words.join(' ')} ended with ${code}: ${stderr}`);
    return { writes: Number(await readFile(countFile, 'utf8')) };
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** A new seed for each run. LOGFOLD_KILL_SEED repeats the moments of a failed run. */
const SEED = Number(process.env.LOGFOLD_KILL_SEED ?? Date.now() % 1_000_000);
const random = new Random(SEED);

/** Closed segments. For each of them, one process of `work` is killed. */
const SEGMENTS = 10;
const EDITS = 300;
/** Entries of a closed segment: three Snapshot entries, the edits and the End Segment entry. */
const ENTRIES = 1 + EDITS + 2 + 1;
/** Kills of each of the other four commands. */
const KILLS = 10;
const DEBRIS = 600;
const POLICY = ['--keep-segments', '1', '--keep-days', '0', '--expire', 'delete', '--grace', '0s'];
const NOTHING = { objects: 0, bytes: 0 };
const FAST = ['--capacity-share', '1'];

/** A log in its own place. */
class Scene {
  readonly place: CliPlace;
  readonly log: LogId;
  /** Reads archives too. */
  readonly #whole: ArchivedLogStore;

  private constructor(place: CliPlace, log: LogId) {
    this.place = place;
    this.log = log;
    this.#whole = testDeployment({ tables: place.tables, blobs: place.blobs }).store;
  }

  static async open(): Promise<Scene> {
    const place = await CliPlace.open();
    return new Scene(place, await place.client.createLog());
  }

  /** Fills a segment with edits, the same in every scene, and two Snapshot entries. */
  async fill(segment: number): Promise<void> {
    const edits = editsOf(segment);
    for (let from = 0; from < EDITS; from += EDITS / 2) {
      for (let at = from; at < from + EDITS / 2; at += 50) {
        const entries = edits
          .slice(at, at + 50)
          .map((edit) => ({ type: edit.type, version: 1, body: sheetBody(edit) }));
        await this.place.client.addEntries(this.log, entries);
      }
      await this.place.client.addSnapshot(this.log);
    }
  }

  run(...words: readonly string[]): Promise<Record<string, unknown>> {
    return this.place.json(...words);
  }

  /** Runs a command, and counts its writes. */
  writesOf(...words: readonly string[]): Promise<number> {
    return writesOf([...words, ...this.place.words]);
  }

  /** Kills a command at a random moment. @returns false if the command ended before */
  kill(words: readonly string[], writes: Writes): Promise<boolean> {
    return runAndKill([...words, ...this.place.words], moment(random, writes));
  }

  /** Every entry, in the table or in an archive. */
  async entries(): Promise<string[]> {
    const items: StoredItem[] = [];
    for (let segment = 0; segment <= SEGMENTS; segment++) {
      const range = { segment, from: 0, to: MAX_NUMBER + 1 };
      for await (const page of this.#whole.items(this.log, range, { consistent: true })) items.push(...page);
    }
    return itemTexts(items);
  }

  /** The number of a segment's entries in the table. */
  async inTable(segment: number): Promise<number> {
    let entries = 0;
    const range = { segment, from: 0, to: MAX_NUMBER + 1 };
    for await (const page of this.place.tables.items(this.log, range, { consistent: true })) entries += page.length;
    return entries;
  }

  /** The key of every object, without the notes of collections. */
  async objects(): Promise<string[]> {
    const keys = (await Array.fromAsync(this.place.blobs.list(''))).map(({ key }) => key);
    return keys.filter((key) => key !== collectedKey(this.log) && key !== condemnedKey(this.log));
  }

  /** The keys of objects that a collection would leave. */
  async kept(): Promise<string[]> {
    const { keys } = await this.run('collect', this.log, ...POLICY, '--dry-run');
    const { removed } = keys as { removed: string[] };
    return (await this.objects()).filter((key) => !removed.includes(key));
  }

  /** Writes chunks that no snapshot reaches. @returns the number of objects afterwards */
  async litter(round: number): Promise<number> {
    for (let i = 0; i < DEBRIS; i++) {
      const id = (round * DEBRIS + i).toString(16).padStart(64, '0');
      await this.place.blobs.put(chunkPrefix(this.log) + id, Uint8Array.of(1));
    }
    return (await this.objects()).length;
  }
}

function editsOf(segment: number): SheetEdit[] {
  const numbers = new Random(segment + 1);
  return Array.from({ length: EDITS }, (_, i) => {
    // One body per segment is so large that it becomes an object.
    const length = i === 100 ? 2_000 : 50;
    const row = numbers.integer(0, 2_000);
    const cells = Array.from({ length: 10 }, (__, column) => [row, column, numbers.text(length)] as const);
    return { type: 'Set', cells };
  });
}

describe(`50 kills at moments of seed ${SEED} (LOGFOLD_KILL_SEED)`, () => {
  let victim: Scene;
  /** The same log without kills, to count the writes of each command. */
  let control: Scene;
  /** The victim's entries before the first archive. */
  let entries: readonly string[];
  let replayed: unknown;

  beforeAll(async () => {
    [victim, control] = await Promise.all([Scene.open(), Scene.open()]);
  });
  afterAll(() => Promise.all([victim.place.close(), control.place.close()]));

  /** Runs a command on each closed segment: first with kills, then to its end. */
  async function killInSegments(
    wordsOf: (scene: Scene, segment: number) => string[],
    idle: number,
  ): Promise<{ readonly kills: number; readonly halfDone: number }> {
    let [kills, halfDone] = [0, 0];
    // The first run may write notes that later runs find.
    await control.run(...wordsOf(control, 0));
    const whole = await control.writesOf(...wordsOf(control, 1));
    for (let segment = 0; segment < SEGMENTS; segment++) {
      for (let tries = 0; tries < 3 && kills < KILLS; tries++) {
        if (!(await victim.kill(wordsOf(victim, segment), { idle, whole }))) break;
        kills++;
        expect(await victim.entries()).toEqual(entries);
        const there = await victim.inTable(segment);
        if (there > 0 && there < ENTRIES) halfDone++;
      }
      await victim.run(...wordsOf(victim, segment));
    }
    expect(await victim.entries()).toEqual(entries);
    return { kills, halfDone };
  }

  test('work folds every entry in spite of the kills', async () => {
    const words = ['work', '--until-idle'];
    await Promise.all([victim.run(...words), control.run(...words)]);
    let kills = 0;
    const idle = await control.writesOf(...words);
    for (let segment = 0; segment < SEGMENTS; segment++) {
      await Promise.all([victim.fill(segment), control.fill(segment)]);
      // The two scenes poll at different times, so their numbers of checkpoints may differ.
      const whole = Math.floor(0.75 * (await control.writesOf(...words)));
      if (await victim.kill(words, { idle, whole })) kills++;
      expect(await victim.run(...words)).toMatchObject({ stopped: [], failures: [] });
      await Promise.all([victim.place.client.startSegment(victim.log), control.place.client.startSegment(control.log)]);
    }
    expect(kills).toBe(SEGMENTS);
    await Promise.all([victim.run(...words), control.run(...words)]);
    entries = await victim.entries();
    replayed = await victim.run('replay', victim.log);
    expect(replayed).toEqual({ ...(await control.run('replay', control.log)), log: victim.log, equal: true });
  }, 240_000);

  test('archive loses no entry', async () => {
    const idle = await control.writesOf('archive', control.log, '--keep-segments', '100');
    const { kills } = await killInSegments(({ log }, segment) => ['archive', log, String(segment)], idle);
    expect(kills).toBe(KILLS);
    expect(await victim.inTable(0)).toBe(ENTRIES);
  }, 240_000);

  test('expire loses no entry', async () => {
    const idle = await control.writesOf('expire', control.log, '--keep-segments', '100');
    const wordsOf = ({ log }: Scene, segment: number) => ['expire', log, String(segment), ...POLICY, ...FAST];
    const { kills, halfDone } = await killInSegments(wordsOf, idle);
    expect(kills).toBe(KILLS);
    expect(halfDone).toBeGreaterThan(0);
    // The first entry of the open segment stays.
    expect(await victim.place.items()).toHaveLength(1);
  }, 240_000);

  test('restore puts back every entry', async () => {
    const idle = await control.writesOf('restore', control.log, '0', '--dry-run');
    const wordsOf = ({ log }: Scene, segment: number) => ['restore', log, String(segment), '--hold', '1d', ...FAST];
    const { kills, halfDone } = await killInSegments(wordsOf, idle);
    expect(kills).toBe(KILLS);
    expect(halfDone).toBeGreaterThan(0);
    expect(itemTexts(await victim.place.items())).toEqual(entries);
  }, 240_000);

  test('collect keeps every reachable object', async () => {
    const words = ({ log }: Scene) => ['collect', log, ...POLICY];
    const expected = await victim.kept();
    await control.run(...words(control));
    const idle = await control.writesOf(...words(control));
    await control.litter(0);
    const whole = await control.writesOf(...words(control));
    let [kills, halfDone] = [0, 0];
    for (let round = 0; round < 2 * KILLS && kills < KILLS; round++) {
      const before = await victim.litter(round);
      if (await victim.kill(words(victim), { idle, whole })) kills++;
      const left = await victim.objects();
      expect(left).toEqual(expect.arrayContaining(expected));
      if (left.length > expected.length && left.length < before) halfDone++;
    }
    expect(kills).toBe(KILLS);
    expect(halfDone).toBeGreaterThan(0);

    await victim.run(...words(victim));
    expect(await victim.objects()).toEqual(expected);
    expect(await Array.fromAsync(victim.place.blobs.uploads(''))).toEqual([]);
    const again = await victim.run(...words(victim), '--dry-run');
    expect(again).toMatchObject({ removed: NOTHING, condemned: NOTHING, aborted: 0, foreign: [] });
    expect(await victim.place.keys(victim.log, 'archives')).toHaveLength(SEGMENTS);
    expect(await victim.place.keys(victim.log, 'bodies')).toHaveLength(SEGMENTS);
  }, 240_000);

  test('the result equals a run without kills', { tags: ['I3', 'I5'] }, async () => {
    expect(itemTexts(await victim.place.items())).toEqual(entries);
    expect(await victim.run('replay', victim.log)).toEqual(replayed);
    expect(await victim.run('verify', victim.log)).toMatchObject({ archived: SEGMENTS, problems: [] });
    const [rows, same] = await Promise.all([victim.run('export', victim.log), control.run('export', control.log)]);
    expect(rows).toEqual({ ...same, log: victim.log });
    expect(await victim.run('work', '--until-idle')).toMatchObject({ snapshots: 0, stopped: [], failures: [] });
    expect(await victim.run('sweep', '--dry-run', ...POLICY)).toMatchObject({ jobs: [], failures: [] });
  });
});
