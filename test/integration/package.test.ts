import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { json } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import lock from '../../package-lock.json' with { type: 'json' };
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { answerLogRequest } from '../../src/adapters/web/answer-log-request.ts';
import { joinEngine } from '../../src/local/engine.ts';
import { ensureTables } from '../../src/local/tables.ts';
import { findChromium, openPage } from '../support/chromium.ts';
import { codeBlocks } from '../support/code-blocks.ts';
import { importsOf } from '../support/imported-packages.ts';
import { newLogId, unarchived } from '../support/logs.ts';
import { gzippedBytes, loadedFirst } from '../support/page-bundle.ts';
import { startLocalAws } from '../support/stores/fauxqs.ts';
import { ObjectServer } from '../support/stores/object-server.ts';
import { clientConfig, temporaryDirectory } from '../support/stores/shared-engine.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The oldest Node that the package supports, of the oldest line that is still maintained. */
const OLDEST = `${manifest.engines.node.replace('>=', '')}.0`;
/** A Node without Zstandard, which the package refuses. */
const TOO_OLD = '20.20.2';
/** The npm package that holds only the program `node`, for this machine. */
const NODE_PACKAGE = `node-${process.platform}-${process.arch}`;

const run = promisify(execFile);

/** The examples of the guides: names of their files, and their texts. */
const examples = ['README.md', 'docs/library.md'].flatMap((document) =>
  codeBlocks(document, 'ts').map((text, index) => ({ name: `${basename(document, '.md')}-${index + 1}`, text })),
);
/** `documented-page.test.ts` runs the server, which does not end. */
const running = examples.filter(
  ({ text }) => /from 'logfold\/(aws|local|testing)'/.test(text) && !text.includes('createServer'),
);

/** A project outside the repository that has installed the packed package. */
let project: string;
let tarball: string;
/** Directory of other Nodes. */
let nodes: string;

beforeAll(async () => {
  project = await realpath(await mkdtemp(join(tmpdir(), 'logfold-project-')));
  nodes = await realpath(await mkdtemp(join(tmpdir(), 'logfold-nodes-')));
  tarball = await pack();
  await installPackage(tarball);
  await writeFile(join(nodes, 'package.json'), JSON.stringify({ private: true }));
  const wanted = [OLDEST, TOO_OLD].map((version) => `${version}@npm:${NODE_PACKAGE}@${version}`);
  await run('npm', ['install', '--prefer-offline', ...wanted], { cwd: nodes });
});

afterAll(async () => {
  for (const directory of [project, nodes]) await rm(directory, { recursive: true, force: true });
});

/** Builds and packs the package, as for a release. Returns the file. */
async function pack(): Promise<string> {
  await run('npm', ['pack', '--pack-destination', project], { cwd: ROOT });
  return join(project, `logfold-${manifest.version}.tgz`);
}

/**
 * Installs a packed package and the dependencies that it names, in the versions of the lock file.
 * These are in npm's cache, so that the registry is not needed.
 */
async function installPackage(tarball: string, directory = project): Promise<void> {
  const root = { name: 'project', type: 'module', private: true, dependencies: { logfold: `file:${tarball}` } };
  const shipped = Object.entries(lock.packages).filter(([path, each]) => path !== '' && !('dev' in each));
  const { name: _, scripts: __, devDependencies: ___, ...logfold } = { ...manifest, resolved: `file:${tarball}` };
  const packages = { '': root, ...Object.fromEntries(shipped), 'node_modules/logfold': logfold };
  await writeFile(join(directory, 'package.json'), JSON.stringify(root));
  await writeFile(join(directory, 'package-lock.json'), JSON.stringify({ ...root, lockfileVersion: 3, packages }));
  await run('npm', ['ci', '--prefer-offline', '--ignore-scripts'], { cwd: directory });
}

/** Path of a program that runs JavaScript. */
function nodePath(version: string): string {
  return version === process.versions.node ? process.execPath : join(nodes, 'node_modules', version, 'bin/node');
}

