import { ItemInvalidError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { indexOfKey, logOfKey } from '../../mapping/key-pattern.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import type { LogPosition } from '../feed/feed-writer.ts';
import { readKeys, type StreamRecord } from './route-stream-records.ts';

/** Logs whose positions are read at a time. */
const LOGS_AT_A_TIME = 50;

/** The logs of an application's table. */
export interface ItemEnds {
  readonly mapping: SchemaMapping;
  /**
   * The newest entry that exists because the item with this index does. Undefined if the log is not
   * registered and cannot be.
   */
  readonly endAt: (log: LogId, index: number) => Promise<Position | undefined>;
}

/**
 * The newest end of each log with inserted entries among the records. Leaves out items of other
 * programs, and logs with an item that does not fit the mapping: the jobs of such a log report it.
 * @param table undefined if the records are those of logfold's own Entry table
 */
export async function endsOfRecords(
  records: readonly StreamRecord[],
  table: ItemEnds | undefined,
): Promise<LogPosition[]> {
  const inserted = records.filter(({ eventName }) => eventName === 'INSERT');
  return table === undefined ? endsOfKeys(inserted) : endsOfItems(inserted, table);
}

function endsOfKeys(records: readonly StreamRecord[]): LogPosition[] {
  const ends = new Map<LogId, Position>();
  for (const record of records) {
    const place = unlessUnfit(() => readKeys(record));
    if (place === undefined) continue;
    const { log, segment, entry } = place;
    const position = { segment, entry };
    const known = ends.get(log);
    if (known === undefined || comparePositions(known, position) < 0) ends.set(log, position);
  }
  return Array.from(ends, ([log, position]) => ({ log, position }));
}

async function endsOfItems(records: readonly StreamRecord[], { mapping, endAt }: ItemEnds): Promise<LogPosition[]> {
  const newest = new Map<LogId, number>();
  for (const { keys } of records) {
    const log = unlessUnfit(() => logOfKey(mapping, keys));
    const index = log && unlessUnfit(() => indexOfKey(mapping, keys));
    if (log !== undefined && index !== undefined) newest.set(log, Math.max(index, newest.get(log) ?? 0));
  }
  const endOf = async ([log, index]: readonly [LogId, number]): Promise<LogPosition[]> => {
    const position = await endAt(log, index).catch((error: unknown) => ignoreUnfit(error));
    return position === undefined ? [] : [{ log, position }];
  };
  const logs = [...newest];
  const ends: LogPosition[] = [];
  for (let i = 0; i < logs.length; i += LOGS_AT_A_TIME) {
    ends.push(...(await Promise.all(logs.slice(i, i + LOGS_AT_A_TIME).map(endOf))).flat());
  }
  return ends;
}

function unlessUnfit<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    return ignoreUnfit(error);
  }
}

function ignoreUnfit(error: unknown): undefined {
  if (!(error instanceof ItemInvalidError)) throw error;
  return undefined;
}
