import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { parseJson } from '../codec/json.ts';

const schema = z.object({
  supervisorPid: z.int().positive(),
  /** The supervisor grants leases on this port of 127.0.0.1. */
  port: z.int().positive(),
  /** Commands prove with it that they mean this supervisor. */
  token: z.string().min(1),
  enginePid: z.int().positive(),
  /** URL of DynamoDB's API. */
  endpoint: z.url(),
});

/** The contents of `engine.json`: the running engine of a data directory. */
export type EngineState = Readonly<z.infer<typeof schema>>;

function statePath(dir: string): string {
  return join(dir, 'engine.json');
}

/** The state of the engine; undefined if the file is missing or damaged. */
export async function readEngineState(dir: string): Promise<EngineState | undefined> {
  let text: string;
  try {
    text = await readFile(statePath(dir), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return schema.parse(parseJson(text));
  } catch {
    // After a power failure no process of the damaged state still runs. The next start replaces it.
    return undefined;
  }
}

/** Replaces the state atomically. Only this user can read it. */
export async function writeEngineState(dir: string, state: EngineState): Promise<void> {
  const temporary = `${statePath(dir)}.${state.supervisorPid}.tmp`;
  await writeFile(temporary, JSON.stringify(state, undefined, 2), { mode: 0o600 });
  await rename(temporary, statePath(dir));
}

/** Removes the state, if there is one. */
export async function removeEngineState(dir: string): Promise<void> {
  await rm(statePath(dir), { force: true });
}
