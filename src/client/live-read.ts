import { equalBytes } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import { checkValue } from '../codec/value.ts';
import { ChunkMissingError } from '../errors.ts';
import type { Document } from './document.ts';
import type { DocumentState } from './document-state.ts';
import { Listeners, type Observable } from './listeners.ts';

/** The parts of a {@link Document} that a read needs. */
export type LiveDocument = Pick<Document, 'subscribe' | 'getSnapshot' | 'refresh'>;

/** The part of a document that a component shows. The same object until it changes. */
export interface LiveReading<T> {
  /**
   * The newest value; undefined until the first read is done. It stays while a newer one is read,
   * and after an error.
   */
  readonly value: T | undefined;
  /** Why the last read failed; undefined if it did not. A change of the document reads again. */
  readonly error: unknown;
  /** Reads again, for example after an error. */
  readonly retry: () => void;
}

/**
 * A part of a document, read again after each change of the document. Its value stays the same
 * object while its content is the same, so that a change elsewhere in the document renders nothing.
 *
 * After a change, all live reads of one document change together, as soon as the last of them is
 * done: they never show different states.
 */
export class LiveRead<T> implements Observable<LiveReading<T>> {
  readonly #listeners = new Listeners();
  readonly #retry = (): void => this.#followed?.retry();
  readonly #unread: LiveReading<T> = { value: undefined, error: undefined, retry: this.#retry };
  #reading = this.#unread;
  #document: LiveDocument | undefined;
  #source: string | undefined;
  #followed: Followed | undefined;

  /** As {@link Observable.subscribe}. */
  readonly subscribe = (listener: () => void): (() => void) => this.#listeners.add(listener);

  readonly getSnapshot = (): LiveReading<T> => this.#reading;

  /** The reading; without a value if that is from another source of values. */
  of(document: LiveDocument, source: string): LiveReading<T> {
    return this.#document === document && this.#source === source ? this.#reading : this.#unread;
  }

  /**
   * Reads this part of a document from now on, instead of another one. The value of the other part
   * stays until then if both have the same source.
   * @param source a name for parts of a document that can replace each other
   * @returns a function that stops
   */
  follow(document: LiveDocument, source: string, read: (state: DocumentState) => Promise<T>): () => void {
    this.#set(this.of(document, source));
    this.#document = document;
    this.#source = source;
    const show = async (state: DocumentState): Promise<() => void> => {
      const value = await read(state);
      return () => this.#show(value);
    };
    const fail = (error: unknown): void => this.#set({ ...this.#reading, error });
    this.#followed = DocumentReads.of(document).add(show, fail);
    return this.#followed.stop;
  }

  #show(value: T): void {
    const { value: before, error } = this.#reading;
    const isSame = before !== undefined && hasSameContent(before, value);
    if (isSame && error === undefined) return;
    this.#set({ value: isSame ? before : value, error: undefined, retry: this.#retry });
  }

  #set(reading: LiveReading<T>): void {
    if (reading === this.#reading) return;
    this.#reading = reading;
    this.#listeners.call();
  }
}

/** Whether two results of a read consist of the same values. */
function hasSameContent(before: unknown, after: unknown): boolean {
  try {
    checkValue(before);
    checkValue(after);
    return equalBytes(encodeValue(before), encodeValue(after));
  } catch {
    return false;
  }
}

interface Followed {
  readonly retry: () => void;
  readonly stop: () => void;
}

/** Reads a state. Returns the function that shows what was read. */
type ReadPart = (state: DocumentState) => Promise<() => void>;

/** One part that is followed. */
interface FollowedPart {
  readonly read: ReadPart;
  readonly onError: (error: unknown) => void;
  /** The state of the read that is shown, also if that failed. */
  state: DocumentState | undefined;
  /** The numbers of the newest read, and of the one that is shown. */
  reads: number;
  shown: number;
}

/** All live reads of one document. */
class DocumentReads {
  static readonly #known = new WeakMap<LiveDocument, DocumentReads>();
  readonly #document: LiveDocument;
  readonly #parts = new Set<FollowedPart>();
  #unsubscribe: (() => void) | undefined;
  /** The state that the parts show. */
  #shown: DocumentState;
  #isMoving = false;

  private constructor(document: LiveDocument) {
    this.#document = document;
    this.#shown = document.getSnapshot();
  }

  static of(document: LiveDocument): DocumentReads {
    const known = DocumentReads.#known.get(document) ?? new DocumentReads(document);
    DocumentReads.#known.set(document, known);
    return known;
  }

  add(read: ReadPart, onError: (error: unknown) => void): Followed {
    const part: FollowedPart = { read, onError, state: undefined, reads: 0, shown: 0 };
    if (this.#unsubscribe === undefined) {
      this.#shown = this.#document.getSnapshot();
      this.#unsubscribe = this.#document.subscribe(() => void this.#move());
    }
    this.#parts.add(part);
    void this.#join(part);
    const stop = (): void => {
      this.#parts.delete(part);
      // Another part may replace this one, which must not show another state before it is read.
      queueMicrotask(() => this.#rest());
    };
    return { retry: () => void this.#join(part), stop };
  }

  /** Stops listening if no part is followed. */
  #rest(): void {
    if (this.#parts.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  /** Reads a part of the state that the others show. */
  async #join(part: FollowedPart): Promise<void> {
    const state = this.#shown;
    const show = await this.#read(part, state);
    // The others have moved on: the part moves with them.
    if (state === this.#shown) show();
    void this.#move();
  }

  /** Reads all parts until they show the current state. */
  async #move(): Promise<void> {
    if (this.#isMoving) return;
    this.#isMoving = true;
    while (this.#parts.values().some(({ state }) => state !== this.#document.getSnapshot())) {
      const state = this.#document.getSnapshot();
      const shows = new Map<FollowedPart, () => void>();
      // Parts that join meanwhile must not show an older state than the others.
      for (
        let parts = [...this.#parts];
        parts.length > 0;
        parts = [...this.#parts].filter((part) => !shows.has(part))
      ) {
        await Promise.all(parts.map(async (part) => shows.set(part, await this.#read(part, state))));
      }
      this.#shown = state;
      for (const show of shows.values()) show();
    }
    this.#isMoving = false;
  }

  /** Reads a part. Returns the function that shows the result, if the part is still followed. */
  async #read(part: FollowedPart, state: DocumentState): Promise<() => void> {
    const number = ++part.reads;
    const done = (show: () => void) => (): void => {
      // The newest of several reads of one state wins.
      if (!this.#parts.has(part) || (state === part.state && number < part.shown)) return;
      part.state = state;
      part.shown = number;
      show();
    };
    try {
      return done(await part.read(state).catch((error: unknown) => this.#readAgain(part, state, error)));
    } catch (error) {
      return done(() => part.onError(error));
    }
  }

  /** Reads a state again whose chunks a collection removed while the document slept. */
  async #readAgain(part: FollowedPart, state: DocumentState, error: unknown): Promise<() => void> {
    if (!(error instanceof ChunkMissingError)) throw error;
    await this.#document.refresh();
    // A newer state is read soon. Otherwise this state has other chunks now.
    return this.#document.getSnapshot() === state ? part.read(state) : (): void => undefined;
  }
}
