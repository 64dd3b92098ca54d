/** The package `logfold/react`: a hook for React, which the application installs. */
import { useCallback, useSyncExternalStore } from 'react';
import type { Observable } from '../client/listeners.ts';

export type { Observable } from '../client/listeners.ts';

/**
 * The current value of a document, or of one of its observables such as `document.pendingList`. The
 * component renders again when the value changes.
 */
export function useDocument<T>(document: Observable<T>): T {
  const subscribe = useCallback((listener: () => void) => document.subscribe(listener), [document]);
  const getSnapshot = useCallback(() => document.getSnapshot(), [document]);
  return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
}
