/** Aggregates of Castore from snapshots. README.md says how to use it. */
import type * as castore from '@castore/core';
import { type Logs, type Reducer, toValue } from 'logfold';
import { claimed, LISTED, logOf, readEvents, type Stored, unless } from './event-storage.ts';

type Newest = { readonly aggregate?: never; readonly lastEvent?: never };

/** Folds aggregates as their event stores do, and lists them. The pipeline has the same reducer. */
export function castoreReducer(name: string, version: number, stores: readonly unknown[]): Reducer {
  const fold: Reducer['fold'] = async (draft, { type, body }) => {
    const { eventStoreId, event } = claimed<Stored>(body);
    const { aggregateId, timestamp: initialEventTimestamp } = event;
    const map = draft.map('castore', 'string');
    if (type === LISTED) {
      return map.put(`${initialEventTimestamp}#${aggregateId}`, { aggregateId, initialEventTimestamp });
    }
    const store = claimed<castore.EventStore[]>(stores).find((each) => each.eventStoreId === eventStoreId);
    if (store === undefined) throw new Error(`the reducer has no event store '${eventStoreId}'`);
    const { aggregate } = claimed<Newest>((await map.get('newest')) ?? {});
    map.put('newest', toValue({ aggregate: store.reducer(claimed(aggregate), claimed(event)), lastEvent: event }));
  };
  return { name, version, fold };
}

/** Lets event stores read aggregates from the newest snapshot and the events since. */
export function attachSnapshots(logs: Logs, reducer: Reducer, stores: readonly unknown[]): void {
  for (const store of claimed<castore.EventStore[]>(stores)) {
    store.getAggregate = async (aggregateId, { maxVersion = Number.POSITIVE_INFINITY } = {}) => {
      const log = logOf(store.eventStoreId, aggregateId);
      const document = await logs.open(log, { reducer }).catch(unless('LOG_NOT_FOUND'));
      const to = maxVersion < (document?.number ?? 0) ? { number: maxVersion + 1 } : 'end';
      const state = to === 'end' ? document : await document?.at(to);
      document?.close();
      const { aggregate, lastEvent } = claimed<Newest>((await state?.map('castore').get('newest')) ?? {});
      const events = await readEvents(logs, log, { from: state?.snapshot ?? 'start', to });
      return { aggregate: claimed(aggregate), lastEvent: claimed(lastEvent), events };
    };
  }
}
