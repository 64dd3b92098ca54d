import { UsageError } from '../errors.ts';

/** A value that changes over time, such as a document. */
export interface Observable<T> {
  /**
   * Calls the listener after each change. An error that a listener throws becomes an uncaught error
   * of the process or page; it disturbs neither the observable nor other listeners.
   * @returns a function that ends the calls
   * @throws UsageError if the listener is not a function
   */
  subscribe(listener: () => void): () => void;
  /** The current value: the same object until the next change. */
  getSnapshot(): T;
}

/** Functions to call after each change. */
export class Listeners {
  readonly #listeners = new Set<() => void>();

  /** Adds a listener. As {@link Observable.subscribe}. */
  add(listener: () => void): () => void {
    checkFunction('listener', listener);
    const own = (): void => listener();
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  get isEmpty(): boolean {
    return this.#listeners.size === 0;
  }

  call(): void {
    for (const listener of [...this.#listeners]) callSafely(listener);
  }

  clear(): void {
    this.#listeners.clear();
  }
}

/**
 * Checks that a value of an application is a function.
 * @throws UsageError if the value is not a function
 */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw new UsageError(`the ${name} is not a function, but ${String(value)}`);
}

/** Calls a function of the application. An error that it throws becomes an uncaught error. */
export function callSafely(run: () => void): void {
  try {
    run();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
