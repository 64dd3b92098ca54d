import { spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** Programs of Debian's packages chromium and chromium-headless-shell, and of other systems. */
const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

/** The path of a Chromium on this machine; `LOGFOLD_CHROMIUM` names another one. */
export function findChromium(): string | undefined {
  const named = process.env.LOGFOLD_CHROMIUM;
  if (named !== undefined && named !== '') return named;
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface OpenPage {
  /** Rejects if Chromium ends by itself. */
  readonly ended: Promise<never>;
  close(): Promise<void>;
}

/** Opens a page in a headless Chromium with an empty profile. */
export function openPage(chromium: string, url: string): OpenPage {
  const profile = mkdtempSync(join(tmpdir(), 'logfold-chromium-'));
  // Root has no sandbox. The port keeps the page open; nothing connects to it.
  const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const flags = ['--headless', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', ...sandbox];
  const child = spawn(chromium, [...flags, '--remote-debugging-port=0', `--user-data-dir=${profile}`, url], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // Debian's program is a script that starts the browser. The group has both.
    detached: true,
  });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said = (said + data.toString()).slice(-4000);
  });
  const exited = new Promise<number | null>((resolve, reject) => {
    // Then all processes of the group have closed their outputs, not only the first one.
    child.once('close', resolve);
    child.once('error', reject);
  });
  const ended = exited.then((code) => {
    throw new Error(`${chromium} ended with exit code ${code}: ${said}`);
  });
  // A test that waits for the page gets the error. Until then it must not count as unhandled.
  ended.catch(() => undefined);
  return {
    ended,
    async close() {
      const runs = child.exitCode === null && child.signalCode === null;
      if (runs && child.pid !== undefined) process.kill(-child.pid);
      await exited.catch(() => undefined);
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