/** Checks the TypeScript of a directory strictly. @returns what the compiler complains about */
async function compile(directory: string, options: object): Promise<string> {
  const strict = { strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
  const compilerOptions = { ...strict, skipLibCheck: false, rootDir: '.', ...options };
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  const tsc = run(join(ROOT, 'node_modules/.bin/tsc'), ['--project', directory]);
  const { stdout }: { stdout: string } = await tsc.catch((error) => error);
  return stdout;
}

/** The text of a module of `test/support`, which imports the package instead of its sources. */
async function pageSource(name: string): Promise<string> {
  const source = await readFile(join(ROOT, 'test/programs', `${name}.ts`), 'utf8');
  return source.replace(/'\.\.[\w./]*\/(\w+)\.ts'/g, (_, entry) => `'logfold/${entry}'`.replace('/logfold', ''));
}

const installed = (path = '') => join(project, 'node_modules/logfold', path);

describe('the installed package', () => {
  test('it has the built code and no source, test or program of the repository', async () => {
    const top = ['CHANGELOG.md', 'LICENSE', 'README.md', 'bin', 'dist', 'docs', 'package.json'];
    expect(await readdir(installed())).toEqual(top);
    expect(await readdir(installed('bin'))).toEqual(['logfold.mjs']);
    expect(await readdir(installed('docs'))).toEqual(['commands.md', 'library.md']);
    const files = await readdir(installed('dist'), { recursive: true, withFileTypes: true });
    const others = files.filter((file) => file.isFile() && !/\.(js|d\.ts)$/.test(file.name));
    expect(others.map(({ name }) => name)).toEqual([]);
  });

  test('its errors have the names of their classes', async () => {
    const script = `const all = await import('logfold');
      const errors = Object.entries(all).filter(([, each]) => each.prototype instanceof Error);
      console.log(JSON.stringify(errors.map(([name, each]) => [name, each.name])));`;
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: project });
    const names: [string, string][] = JSON.parse(stdout);
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter(([exported, own]) => exported !== own)).toEqual([]);
  });

  test('it installs neither React nor a package of the Lambda functions', async () => {
    const modules = await readdir(join(project, 'node_modules'));
    expect(modules).toContain('msgpackr');
    expect(modules.filter((name) => /^(react|@aws-lambda-powertools)$/.test(name))).toEqual([]);
  });

  test.each(['logfold', 'collections', 'items', 'spreadsheet', 'react'])(
    'its built entry %s imports no SDK and no module of Node',
    async (name) => {
      const { packages, builtins } = await importsOf(installed(`dist/exports/${name}.js`));
      expect([...builtins, ...packages.filter((each) => /^@(aws|smithy)/.test(each))]).toEqual([]);
    },
  );

  test('its types and the examples of the guides pass the strictest checks', async () => {
    expect(examples.filter(({ text }) => !/from 'logfold/.test(text))).toEqual([]);
    for (const { name, text } of examples) await writeFile(join(project, `${name}.ts`), text);
    const entries = Object.keys(manifest.exports).filter((path) => !path.endsWith('.json'));
    const imports = entries.map((path, index) => `import * as e${index} from '${path.replace('.', 'logfold')}';`);
    const used = `export const entries = [${entries.map((_, index) => `e${index}`).join(', ')}];`;
    await writeFile(join(project, 'entries.ts'), [...imports, used, ''].join('\n'));
    const options = { module: 'nodenext', target: 'es2023', types: ['node'], outDir: 'built' };
    expect(await compile(project, { ...options, typeRoots: [join(ROOT, 'node_modules/@types')] })).toBe('');
  });

  test('its types and those of a reducer pass in a project for browsers without types of Node', async () => {
    const page = join(project, 'page');
    await mkdir(page);
    await writeFile(join(page, 'reducer.ts'), await pageSource('notes-reducer'));
    const names = ['logfold', 'logfold/collections', 'logfold/items', 'logfold/spreadsheet', 'logfold/react'];
    await writeFile(join(page, 'entries.ts'), names.map((name) => `export {} from '${name}';\n`).join(''));
    const lib = ['es2022', 'dom', 'dom.iterable'];
    const options = { module: 'esnext', moduleResolution: 'bundler', target: 'es2022', lib, types: [], noEmit: true };
    expect(await compile(page, options)).toBe('');
  });
});

