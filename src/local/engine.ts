import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, realpath, rmdir } from 'node:fs/promises';
import { dirname, extname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { translateDiskFull } from '../adapters/filesystem/disk-full.ts';
import { withFileLock } from '../adapters/filesystem/file-lock.ts';
import { parseJson } from '../codec/json.ts';
import {
  DiskFullError,
  EngineError,
  isLogfoldError,
  ResourceMissingError,
  shellWord,
  textOf,
  UsageError,
} from '../errors.ts';
import { ENGINE_NAMES, engineArguments, hasData } from './engine-program.ts';
import { readEngineState, removeEngineState } from './engine-state.ts';
import { Lease } from './lease.ts';
import { endProcesses, findProcesses, waitForEnd } from './processes.ts';

/** The built package has JavaScript, the repository has TypeScript. */
const SUPERVISOR = fileURLToPath(new URL(`../local/supervisor${extname(import.meta.url)}`, import.meta.url));
/** How long a supervisor may take to stop its engine and end, in milliseconds. */
const SUPERVISOR_GRACE_MS = 15_000;
const ENGINE_GRACE_MS = 5_000;

/** The only line that a supervisor prints. */
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
  /** Aborted with an EngineError if the engine ends before `leave`. */
  readonly lost: AbortSignal;
  /**
   * Stops using the engine. Resolves when the engine has stopped, or other processes still use it.
   * Another call does nothing.
   */
  leave(): Promise<void>;
}

/**
 * Joins the running engine of a data directory, or starts the engine. Several processes can share a
 * directory. Each process, the supervisor and the engine may be killed at any time: the next join
 * or leave cleans up. Data and `engine.log` stay in the directory. If the environment sets
 * DYNAMODB_ENDPOINT, this uses that endpoint and starts nothing.
 * @param options `creates`: whether to start an engine for a directory without data, true by
 *   default
 * @throws ResourceMissingError if the directory has no data and `creates` is false
 * @throws EngineError if the engine does not start
 * @throws UsageError if DYNAMODB_ENDPOINT or LOGFOLD_ENGINE is invalid, or the directory cannot be
 *   created or written to
 */
export async function joinEngine(
  dir: string,
  { creates = true }: { readonly creates?: boolean } = {},
): Promise<Engine> {
  const given = givenEndpoint();
  if (given !== undefined) return { endpoint: given, lost: new AbortController().signal, leave: async () => {} };
  if (!creates && !hasData(dir)) {
    throw new ResourceMissingError(`'${dir}' is not a data directory of logfold`, {
      advice: 'Check the name, or create a log there with the create command',
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
 * The value of DYNAMODB_ENDPOINT; undefined if it is not set.
 * @throws UsageError if DYNAMODB_ENDPOINT is not a URL
 */
export function givenEndpoint(): string | undefined {
  const endpoint = process.env.DYNAMODB_ENDPOINT;
  if (endpoint === undefined || endpoint === '') return undefined;
  if (z.url({ protocol: /^https?$/ }).safeParse(endpoint).success) return endpoint;
  throw new UsageError(`DYNAMODB_ENDPOINT is '${endpoint}', which is not a URL`, {
    advice: "Set it to a URL: 'http://127.0.0.1:8000'",
  });
}

async function dataDirectory(dir: string): Promise<string> {
  try {
    await makeDirectory(resolve(dir));
    // A check of permissions is not enough: on a read-only file system the superuser has them all.
    await rmdir(await mkdtemp(join(dir, '.writable-')));
    return await realpath(dir);
  } catch (cause) {
    if (hasData(dir)) throw notWritable(dir, cause);
    throw new UsageError(`'${dir}' cannot be a data directory: ${textOf(cause)}`, {
      advice: 'Choose a directory that you can create or write to',
      cause,
    });
  }
}

/** The error for a directory that has data, such as a backup on a read-only disk. */
function notWritable(dir: string, cause: unknown): unknown {
  if (cause instanceof Error && 'code' in cause && cause.code === 'ENOSPC') return translateDiskFull(cause, dir);
  return new UsageError(`the engine cannot write to '${dir}', which it also does to read: ${textOf(cause)}`, {
    advice: `Copy the directory first: cp -R ${shellWord(dir)} copy && chmod -R u+w copy; then give --local copy`,
    cause,
  });
}

/**
 * Creates each missing level. The recursive `mkdir` of Node 24 never ends for a path below /proc.
 */
async function makeDirectory(path: string): Promise<void> {
  if (existsSync(path)) return;
  if (dirname(path) !== path) await makeDirectory(dirname(path));
  await mkdir(path).catch((error: unknown) => {
    // Another process was faster.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  });
}

/** The lock for the start of an engine and the cleanup after a crash. */
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
  await cleanUp(dir);
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
    // With another token, another process has cleaned up already and started a new engine.
    if (state === undefined || state.token === lease.state.token) await cleanUp(dir);
  });
}

/**
 * Waits for a supervisor that is ending, then ends an orphaned engine. Call it with the start lock
 * held.
 */
async function cleanUp(dir: string): Promise<void> {
  const supervisor = [SUPERVISOR, dir];
  if (!(await waitForEnd(supervisor, SUPERVISOR_GRACE_MS))) {
    const ids = (await findProcesses(supervisor)).join(', ');
    throw new EngineError(`process ${ids} supervises the engine of ${dir} but does not answer`, {
      advice: 'End that process, then run the command again',
    });
  }
  for (const name of ENGINE_NAMES) await endProcesses(engineArguments(name, dir), ENGINE_GRACE_MS);
  await removeEngineState(dir);
}

/**
 * Starts a supervisor and waits until its engine serves.
 * @returns a function to call when this process holds a lease; the supervisor waits for it
 */
async function startSupervisor(dir: string): Promise<() => void> {
  const log = await open(join(dir, 'engine.log'), 'a');
  // A detached process has its own session: Ctrl+C in a command does not reach it.
  const supervisor = spawn(process.execPath, [SUPERVISOR, dir], {
    cwd: dir,
    detached: true,
    stdio: ['pipe', 'pipe', log.fd],
  });
  const { stdin, stdout } = supervisor;
  if (stdin === null || stdout === null) throw new EngineError('the supervisor has no pipes');
  const { promise: answer, resolve, reject } = Promise.withResolvers<string>();
  createInterface({ input: stdout }).once('line', resolve);
  supervisor.once('error', reject);
  supervisor.once('exit', (code, signal) =>
    reject(new Error(`the supervisor ended (${signal ?? `exit code ${code}`})`)),
  );
  const release = () => {
    stdin.destroy();
    stdout.destroy();
    supervisor.unref();
  };
  try {
    const outcome = supervisorAnswer.parse(parseJson(await answer));
    if (outcome.started) return release;
    const { code, reason, advice } = outcome;
    if (code === 'DISK_FULL') throw new DiskFullError(reason, { advice });
    throw code === 'USAGE' ? new UsageError(reason, { advice }) : new EngineError(reason, { advice });
  } catch (error) {
    release();
    if (isLogfoldError(error)) throw error;
    throw new EngineError(`the engine of ${dir} did not start`, { advice: `See ${dir}/engine.log`, cause: error });
  } finally {
    await log.close();
  }
}
