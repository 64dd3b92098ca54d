import { createElement, type FunctionComponent } from 'react';
import { act, create, type ReactTestRenderer } from 'react-test-renderer';
import { expect } from 'vitest';
import type * as reactEntry from '../../../src/exports/react.ts';
import type { CallsOf } from './recorder.ts';
import { CORNER, type World } from './world.ts';

interface Shown {
  readonly world: World;
}

function ShownNames({ world: { react, document } }: Shown): string {
  return react.useDocument(document).mapNames.join();
}

function ShownView({ world: { react, document } }: Shown): string {
  return String(react.useView(document, CORNER).value?.cells[1]?.[0]);
}

function ShownMap({ world: { react, document } }: Shown): string {
  return String(react.useMap(document, 'cells', { limit: 2 }).value?.length);
}

function ShownRead({ world: { react, document } }: Shown): string {
  return String(react.useRead(document, 'first', async (state) => (await state.view(CORNER))[0]?.[0]).value);
}

/** Renders a component until it shows a text, and removes it. */
async function requireShown(component: FunctionComponent<Shown>, world: World, text: string): Promise<void> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  const { promise, resolve } = Promise.withResolvers<ReactTestRenderer>();
  await act(async () => resolve(create(createElement(component, { world }))));
  const rendered = await promise;
  const shown = async () => {
    await act(async () => new Promise((done) => setImmediate(done)));
    return rendered.toJSON();
  };
  try {
    await expect.poll(shown, { timeout: 60_000 }).toBe(text);
  } finally {
    await act(async () => rendered.unmount());
  }
}

export const REACT: CallsOf<typeof reactEntry> = {
  useDocument: (world) => requireShown(ShownNames, world, world.document.state.mapNames.join()),
  useView: (world) => requireShown(ShownView, world, 'value 14'),
  useMap: (world) => requireShown(ShownMap, world, '2'),
  useRead: (world) => requireShown(ShownRead, world, 'value 13'),
};
