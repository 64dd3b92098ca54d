import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';

const schema = z.object({
  /** The process that owns the engine. */
  supervisorPid: z.int().positive(),
  /** Where the keeper gives out leases, on 127.0.0.1. */
  port: z.int().positive(),
  /** What a command must say there. */
  token: z.string().min(1),
  enginePid: z.int().positive(),
  /** Where the engine serves DynamoDB's API. */
  endpoint: z.url(),
});

/** What `engine.json` says of the engine that runs for a data directory. */
export type EngineState = Readonly<z.infer<typeof schema>>;

function statePath(dir: string): string {
  return join(dir, 'engine.json');
}

/** The state of the engine; undefined where none was left by a keeper, or nothing that makes sense. */
export async function readEngineState(dir: string): Promise<EngineState | undefined> {
  let text: string;
  try {
    text = await readFile(statePath(dir), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    // What a power failure left half written describes no process that still runs: the next start replaces it.
    return undefined;
  }
}

/** Replaces the state as a whole; readers see the old or the new one. Readable by this user alone. */
export async function writeEngineState(dir: string, state: EngineState): Promise<void> {
  const temporary = `${statePath(dir)}.${state.supervisorPid}.tmp`;
  await writeFile(temporary, JSON.stringify(state, undefined, 2), { mode: 0o600 });
  await rename(temporary, statePath(dir));
}

/** Removes the state; none there is no error. */
export async function removeEngineState(dir: string): Promise<void> {
  await rm(statePath(dir), { force: true });
}
