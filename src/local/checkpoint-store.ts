import { open, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { EngineError } from '../errors.ts';

/** How far a stream has been read: for each shard the sequence number of the last record that is done with. */
export type StreamPosition = Readonly<Record<string, string>>;

/** Remembers how far one stream has been read. */
export interface CheckpointStore {
  /** What was saved last; empty where nothing was. */
  load(): Promise<StreamPosition>;
  /** Replaces what is remembered, wholly or not at all. */
  save(position: StreamPosition): Promise<void>;
}

const schema = z.object({
  streamArn: z.string(),
  position: z.record(z.string(), z.string().regex(/^\d+$/)),
});

/** How far which stream has been read. */
export type StreamCheckpoint = Readonly<z.infer<typeof schema>>;

/** Where the checkpoint of a data directory lies. */
export function checkpointPath(dir: string): string {
  return join(dir, 'stream-checkpoint.json');
}

/**
 * What was saved last, whatever stream it is of; undefined if nothing was.
 * @throws EngineError if the file is not what `save` wrote
 */
export async function readCheckpoint(path: string): Promise<StreamCheckpoint | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new EngineError(`${path} is damaged`, {
      advice: 'Delete it: the stream is then read from its beginning, and work that is done already is not redone',
      cause,
    });
  }
}

/**
 * Remembers a stream's position in a file, synced to the disk. It counts for this very stream only: a table that was
 * deleted and created again has another one, which is read from its beginning.
 */
export class FileCheckpointStore implements CheckpointStore {
  readonly #path: string;
  readonly #streamArn: string;

  constructor(path: string, streamArn: string) {
    this.#path = path;
    this.#streamArn = streamArn;
  }

  /** @throws EngineError where the file is there but not what `save` wrote */
  async load(): Promise<StreamPosition> {
    const checkpoint = await readCheckpoint(this.#path);
    return checkpoint?.streamArn === this.#streamArn ? checkpoint.position : {};
  }

  async save(position: StreamPosition): Promise<void> {
    const temporary = `${this.#path}.${process.pid}.tmp`;
    const file = await open(temporary, 'w');
    try {
      await file.writeFile(JSON.stringify({ streamArn: this.#streamArn, position }, undefined, 2));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, this.#path);
    const folder = await open(dirname(this.#path), 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}
