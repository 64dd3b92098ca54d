/** The package `logfold/react`: hooks for React, which the application installs. */
import { useCallback, useEffect, useState, useSyncExternalStore } from 'react';
import type { DocumentState } from '../client/document-state.ts';
import type { Observable } from '../client/listeners.ts';
import { type LiveDocument, LiveRead, type LiveReading } from '../client/live-read.ts';
import type { Value } from '../codec/value.ts';
import type { Rectangle } from '../state/spreadsheet/sheet.ts';
import type { LimitedRange, MapItem } from '../tree/read.ts';

export type { Observable } from '../client/listeners.ts';
export type { LiveDocument, LiveReading } from '../client/live-read.ts';

/** The cells of a rectangle. */
export interface View {
  /** The rectangle that was read. */
  readonly rectangle: Rectangle;
  /** Row by row; null for an empty cell. */
  readonly cells: readonly (readonly Value[])[];
}

/**
 * The current value of a document, or of one of its observables such as `document.pendingList`. The
 * component renders again when the value changes.
 */
export function useDocument<T>(document: Observable<T>): T {
  const subscribe = useCallback((listener: () => void) => document.subscribe(listener), [document]);
  const getSnapshot = useCallback(() => document.getSnapshot(), [document]);
  return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
}

/**
 * The cells of a rectangle of a sheet. They are read when the component is shown, and after changes
 * of the document; the component renders again only if a cell of the rectangle changed. While
 * another rectangle is read, the value is the old one: `value.rectangle` says which.
 *
 * The hook does not suspend, because React shows the fallback of a suspended component again after
 * each change of an external store. An error is a field: throw it to show an error boundary.
 */
export function useView(document: LiveDocument, rectangle: Rectangle): LiveReading<View> {
  const key = JSON.stringify([rectangle]);
  return usePart(document, { source: 'view', key }, async (state) => ({
    rectangle,
    cells: await state.view(rectangle),
  }));
}

/**
 * The items of a map in order of key, or of a range of keys. As {@link useView}: read after changes
 * of the document, and rendered again only if an item of the range changed. Give large maps a
 * `limit`.
 */
export function useMap(
  document: LiveDocument,
  name: string,
  range: LimitedRange = {},
): LiveReading<readonly MapItem[]> {
  const key = JSON.stringify([range]);
  return usePart(document, { source: `map ${name}`, key }, async (state) =>
    Array.fromAsync(state.map(name).range(range)),
  );
}

/**
 * Anything that can be read of a state, such as the items of a collection. As {@link useView}, but
 * there is no value while another key is read. If the result is a value that logs can store, the
 * component renders again only if it changed.
 * @param key names what is read: a `read` that reads something else has another key
 */
export function useRead<T>(
  document: LiveDocument,
  key: string,
  read: (state: DocumentState) => Promise<T>,
): LiveReading<T> {
  return usePart(document, { source: `read ${key}`, key }, read);
}

interface PartName {
  readonly source: string;
  readonly key: string;
}

function usePart<T>(
  document: LiveDocument,
  { source, key }: PartName,
  read: (state: DocumentState) => Promise<T>,
): LiveReading<T> {
  const [live] = useState(() => new LiveRead<T>());
  // biome-ignore lint/correctness/useExhaustiveDependencies: each rendering makes another `read`, and the key names it
  useEffect(() => live.follow(document, source, read), [live, document, source, key]);
  useSyncExternalStore(live.subscribe, live.getSnapshot, live.getSnapshot);
  return live.of(document, source);
}
