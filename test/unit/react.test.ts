import { createElement } from 'react';
import { act, create, type ReactTestRenderer } from 'react-test-renderer';
import { expect, test } from 'vitest';
import type { Document, DocumentState, PendingEntry } from '../../src/exports/logfold.ts';
import { type Observable, useDocument } from '../../src/exports/react.ts';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

/** The hook accepts the documents of the client: the compiler checks it. */
useDocument satisfies (document: Document) => DocumentState;
useDocument satisfies (list: Document['pendingList']) => readonly PendingEntry[];

/** A document whose methods use `this`, as those of a class do. */
class Counter implements Observable<string> {
  readonly listeners = new Set<() => void>();
  #value = 0;

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  getSnapshot(): string {
    return `value ${this.#value}`;
  }

  increase(): void {
    this.#value++;
    for (const listener of this.listeners) listener();
  }
}

async function render(document: Counter): Promise<ReactTestRenderer> {
  const { promise, resolve } = Promise.withResolvers<ReactTestRenderer>();
  await act(async () => resolve(create(createElement(Shown, { document }))));
  return promise;
}

let renderings = 0;

function Shown({ document }: { readonly document: Counter }): string {
  renderings++;
  return useDocument(document);
}

test('a component shows each new value of its document, and listens until it is removed', async () => {
  const first = new Counter();
  const rendered = await render(first);
  expect(rendered.toJSON()).toBe('value 0');
  await act(async () => first.increase());
  expect(rendered.toJSON()).toBe('value 1');
  expect(first.listeners.size).toBe(1);

  const before = renderings;
  await act(async () => {
    for (const listener of first.listeners) listener();
  });
  expect(renderings).toBe(before);

  const second = new Counter();
  await act(async () => rendered.update(createElement(Shown, { document: second })));
  expect(rendered.toJSON()).toBe('value 0');
  expect([first.listeners.size, second.listeners.size]).toEqual([0, 1]);
  await act(async () => rendered.unmount());
  expect(second.listeners.size).toBe(0);
});
