import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { EditedLog } from '../../src/cli/edit-line.ts';
import type { Value } from '../../src/codec/value.ts';
import { type LogId, parseLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { LogClient, type LogClientDeps } from '../../src/log/client.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import type { LogReader, LogStore, TableReader } from '../../src/log/log-store.ts';
import type { FoldEntry } from '../../src/state/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';

export const LOG = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f');

/** The log of a sheet, as the command line needs it to read a file of edits. */
export const EDITED_SHEET: EditedLog = { log: LOG, types: RESERVED_TYPES, reducer: spreadsheet.name };

/** 2024-11-20T12:00:00Z, in epoch seconds. */
export const NOON = 1_732_104_000;

let logs = 0;

/** A log id that is unique in this process. */
export function newLogId(): LogId {
  logs++;
  return parseLogId(`0192f7a0-0000-7000-8000-${String(logs).padStart(12, '0')}`);
}

/** A small entry at a position. */
export function entryAt(log: LogId, position: Position, overrides: Partial<Entry> = {}): Entry {
  const body = { format: 'bytes', bytes: Uint8Array.of(0x93, position.entry % 128, 2, 3) } as const;
  return { log, position, created: NOON, type: 'Set', version: 1, body, ...overrides };
}

/** The entry of {@link LOG} at `0/ENTRY`, one second after 1970 began, as a reducer gets it. */
export function foldEntryAt(entry: number, type: string, body: Value): FoldEntry {
  return { position: { segment: 0, entry }, log: LOG, created: 1, createdMs: 1000, type, version: 1, body };
}

/**
 * Faults that another program may write into an entry's item, each with the type that the item
 * still has.
 */
export const MALFORMED = [
  ['no version', 'Set'],
  ['a time that is not an integer', 'Set'],
  ['a time before 1970', 'Set'],
  ['two bodies', 'Set'],
  ['a foreign attribute', 'Set'],
  ['no type', undefined],
  ['an empty type', undefined],
  ['a type that is not text', undefined],
] as const;

/** An entry's item with a fault. */
export function malformedItem(log: LogId, position: Position, fault: (typeof MALFORMED)[number][0]): Item {
  const { V: _, T: __, ...item } = encodeEntry(entryAt(log, position));
  const whole: Item = { ...item, T: { S: 'Set' }, V: { N: '1' } };
  switch (fault) {
    case 'no version':
      return { ...item, T: { S: 'Set' } };
    case 'a time that is not an integer':
      return { ...whole, C: { S: 'yesterday' } };
    case 'a time before 1970':
      return { ...whole, C: { N: '-86400' } };
    case 'two bodies':
      return { ...whole, E: { S: 'logs/somewhere/else' } };
    case 'a foreign attribute':
      return { ...whole, other: { S: 'theirs' } };
    case 'no type':
      return { ...item, V: { N: '1' } };
    case 'an empty type':
      return { ...whole, T: { S: '' } };
    case 'a type that is not text':
      return { ...whole, T: { N: '5' } };
  }
}

export interface TestClient {
  readonly client: LogClient;
  readonly store: LogStore;
  readonly blobs: MemoryBlobStore;
  /** Names of the called methods, in order. Clear it with `length = 0`. */
  readonly requests: string[];
  readonly clock: { ms: number };
}

/** A reader of a log without archived segments. */
export function unarchived(tables: TableReader): LogReader {
  return {
    reads: 'tables and archives',
    newestSegments: (log, limit, consistency) => tables.newestSegments(log, limit, consistency),
    getSegment: (log, segment, consistency) => tables.getSegment(log, segment, consistency),
    segments: (log, consistency) => tables.segments(log, consistency),
    allSegments: (part, onInvalid) => tables.allSegments(part, onInvalid),
    newestEntry: (log, segment, consistency) => tables.newestEntry(log, segment, consistency),
    getEntry: (log, position, consistency) => tables.getEntry(log, position, consistency),
    entries: (log, range, consistency) => tables.entries(log, range, consistency),
    items: (log, range, consistency) => tables.items(log, range, consistency),
  };
}

/** A client on a memory store (or another store) with a separate clock and without waiting. */
export function testLogClient({
  store: tables = new MemoryLogStore(),
  ...deps
}: Partial<Omit<LogClientDeps, 'store' | 'tables'>> & { readonly store?: LogStore } = {}): TestClient {
  const requests: string[] = [];
  const clock = { ms: NOON * 1000 };
  const blobs = new MemoryBlobStore();
  const store = recordRequests(tables, requests);
  const client = new LogClient({
    blobs,
    now: () => clock.ms,
    random: Math.random,
    // Wait one iteration of the event loop, so that competing clients interleave.
    sleep: () => new Promise((resolve) => setImmediate(resolve)),
    newLogId,
    ...deps,
    store: unarchived(store),
    tables: store,
  });
  return { client, store, blobs, requests, clock };
}

/** The same store. The name of each called method is appended to `requests`. */
export function recordRequests(store: LogStore, requests: string[]): LogStore {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]): unknown => {
        if (name !== 'isRetryable') requests.push(String(name));
        return Reflect.apply(member, target, args);
      };
    },
  });
}

/** All entries of all pages. */
export async function allEntries(pages: AsyncIterable<readonly Entry[]>): Promise<Entry[]> {
  const all: Entry[] = [];
  for await (const page of pages) all.push(...page);
  return all;
}
