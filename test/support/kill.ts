import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCli } from './cli.ts';
import type { Random } from './random.ts';

const DIE_AT_WRITE = new URL('./die-at-write.ts', import.meta.url).href;
/** A local request is answered in about this time. */
const IN_FLIGHT_MS = 4;

/** Some write of a process that does so many: as likely before it is sent as while it is on its way or just done. */
export interface Moment {
  readonly write: number;
  readonly afterMs: number;
}

/** How often a command writes where it finds nothing to do, and where it does all of its work. */
export interface Writes {
  readonly idle: number;
  readonly whole: number;
}

/** A moment in the middle of a command's work: a command that does so much comes to no end before it. */
export function moment(random: Random, { idle, whole }: Writes): Moment {
  const write = random.integer(idle + 1, whole);
  const sent = write < whole && random.chance(0.5);
  return { write, afterMs: sent ? random.integer(1, IN_FLIGHT_MS) : 0 };
}

/** How often a command writes that nobody kills. */
export async function writesOf(words: readonly string[]): Promise<number> {
  const { writes } = await run(words, { write: 0, afterMs: 0 });
  if (writes === undefined) throw new Error(`logfold ${words.join(' ')} was killed by somebody else`);
  return writes;
}

/**
 * Starts a command that kills itself at that moment, unless it comes to its end before.
 * @returns whether it was killed
 * @throws Error where it failed by itself
 */
export async function runAndKill(words: readonly string[], at: Moment): Promise<boolean> {
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
