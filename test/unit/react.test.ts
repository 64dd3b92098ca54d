import { createRequire } from 'node:module';
import { join } from 'node:path';
import { build } from 'esbuild';
import { createElement, type FunctionComponent, StrictMode } from 'react';
import { act, create, type ReactTestRenderer } from 'react-test-renderer';
import { describe, expect, test, vi } from 'vitest';
import { LiveRead } from '../../src/client/live-read.ts';
import { collections, collectionsOf } from '../../src/exports/collections.ts';
import { ChunkMissingError, type Document, type DocumentState, type PendingEntry } from '../../src/exports/logfold.ts';
import { type Observable, useDocument, useMap, useRead, useView } from '../../src/exports/react.ts';
import { codeBlocks } from '../support/code-blocks.ts';
import { LiveLog } from '../support/live-logs.ts';

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

/** Renders a component with a document, and waits until its reads are done. */
async function settled(run: () => void): Promise<void> {
  await act(async () => {
    run();
    await vi.dynamicImportSettled();
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  });
}

const RECTANGLE = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 2 } };
const cell = (row: number, column: number, value: string) => ({
  type: 'Set',
  version: 1,
  body: [[row, column, value]],
});

interface ShownCells {
  readonly document: Document;
  readonly rows?: typeof RECTANGLE.rows;
}

let cellRenderings = 0;

function ShownView({ document, rows = RECTANGLE.rows }: ShownCells): string {
  cellRenderings++;
  const { value, error } = useView(document, { ...RECTANGLE, rows });
  return value === undefined ? String(error ?? 'loading') : JSON.stringify([value.rectangle.rows.from, value.cells]);
}

let fails = false;
let retry: (() => void) | undefined;

/** Shows the number of items in a map, and the ids of charts. */
function Charts({ document, map }: { readonly document: Document; readonly map: string }): string {
  const items = useMap(document, map, { limit: 2, reverse: true }).value;
  const charts = useRead(document, 'charts', async (state) => {
    if (fails) throw new Error('no answer');
    return Array.fromAsync(collectionsOf(state).collection('charts').items());
  });
  retry = charts.retry;
  const shown = charts.error instanceof Error ? charts.error.message : charts.value?.map(({ id }) => id).join();
  return `${items?.length}: ${shown}`;
}

describe('a component that shows a part of a document', () => {
  test('useView renders the cells of its rectangle, and nothing for changes elsewhere', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await document.append(cell(0, 0, 'Denver'));
    await document.view(RECTANGLE);
    let rendered: ReactTestRenderer | undefined;
    await settled(() => {
      rendered = create(createElement(StrictMode, null, createElement(ShownView, { document })));
    });
    expect(rendered?.toJSON()).toBe('[0,[["Denver",null]]]');

    const before = cellRenderings;
    live.requests.length = 0;
    await settled(() => void document.append(cell(9, 9, 'elsewhere')));
    expect(live.requests.filter((name) => name.startsWith('get'))).toEqual([]);
    expect(cellRenderings).toBe(before);

    await settled(() => void document.append(cell(0, 1, 'CO')));
    expect(rendered?.toJSON()).toBe('[0,[["Denver","CO"]]]');
    const rows = { from: 9, to: 10 };
    act(() => rendered?.update(createElement(StrictMode, null, createElement(ShownView, { document, rows }))));
    expect(rendered?.toJSON()).toBe('[0,[["Denver","CO"]]]');
    await settled(() => undefined);
    expect(rendered?.toJSON()).toBe('[9,[[null,null]]]');
    await settled(() => rendered?.unmount());
  });

  test('useMap and useRead show items, an error with a retry, and never the items of another map', async () => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: collections });
    const put = (id: string) => ({ type: 'Put', version: 1, body: { collection: 'charts', id, value: id } });
    await document.append(put('a'));
    fails = true;
    let rendered: ReactTestRenderer | undefined;
    await settled(() => {
      rendered = create(createElement(Charts, { document, map: 'items' }));
    });
    expect(rendered?.toJSON()).toBe('1: no answer');
    fails = false;
    await settled(() => retry?.());
    expect(rendered?.toJSON()).toBe('1: a');
    await settled(() => void document.append([put('b'), put('c')]));
    expect(rendered?.toJSON()).toBe('2: a,b,c');
    act(() => rendered?.update(createElement(Charts, { document, map: 'nothing' })));
    expect(rendered?.toJSON()).toBe('undefined: a,b,c');
    await settled(() => undefined);
    expect(rendered?.toJSON()).toBe('0: a,b,c');
    await settled(() => rendered?.unmount());
  });

  test('a component reads again if a collection removed the chunks of its state', async () => {
    const document = await (await LiveLog.create()).open();
    const calls: string[] = [];
    const shown = new LiveRead<string>();
    const source = {
      subscribe: document.subscribe,
      getSnapshot: document.getSnapshot,
      refresh: async () => calls.push('refresh') > 9,
    };
    const stop = shown.follow(source, 'part', async () => {
      calls.push('read');
      if (!calls.includes('refresh')) throw new ChunkMissingError('a chunk is gone');
      return 'read';
    });
    await settled(() => undefined);
    expect(shown.getSnapshot()).toMatchObject({ value: 'read', error: undefined });
    expect(calls).toEqual(['read', 'refresh', 'read']);
    stop();
  });
});

test('the component of the guide shows cells', async () => {
  const [contents = ''] = codeBlocks('docs/library.md', 'tsx', 'Pages in a browser');
  const { outputFiles } = await build({
    stdin: { contents, loader: 'tsx', resolveDir: import.meta.dirname },
    alias: { 'logfold/react': join(import.meta.dirname, '../../src/exports/react.ts') },
    bundle: true,
    format: 'cjs',
    platform: 'node',
    jsx: 'automatic',
    external: ['react', 'react/jsx-runtime'],
    write: false,
  });
  const built: { exports: { Cells?: FunctionComponent<{ readonly document: Document }> } } = { exports: {} };
  new Function('require', 'module', 'exports', outputFiles[0]?.text ?? '')(createRequire(import.meta.url), built, {});
  const { Cells } = built.exports;
  if (Cells === undefined) throw new Error('the guide has no component Cells');
  const document = await (await LiveLog.create()).open();
  await document.append(cell(0, 1, 'Denver'));
  await document.view(RECTANGLE);
  let rendered: ReactTestRenderer | undefined;
  await settled(() => {
    rendered = create(createElement(Cells, { document }));
  });
  const cells = rendered?.root.findAllByType('td').map(({ children }) => children.join(''));
  expect(cells?.slice(0, 3)).toEqual(['', 'Denver', '']);
  expect(cells?.length).toBe(1_000);
  await settled(() => rendered?.unmount());
});
