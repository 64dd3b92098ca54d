/** Castore's event storage on logs. README.md says how to use it. */
import * as castore from '@castore/core';
import type { LogId, Logs, QueryRange, Reducer } from 'logfold';
import { EntryExistsError, isLogfoldError, parseJson, parseLogId, toValue } from 'logfold';

export type Stored = castore.EventStoreContext & { readonly event: castore.EventDetail };
type Pushed = castore.EventStoreContext & { readonly event: castore.OptionalTimestamp<castore.EventDetail> };
type Listing = castore.ListAggregateIdsOptions & { readonly last?: string };

/** The log of an aggregate; without its id, the log that lists the aggregates of a store. */
export const logOf = (eventStoreId: string, ...aggregateId: string[]) =>
  parseLogId(['castore', encodeURIComponent(eventStoreId), ...aggregateId].join('/'));
export const LISTED = 'castore:listed';
/** The types of events and aggregates are the caller's word, as in every adapter of Castore. */
export const claimed = <T = never>(value: unknown): T => value as T;
export const unless =
  (...codes: string[]) =>
  (error: unknown) => {
    if (!isLogfoldError(error) || !codes.includes(error.code)) throw error;
  };
export async function readEvents({ client }: Logs, log: LogId, range: QueryRange): Promise<castore.EventDetail[]> {
  const events = Array.fromAsync(client.read(log, range), ({ body }) => claimed<Stored>(body).event);
  return (await events.catch(unless('LOG_NOT_FOUND', 'ENTRY_NOT_FOUND'))) ?? [];
}

/** @param reducer the one of `snapshots.ts`, which lists aggregates */
export function logfoldEventStorage(logs: Logs, reducer: Reducer): castore.EventStorageAdapter {
  async function push(given: readonly Pushed[], force = false): Promise<{ event: castore.EventDetail }[]> {
    if (force) throw new Error('a log keeps every event: push another one instead of `force`');
    const timestamp = new Date().toISOString();
    const pushed = given.map(({ event, eventStoreId }) => ({ eventStoreId, event: { timestamp, ...event } }));
    const writes = pushed.flatMap(({ event, eventStoreId }) => {
      const { type, aggregateId, version } = event;
      const entry = { type, version: 1, body: toValue({ eventStoreId, event }) };
      const own = { log: logOf(eventStoreId, aggregateId), after: { number: version - 1 }, entry };
      const body = { eventStoreId, event: { aggregateId, timestamp: event.timestamp } };
      const listed = { log: logOf(eventStoreId), after: undefined, entry: { type: LISTED, version: 1, body } };
      return version === 1 ? [own, listed] : [own];
    });
    const byLog = Map.groupBy(writes, ({ log }) => log);
    const appends = Array.from(byLog, ([log, own]) => {
      const start = own[0]?.after?.number ?? 0;
      const isDense = own.every(({ after }, i) => after === undefined || after.number === start + i);
      if (!isDense) throw new Error('the versions of an aggregate in a group have a gap, or repeat');
      return { log, entries: own.map(({ entry }) => entry), after: own[0]?.after };
    });
    const isNew = pushed.some(({ event }) => event.version === 1);
    for (const { log } of isNew ? appends : []) await logs.create(log, { ifMissing: true });
    await logs.client.transact(appends).catch((error: unknown) => {
      if (!(error instanceof EntryExistsError)) throw error;
      const taken = pushed.find(({ event, eventStoreId: id }) => logOf(id, event.aggregateId) === error.log);
      const details = { ...taken?.event, ...taken, code: castore.eventAlreadyExistsErrorCode };
      throw Object.assign(new Error(error.message, { cause: error }), details);
    });
    return pushed.map(({ event }) => ({ event }));
  }
  const adapter: castore.EventStorageAdapter = {
    pushEvent: async (event, { eventStoreId, force }) => claimed((await push([{ event, eventStoreId }], force))[0]),
    async pushEventGroup({ force }, ...group) {
      const given = group.map(({ event, context }) => ({ event, ...claimed<castore.EventStoreContext>(context) }));
      return { eventGroup: await push(given, force) };
    },
    groupEvent: (event) => new castore.GroupedEvent({ event, eventStorageAdapter: adapter }),
    async getEvents(aggregateId, { eventStoreId }, { minVersion = 1, maxVersion, limit, reverse = false } = {}) {
      if (limit === 0 || (maxVersion ?? minVersion) < minVersion) return { events: [] };
      const to = maxVersion === undefined ? undefined : { number: maxVersion + 1 };
      const range = { from: { number: Math.max(minVersion, 1) }, to, reverse, limit };
      return { events: await readEvents(logs, logOf(eventStoreId, aggregateId), range) };
    },
    async listAggregateIds({ eventStoreId }, { pageToken = '{}', ...given } = {}) {
      const options: Listing = { ...claimed<Listing>(parseJson(pageToken)), ...given };
      const { limit = Number.POSITIVE_INFINITY, initialEventAfter, initialEventBefore, reverse, last } = options;
      const document = await logs.open(logOf(eventStoreId), { reducer }).catch(unless('LOG_NOT_FOUND'));
      const range = { from: initialEventAfter, to: initialEventBefore && `${initialEventBefore}$` };
      const listed = await Array.fromAsync(document?.map('castore').range(range) ?? []);
      document?.close();
      if (reverse) listed.reverse();
      const found = listed.slice(listed.findIndex(({ key }) => key === last) + 1);
      const nextPageToken = JSON.stringify({ ...options, last: found[limit - 1]?.key });
      const aggregateIds = found.slice(0, limit).map(({ value }) => claimed(value));
      return { aggregateIds, ...(found.length > limit && { nextPageToken }) };
    },
  };
  return adapter;
}
