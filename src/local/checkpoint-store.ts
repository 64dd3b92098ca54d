import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { translateDiskFull } from '../adapters/filesystem/disk-full.ts';
import { parseJson } from '../codec/json.ts';
import { EngineError } from '../errors.ts';

/** A position in a stream: for each shard, the sequence number of the last record that is done. */
export type StreamPosition = Readonly<Record<string, string>>;

/** Stores the position in one stream. */
export interface CheckpointStore {
  /** The position that was saved last; empty if there is none. */
  load(): Promise<StreamPosition>;
  /** Replaces the position atomically. */
  save(position: StreamPosition): Promise<void>;
}

const schema = z.object({
  streamArn: z.string(),
  position: z.record(z.string(), z.string().regex(/^\d+$/)),
});

/** The position in a named stream. */
export type StreamCheckpoint = Readonly<z.infer<typeof schema>>;

/** The stream that a checkpoint is for: that of the Entry table, or that of a plain table. */
export type CheckpointOf = 'stream' | 'revisions';

function checkpointPath(dir: string, of: CheckpointOf): string {
  return join(dir, `${of}-checkpoint.json`);
}

/**
 * The checkpoint of a data directory; undefined if there is none.
 * @throws EngineError if the file is damaged
 */
export async function readCheckpoint(dir: string, of: CheckpointOf = 'stream'): Promise<StreamCheckpoint | undefined> {
  const path = checkpointPath(dir, of);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return schema.parse(parseJson(text));
  } catch (cause) {
    throw new EngineError(`${path} is damaged`, {
      advice: 'Delete the file: logfold then reads the stream from its beginning, and repeats no finished work',
      cause,
    });
  }
}

/**
 * Stores the position in a file of the data directory and syncs the file to the disk. The position
 * is valid for one stream: a table that is deleted and created again has a new stream, which is
 * read from its beginning.
 */
export class FileCheckpointStore implements CheckpointStore {
  readonly #dir: string;
  readonly #streamArn: string;
  readonly #of: CheckpointOf;

  constructor(dir: string, streamArn: string, of: CheckpointOf = 'stream') {
    this.#dir = dir;
    this.#streamArn = streamArn;
    this.#of = of;
  }

  /** @throws EngineError if the file is damaged */
  async load(): Promise<StreamPosition> {
    const checkpoint = await readCheckpoint(this.#dir, this.#of);
    return checkpoint?.streamArn === this.#streamArn ? checkpoint.position : {};
  }

  /** @throws DiskFullError if the disk takes no more data */
  async save(position: StreamPosition): Promise<void> {
    await this.#save(position).catch((error: unknown) => {
      throw translateDiskFull(error, this.#dir);
    });
  }

  async #save(position: StreamPosition): Promise<void> {
    const path = checkpointPath(this.#dir, this.#of);
    const temporary = `${path}.${process.pid}.tmp`;
    const file = await open(temporary, 'w');
    try {
      await file.writeFile(JSON.stringify({ streamArn: this.#streamArn, position }, undefined, 2));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    const folder = await open(this.#dir, 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}
