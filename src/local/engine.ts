import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, realpath, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { withFileLock } from '../adapters/filesystem/file-lock.ts';
import { EngineError, ResourceMissingError, textOf, UsageError } from '../errors.ts';
import { ENGINE_NAMES, engineWords, hasData } from './engine-program.ts';
import { readEngineState, removeEngineState } from './engine-state.ts';
import { Lease } from './lease.ts';
import { endProcesses, findProcesses, waitForEnd } from './processes.ts';

const KEEPER = fileURLToPath(new URL('./supervisor.ts', import.meta.url));
/** How long a keeper may take to stop its engine and end, in milliseconds. */
const KEEPER_GRACE_MS = 15_000;
const ENGINE_GRACE_MS = 5_000;

/** The first line that a keeper prints. */
const supervisorAnswer = z.discriminatedUnion('started', [
  z.object({ started: z.literal(true) }),
  z.object({
    started: z.literal(false),
    code: z.string().optional(),
    reason: z.string(),
    advice: z.string().optional(),
  }),
]);

/** A running DynamoDB that this process uses. */
export interface Engine {
  /** URL of DynamoDB's API, streams included. */
  readonly endpoint: string;
  /** Aborted with an EngineError once the engine is gone before `leave`. */
  readonly lost: AbortSignal;
  /**
   * Says that this process is done with the engine. The last one out stops it: once this resolves either others use
   * it, or nothing runs any more. Calling it again does nothing.
   */
  leave(): Promise<void>;
}

/**
 * Joins the engine that runs for a data directory, or starts one. Several processes may use a directory at once, also
 * when any of them, the keeper or the engine is killed at any moment: whatever a crash left is cleared away by whoever
 * joins or leaves next. Data and logs (`engine.log`) stay in the directory. Where DYNAMODB_ENDPOINT is set in the
 * environment, that one is used and nothing is started.
 * @param options `creates`: whether a directory without data is made one with data, as it is by default
 * @throws ResourceMissingError where it is not to be made one
 * @throws EngineError where no engine can be started
 * @throws UsageError where DYNAMODB_ENDPOINT or LOGFOLD_ENGINE makes no sense, or the directory cannot be one
 */
export async function joinEngine(
  dir: string,
  { creates = true }: { readonly creates?: boolean } = {},
): Promise<Engine> {
  const given = givenEndpoint();
  if (given !== undefined) return { endpoint: given, lost: new AbortController().signal, leave: async () => {} };
  if (!creates && !hasData(dir)) {
    throw new ResourceMissingError(`'${dir}' is no directory with data of logfold`, {
      advice: 'Check the name, or begin there with the create command; nothing was made',
    });
  }
  const real = await dataDirectory(dir);
  const lease = (await takeLease(real)) ?? (await withFileLock(startLock(real), () => takeLeaseOrStart(real)));
  let left: Promise<void> | undefined;
  return {
    endpoint: lease.state.endpoint,
    lost: lease.lost,
    leave() {
      left ??= leaveEngine(real, lease);
      return left;
    },
  };
}

/**
 * The DynamoDB that the environment names; undefined if it names none.
 * @throws UsageError if DYNAMODB_ENDPOINT is not a URL
 */
export function givenEndpoint(): string | undefined {
  const endpoint = process.env.DYNAMODB_ENDPOINT;
  if (endpoint === undefined || endpoint === '') return undefined;
  if (z.url({ protocol: /^https?$/ }).safeParse(endpoint).success) return endpoint;
  throw new UsageError(`DYNAMODB_ENDPOINT is '${endpoint}'`, { advice: "Set it to a URL: 'http://127.0.0.1:8000'" });
}

async function dataDirectory(dir: string): Promise<string> {
  try {
    await makeDirectory(resolve(dir));
    // Tried and not asked for: the permissions of a read-only file system allow the superuser everything.
    await rmdir(await mkdtemp(join(dir, '.writable-')));
    return await realpath(dir);
  } catch (cause) {
    throw new UsageError(`'${dir}' cannot be a data directory: ${textOf(cause)}`, {
      advice: 'Name a directory that you may write to, or that can be made',
      cause,
    });
  }
}