test('a bundler makes a small page of it without settings, which runs in Chromium', async () => {
  const entry = join(project, 'page.ts');
  await writeFile(entry, await pageSource('page'));
  const { outputFiles, metafile } = await build({
    entryPoints: [entry],
    bundle: true,
    splitting: true,
    format: 'esm',
    minify: true,
    outdir: '/',
    write: false,
    metafile: true,
    logLevel: 'error',
  });
  const inZstd = new Set(
    Object.entries(metafile.outputs)
      .filter(([, { inputs }]) => Object.keys(inputs).some((path) => path.endsWith('platform/zstd.js')))
      .map(([path]) => basename(path)),
  );
  const bytes = (zstd: boolean) => {
    const files = outputFiles.filter(({ path }) => inZstd.has(basename(path)) === zstd);
    return files.reduce((sum, { text }) => sum + gzippedBytes(text), 0);
  };
  const loaded = new Set(Array.from(loadedFirst(metafile), (path) => basename(path)));
  const first = gzippedBytes(outputFiles.map(({ path, text }) => (loaded.has(basename(path)) ? text : '')).join('\n'));
  console.log(`A page has ${bytes(false)} bytes gzipped, ${first} of them at first, and ${bytes(true)} of Zstandard.`);
  const [, stated] =
    /code of a page has about\s(\d+) KB/.exec(await readFile(join(ROOT, 'docs/library.md'), 'utf8')) ?? [];
  expect(Math.abs(Number(stated) * 1000 - first)).toBeLessThan(first / 20);
  expect(bytes(true)).toBeGreaterThan(0);
  // 155,000 if classes that the page does not use stay.
  expect(bytes(false)).toBeLessThan(145_000);

  const chromium = findChromium();
  if (chromium === undefined) return console.log('NOT RUN: the page of the package in Chromium, which is missing.');
  const answered = Promise.withResolvers<unknown>();
  const tables = new MemoryLogStore();
  const server = await ObjectServer.start(new MemoryBlobStore(), async (request, response) => {
    const file = outputFiles.find(({ path }) => basename(path) === basename(request.url ?? ''));
    if (file !== undefined) response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(file.text);
    else if (request.url === '/') response.end('<script type="module" src="/page.js"></script>');
    else if (request.url === '/task') response.end(JSON.stringify({ log: newLogId(), rows: {}, columns: {} }));
    else if (request.url === '/log') {
      const answer = await answerLogRequest({ store: unarchived(tables), tables }, await json(request), {
        allows: () => true,
      });
      response.end(JSON.stringify(answer));
    } else {
      answered.resolve(await json(request));
      response.end();
    }
    return true;
  });
  onTestFinished(() => server.stop());
  const page = openPage(chromium, `${server.origin}/`);
  onTestFinished(() => page.close());
  expect(await Promise.race([answered.promise, page.ended])).toEqual({ failed: 'LOG_NOT_FOUND' });
});

/** The modules that Node loads for an entry of the package, without those of Node itself. */
async function loadedBy(entry: string): Promise<string[]> {
  const script = `import { registerHooks } from 'node:module';
    const urls = new Set();
    registerHooks({ load: (url, context, next) => (urls.add(url), next(url, context)) });
    await import('${entry}');
    console.log(JSON.stringify([...urls].filter((url) => url.startsWith('file:'))));`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: project });
  const urls: string[] = JSON.parse(stdout);
  return urls.map((url) => url.slice(url.indexOf('/node_modules/') + '/node_modules/'.length));
}

