import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const SMALL_DISK = `--import=${new URL('../programs/small-disk.ts', import.meta.url).href}`;
const CLI = fileURLToPath(new URL('../../bin/logfold.mjs', import.meta.url));

export interface Answer {
  /** Exit code; null if a signal ended the process. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Hides the developer's own AWS settings, and prevents calls to a metadata service. */
const ENVIRONMENT = {
  PATH: process.env.PATH,
  HOME: '/nonexistent',
  TMPDIR: process.env.TMPDIR,
  AWS_EC2_METADATA_DISABLED: 'true',
  // Tests start hundreds of processes. Without the cache, compiling takes half of each process's
  // time.
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/logfold', import.meta.url)),
};

/** The settings of a process. */
interface ProcessOptions {
  /** Its working directory. */
  readonly cwd?: string;
  /** Whether it has no controlling terminal. */
  readonly detached?: boolean;
}

/** Starts the command line in a separate process. */
export function startCli(
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  { cwd, detached = false }: ProcessOptions = {},
): ChildProcess {
  const env = { ...ENVIRONMENT, ...environment };
  return spawn(process.execPath, [CLI, ...words], { env, detached, ...(cwd && { cwd }) });
}

/**
 * Runs a shell line in which `logfold` is the command line. A shell can set file descriptors and
 * limits.
 * @param words the value of `$@` in the line
 */
export async function runShell(line: string, words: readonly string[]): Promise<Answer> {
  const script = `logfold() { NODE_OPTIONS="$SMALL_DISK" "$NODE" "$CLI" "$@"; }; ${line}`;
  const child = spawn('bash', ['-c', script, 'bash', ...words], {
    env: { ...ENVIRONMENT, NODE: process.execPath, CLI, SMALL_DISK },
  });
  return answerOf(child, '');
}

/** Runs the command line until it ends. */
export async function runCli(
  words: readonly string[],
  options: {
    readonly input?: string;
    readonly environment?: Readonly<Record<string, string>>;
  } & ProcessOptions = {},
): Promise<Answer> {
  return answerOf(startCli(words, options.environment, options), options.input ?? '');
}

async function answerOf(child: ChildProcess, input: string): Promise<Answer> {
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (data: Buffer) => {
    output.stdout += data.toString();
  });
  child.stderr?.on('data', (data: Buffer) => {
    output.stderr += data.toString();
  });
  child.stdin?.end(input);
  await once(child, 'close');
  return { code: child.exitCode, signal: child.signalCode, ...output };
}

/** Runs a command that must succeed, and parses the one JSON document that it prints. */
export async function runJson(words: readonly string[], input?: string): Promise<Record<string, unknown>> {
  const answer = await runCli([...words, '--json'], input === undefined ? {} : { input });
  if (answer.code !== 0) throw new Error(`logfold ${words.join(' ')} ended with ${answer.code}: ${answer.stderr}`);
  return JSON.parse(answer.stdout);
}

/** Sends a signal and waits until the process ends. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, 'close');
  child.kill(signal);
  await closed;
}
