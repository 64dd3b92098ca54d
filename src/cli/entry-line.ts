import type { Value } from '../codec/value.ts';
import { LogfoldError, printable } from '../errors.ts';
import { formatPosition, type Position } from '../ids/position.ts';
import type { BodiesAhead } from '../log/body.ts';
import {
  type ClientMutation,
  type Entry,
  type ReservedTypes,
  type SnapshotStatus,
  snapshotStatus,
} from '../log/entry.ts';
import { formatDate } from '../workers/jobs/report.ts';
import { type Json, jsonFromValue, jsonFromValues } from './json-value.ts';

/** The place of an entry, which `append` ignores. */
interface Placed {
  readonly position: Position;
  /** The count of the application's entries up to and including this one, if it is known. */
  readonly number?: number;
  /** Epoch seconds. */
  readonly time: number;
}

/**
 * An entry as a line of JSON. `append` reads such a line again, except one with an error. A file
 * stays in its log.
 * `start` is the first entry of a segment, which every new segment has.
 */
export type EntryLine = Placed &
  (
    | { readonly op: 'snapshot'; readonly snapshot: SnapshotStatus }
    | { readonly op: 'start'; readonly snapshot: SnapshotStatus }
    | { readonly op: 'segment' }
    | {
        /** After `time`. */
        readonly milliseconds?: number;
        readonly type: string;
        readonly version: number;
        /** Absent if there is none. */
        readonly body?: Json;
        /** The reason if the body cannot be read. */
        readonly error?: { readonly code: string; readonly message: string };
        /** Key of the object with the file of the entry. */
        readonly file?: string;
        readonly metadata?: Json;
        readonly once?: ClientMutation;
      }
  );

/** Makes the line of an entry. A body that cannot be read becomes an error on the line. */
export async function entryLine(
  entry: Entry,
  types: ReservedTypes,
  bodies: Pick<BodiesAhead, 'load'>,
): Promise<EntryLine> {
  const { position, number, created: time, milliseconds, type, version, metadata, once, file } = entry;
  const placed = { position, ...(number !== undefined && { number }), time };
  if (type === types.endSegment) return { ...placed, op: 'segment' };
  if (type === types.snapshot) {
    return { ...placed, op: position.entry === 0 ? 'start' : 'snapshot', snapshot: snapshotStatus(entry) };
  }
  return {
    ...placed,
    ...(milliseconds !== undefined && { milliseconds }),
    type,
    version,
    ...(await readBody(() => bodies.load(entry))),
    ...(file !== undefined && { file }),
    ...(metadata !== undefined && { metadata: jsonFromValues(Object.entries(metadata)) }),
    ...(once !== undefined && { once }),
  };
}

async function readBody(
  read: () => Promise<Value>,
): Promise<{ readonly body?: Json; readonly error?: { readonly code: string; readonly message: string } }> {
  try {
    const body = await read();
    return body === null ? {} : { body: jsonFromValue(body) };
  } catch (error) {
    // One entry must not hide the others.
    if (error instanceof LogfoldError && error.stopsLog) return { error: { code: error.code, message: error.message } };
    throw error;
  }
}

/** A line for people. @param width the most characters; all if undefined */
export function describeEntry(line: EntryLine, width?: number): string {
  const text = `${formatPosition(line.position).padEnd(9)} ${formatDate(line.time)}  ${describeContent(line)}`;
  return width === undefined || text.length <= width ? text : `${text.slice(0, Math.max(1, width - 1))}…`;
}

function describeContent(line: EntryLine): string {
  if ('op' in line) {
    if (line.op === 'segment') return 'End Segment';
    return line.op === 'start' ? 'start of the segment' : `Snapshot, ${line.snapshot}`;
  }
  const { type, version, body, error, file, metadata, once } = line;
  const parts = [`${printable(type)}${version === 1 ? '' : ` v${version}`}`];
  if (body !== undefined) parts.push(JSON.stringify(body));
  if (file !== undefined) parts.push(`file ${file}`);
  if (error !== undefined) parts.push(`CANNOT BE READ: ${printable(error.message)}`);
  if (metadata !== undefined) parts.push(`metadata ${JSON.stringify(metadata)}`);
  if (once !== undefined) parts.push(`once ${JSON.stringify(once)}`);
  return parts.join(' ');
}