/** Level by level: for a path below /proc, the recursive `mkdir` of Node 24 never ends. */
async function makeDirectory(path: string): Promise<void> {
  if (existsSync(path)) return;
  if (dirname(path) !== path) await makeDirectory(dirname(path));
  await mkdir(path).catch((error: unknown) => {
    // Another process was faster.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  });
}

/** Held while an engine starts, and while somebody clears away what a crash left of one. */
function startLock(dir: string): string {
  return join(dir, 'engine.lock');
}

async function takeLease(dir: string): Promise<Lease | undefined> {
  const state = await readEngineState(dir);
  return state === undefined ? undefined : await Lease.take(state);
}

async function takeLeaseOrStart(dir: string): Promise<Lease> {
  const running = await takeLease(dir);
  if (running !== undefined) return running;
  await clearAway(dir);
  const release = await startSupervisor(dir);
  try {
    const lease = await takeLease(dir);
    if (lease !== undefined) return lease;
  } finally {
    release();
  }
  throw new EngineError(`the engine of ${dir} ended right after its start`, { advice: `See ${dir}/engine.log` });
}

async function leaveEngine(dir: string, lease: Lease): Promise<void> {
  if (await lease.leave()) return;
  await withFileLock(startLock(dir), async () => {
    const state = await readEngineState(dir);
    // Another token is another engine: somebody has cleared away and started afresh already.
    if (state === undefined || state.token === lease.state.token) await clearAway(dir);
  });
}

/** Ends what a crash left running, once a keeper that is just ending has done so. Only within the start lock. */
async function clearAway(dir: string): Promise<void> {
  const keeper = [KEEPER, dir];
  if (!(await waitForEnd(keeper, KEEPER_GRACE_MS))) {
    const ids = (await findProcesses(keeper)).join(', ');
    throw new EngineError(`process ${ids} keeps the engine of ${dir} but does not answer`, {
      advice: 'End it, then run the command again',
    });
  }
  for (const name of ENGINE_NAMES) await endProcesses(engineWords(name, dir), ENGINE_GRACE_MS);
  await removeEngineState(dir);
}

/**
 * Starts a keeper and waits until its engine serves.
 * @returns what to call once a lease is held, since the keeper waits for one until then
 */
async function startSupervisor(dir: string): Promise<() => void> {
  const log = await open(join(dir, 'engine.log'), 'a');
  // In a session of its own, so that no Ctrl+C meant for a command reaches it.
  const keeper = spawn(process.execPath, [KEEPER, dir], {
    cwd: dir,
    detached: true,
    stdio: ['pipe', 'pipe', log.fd],
  });
  const { stdin, stdout } = keeper;
  if (stdin === null || stdout === null) throw new EngineError('the keeper has no pipes');
  const { promise: answer, resolve, reject } = Promise.withResolvers<string>();
  createInterface({ input: stdout }).once('line', resolve);
  keeper.once('error', reject);
  keeper.once('exit', (code, signal) => reject(new Error(`the keeper ended (${signal ?? `exit code ${code}`})`)));
  const release = () => {
    stdin.destroy();
    stdout.destroy();
    keeper.unref();
  };
  try {
    const said = supervisorAnswer.parse(JSON.parse(await answer));
    if (said.started) return release;
    const details = { advice: said.advice };
    throw said.code === 'USAGE' ? new UsageError(said.reason, details) : new EngineError(said.reason, details);
  } catch (error) {
    release();
    if (error instanceof EngineError || error instanceof UsageError) throw error;
    throw new EngineError(`the engine of ${dir} did not start`, { advice: `See ${dir}/engine.log`, cause: error });
  } finally {
    await log.close();
  }
}