describe('importing an entry loads few modules:', () => {
  const packageOf = (file: string) => /^(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? '';
  const CORE = ['@noble/hashes', 'logfold', 'msgpackr', 'p-limit', 'yocto-queue'];

  test.each([
    ['logfold', CORE],
    ['logfold/collections', ['logfold']],
    ['logfold/items', ['@noble/hashes', 'logfold']],
    ['logfold/spreadsheet', ['fractional-indexing', 'logfold']],
  ])('%s', async (entry, packages) => {
    const files = await loadedBy(entry);
    expect([...new Set(files.map(packageOf))].sort()).toEqual(packages);
    // Loading a file takes half a millisecond of processor time.
    expect(files.length).toBeLessThan(40);
    // Readers of workbooks and Zstandard in WebAssembly are loaded when they are needed.
    expect(files.filter((file) => /zstd/.test(file))).toEqual([]);
  });

  test.each(['logfold/aws', 'logfold/local'])('%s', async (entry) => {
    const packages = new Set((await loadedBy(entry)).map(packageOf));
    const ofCommands = ['@commander-js/extra-typings', 'commander', 'cli-progress', 'csv-stringify', 'string-width'];
    expect(ofCommands.filter((name) => packages.has(name))).toEqual([]);
    expect(packages).toContain('@aws-sdk/client-dynamodb');
  });
});

describe('a project that leaves out the optional packages', () => {
  const PREFER_OFFLINE = { npm_config_prefer_offline: 'true', npm_config_ignore_scripts: 'true' };
  let light: string;

  beforeAll(async () => {
    light = await realpath(await mkdtemp(join(tmpdir(), 'logfold-light-')));
    await writeFile(join(light, '.npmrc'), 'omit=optional\n');
    await installPackage(tarball, light);
  });
  afterAll(() => rm(light, { recursive: true, force: true }));

  const evaluate = (script: string, env: Record<string, string> = {}) =>
    run(process.execPath, ['--input-type=module', '-e', script], { cwd: light, env: { ...process.env, ...env } });
  /** Follows advice as it stands. */
  const follow = async (advice: string) => {
    const [, command = ''] = /Run '(npm install [^']+)'/.exec(advice) ?? [];
    expect(command).not.toBe('');
    await run('sh', ['-c', command], { cwd: light, env: { ...process.env, ...PREFER_OFFLINE } });
  };

  test('it has at most 25 MB, and everything for pages', async () => {
    const files = await readdir(join(light, 'node_modules'), { recursive: true, withFileTypes: true });
    const sizes = files.filter((file) => file.isFile()).map((file) => stat(join(file.parentPath, file.name)));
    const bytes = (await Promise.all(sizes)).reduce((sum, { blocks }) => sum + 512 * blocks, 0);
    expect(bytes).toBeLessThan(25e6);
    expect(await readdir(join(light, 'node_modules'))).not.toEqual(expect.arrayContaining(['@aws-sdk']));
    const pages = ['logfold', 'logfold/collections', 'logfold/items', 'logfold/spreadsheet'];
    const script = pages.map((name) => `await import('${name}');`).join('\n');
    await evaluate(`${script} console.log('loaded');`);
  });

  test('it gets an error that names what to install, until it is installed', async () => {
    const opening = (entry: string) =>
      `import('${entry}').then(({ openLogs }) => openLogs({ directory: 'data' }))
        .then((logs) => logs.close()).then(() => console.log('opened'), ({ code, message }) => console.log(code, message));`;
    for (const entry of ['logfold/aws', 'logfold/local']) {
      const { stdout } = await evaluate(opening(entry));
      expect(stdout).toMatch(/^PACKAGE_MISSING the package @aws-sdk\/[a-z0-9-]+ is not installed\. Run 'npm install /);
      expect(stdout).toContain('install without --omit=optional');
    }
    const bin = join(light, 'node_modules/logfold/bin/logfold.mjs');
    const failed = await run(process.execPath, [bin, 'list', '--local', 'data'], { cwd: light }).catch(
      (error) => error,
    );
    expect(failed).toMatchObject({ code: 1, stdout: '' });
    expect(failed.stderr).toMatch(/^logfold: PACKAGE_MISSING: the package @aws-sdk\/.*\n$/);
    await follow(failed.stderr);
    // The clients of AWS are there, the binary is not.
    const create = () =>
      run(process.execPath, [bin, 'create', '--local', 'data'], { cwd: light }).catch((error) => error);
    const { stderr } = await create();
    expect(stderr).toMatch(
      /^logfold: ENGINE_UNAVAILABLE: the package @dynoxide\/[a-z0-9-]+, .* is not installed\. Run 'npm install /,
    );
    const { stdout } = await evaluate(opening('logfold/local'));
    expect(stdout).toMatch(/^ENGINE_UNAVAILABLE the package @dynoxide\//);
    await follow(stderr);
    expect((await create()).stdout).toMatch(/^[0-9a-f-]{36}\n$/);
    expect((await evaluate(opening('logfold/local'))).stdout).toBe('opened\n');
  });
});

test('CommonJS loads logfold/aws without an import that waits', async () => {
  const script = "const { openLogs } = require('logfold/aws'); console.log(typeof openLogs);";
  const { stdout } = await run(process.execPath, ['-e', script], { cwd: project });
  expect(stdout).toBe('function\n');
});

test.each<{ format: 'cjs' | 'esm'; conditions?: string[] }>([
  { format: 'cjs' },
  { format: 'esm' },
  { format: 'esm', conditions: ['node'] },
  { format: 'esm', conditions: ['node', 'import', 'production'] },
])(
  'a bundle for Node ($format, conditions $conditions) has all of logfold/aws, and runs elsewhere',
  async (options) => {
    await writeFile(
      join(project, 'bundled.js'),
      "import { openLogs } from 'logfold/aws';\nconsole.log(typeof openLogs);\n",
    );
    const directory = await temporaryDirectory();
    const outfile = join(directory, options.format === 'esm' ? 'bundle.mjs' : 'bundle.cjs');
    const require = "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);";
    const { metafile } = await build({
      ...options,
      entryPoints: [join(project, 'bundled.js')],
      bundle: true,
      platform: 'node',
      // The SDK has code in CommonJS.
      ...(options.format === 'esm' && { banner: { js: require } }),
      outfile,
      metafile: true,
      logLevel: 'error',
    });
    const inputs = Object.keys(metafile.inputs);
    expect(inputs.some((file) => file.includes('@aws-sdk/client-s3'))).toBe(true);
    expect(inputs.filter((file) => file.includes('installed-'))).toEqual([]);
    expect((await run(process.execPath, [outfile], { cwd: directory })).stdout).toBe('function\n');
  },
);

describe.each([process.versions.node, OLDEST])('on Node %s', (version) => {
  test('this Node is the one that runs', async () => {
    expect((await run(nodePath(version), ['--version'])).stdout).toBe(`v${version}\n`);
  });

  test.each(running)('the example $name prints what its comments say', async ({ name, text }) => {
    const data = await temporaryDirectory();
    const env = /from 'logfold\/aws'/.test(text) ? await awsEnvironment(data) : {};
    const file = join(project, 'built', `${name}.js`);
    const { stdout } = await run(nodePath(version), [file], { cwd: data, env: { PATH: process.env.PATH, ...env } });
    expect(stdout).toBe(printed(text));
  });

  test.each([
    ['README.md', 'Try it yourself', 'equals the stored state at 0/4'],
    ['docs/commands.md', 'Lines of append', '1 check passed'],
  ])('the commands of %s under "%s" can be pasted', async (document, heading, proof) => {
    const data = await temporaryDirectory();
    const logfold = `'${nodePath(version)}' '${installed('bin/logfold.mjs')}'`;
    const [script = ''] = codeBlocks(document, 'sh', heading);
    const env = { PATH: `${dirname(nodePath(version))}:${process.env.PATH}`, HOME: data };
    const pasted = script.replaceAll('npx logfold', logfold);
    const { stdout } = await run('sh', ['-e', '-c', pasted], { cwd: data, env });
    expect(stdout).toContain(proof);
  });
});

test.each(['logfold/aws', 'logfold/local'])('an older Node that imports %s gets an error with advice', async (name) => {
  const script = `import('${name}').catch(({ code, message }) => console.log(code, message));`;
  const { stdout } = await run(nodePath(TOO_OLD), ['--input-type=module', '-e', script], { cwd: project });
  expect(stdout).toBe(`USAGE Node ${TOO_OLD} has no Zstandard. Install Node 22.15 or newer.\n`);
});

test('an older Node gets an error that names the needed version', async () => {
  const starter = await readFile(installed('bin/logfold.mjs'), 'utf8');
  const copy = installed('bin/newer.mjs');
  await writeFile(copy, starter.replace(/isPackage \? '[\d.]+'/, "isPackage ? '99.1'"));
  const failed = await run(process.execPath, [copy, '--help']).catch((error) => error);
  expect(failed).toMatchObject({ code: 1, stdout: '' });
  const message = `logfold needs Node 99.1 or newer, but this is ${process.version}. Install a newer Node.\n`;
  expect(failed.stderr).toBe(message);
  await rm(copy);
});

/** The lines that an example prints, as the comments at its end say: `// prints 0 0 Denver`. */
function printed(text: string): string {
  return Array.from(text.matchAll(/\/\/ prints (.*)$/gm), ([, line]) => `${line}\n`).join('');
}

/** Starts the services of AWS that an example uses. Returns the environment for the example. */
async function awsEnvironment(data: string): Promise<Record<string, string>> {
  const engine = await joinEngine(join(data, 'data'));
  onTestFinished(() => engine.leave());
  const dynamodb = new DynamoDBClient(clientConfig(engine.endpoint));
  onTestFinished(() => dynamodb.destroy());
  await ensureTables(dynamodb, { entryTable: 'Entry', segmentTable: 'Segment' });
  const aws = await startLocalAws();
  onTestFinished(() => aws.stop());
  await aws.s3.send(new CreateBucketCommand({ Bucket: 'my-snapshots' }));
  return {
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_ENDPOINT_URL_DYNAMODB: engine.endpoint,
    AWS_ENDPOINT_URL_S3: aws.server.address,
  };
}
