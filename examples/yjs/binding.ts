/** Keeps a Y.Doc and a document of logfold in step. README.md says how to use it. */
import type { Document, DocumentState } from 'logfold';
import * as Y from 'yjs';
import { TIERS, UPDATE, updatesIn } from './reducer.ts';

/**
 * Loads a document into a Y.Doc, and keeps both in step until `stop` is called. The log gets what
 * the Y.Doc had before.
 * @param onError gets what prevents an update from being read or stored
 * @throws the error of the document if it cannot be loaded; then nothing is bound
 */
export async function bind(document: Document, doc: Y.Doc, onError: (error: unknown) => void) {
  let shown: DocumentState | undefined;
  const show = async (): Promise<void> => {
    const { state } = document;
    if (state === shown) return;
    // An update that the Y.Doc has already changes nothing, so a tier may be read again.
    for await (const update of changedUpdates(shown, state)) Y.applyUpdate(doc, update, document);
    shown = state;
  };
  let storing: Promise<unknown> = Promise.resolve();
  const send = (update: Uint8Array, origin?: unknown): void => {
    if (origin === document) return;
    const sent = document.mutate({ type: UPDATE, version: 1, body: update }).then(() => undefined, onError);
    storing = Promise.all([storing, sent]);
  };
  // Both listen before the first wait, so that they miss nothing.
  const given = Y.encodeStateAsUpdate(doc);
  doc.on('update', send);
  const loading = show();
  let showing = loading.catch(() => undefined);
  const showNext = (): Promise<void> => {
    showing = showing.then(show).catch(onError);
    return showing;
  };
  const unsubscribe = document.subscribe(showNext);
  const stop = (): void => {
    doc.off('update', send);
    unsubscribe();
  };
  try {
    await loading;
    await sendMissing(document.state, given, send);
  } catch (error) {
    stop();
    throw error;
  }
  return {
    /** Resolves after the log has each update of the Y.Doc, except those that `onError` got. */
    stored: () => storing,
    /** Resolves after the Y.Doc has what the document shows now. */
    shown: showNext,
    stop,
  };
}

/** Sends the part of an update that a state lacks. */
async function sendMissing(state: DocumentState, given: Uint8Array, send: (update: Uint8Array) => void) {
  const log = new Y.Doc();
  if (given.length <= Y.encodeStateAsUpdate(log).length) return; // The usual case: an empty Y.Doc.
  for await (const update of changedUpdates(undefined, state)) Y.applyUpdate(log, update);
  // Yjs calls the listener only if something is new.
  log.on('update', send);
  Y.applyUpdate(log, given);
  log.destroy();
}

/** The updates of the tiers that differ; of all tiers if no state was shown before. */
async function* changedUpdates(before: DocumentState | undefined, now: DocumentState): AsyncGenerator<Uint8Array> {
  if (before === undefined) {
    // The oldest tier first: the others depend on it.
    const tiers = await Array.fromAsync(now.map(TIERS).range());
    for (const { value } of tiers.reverse()) yield* updatesIn(value);
    return;
  }
  const changes = await Array.fromAsync(before.diff(now));
  for (const change of changes.reverse()) {
    if (change.kind === 'item' && change.map === TIERS) yield* updatesIn(change.after);
  }
}
