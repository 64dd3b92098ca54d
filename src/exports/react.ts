/** The package `logfold/react`: a hook for React, which the application installs. */
import { useCallback, useSyncExternalStore } from 'react';

/** A document, or a part of one, that changes over time. */
export interface Observable<T> {
  /**
   * Calls the listener after each change.
   * @returns a function that ends the calls
   */
  subscribe(listener: () => void): () => void;
  /** The present value: the same object until the next change. */
  getSnapshot(): T;
}

/** The present value of a document. The component renders again when the value changes. */
export function useDocument<T>(document: Observable<T>): T {
  const subscribe = useCallback((listener: () => void) => document.subscribe(listener), [document]);
  const getSnapshot = useCallback(() => document.getSnapshot(), [document]);
  return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
}
