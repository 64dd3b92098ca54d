/** Work of documents whose steps `test/unit/growth.test.ts` compares at two sizes. */

import type { NewEntry } from '../../src/log/client.ts';
import { sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import { LiveLog } from '../support/live-logs.ts';
import { set } from '../support/sheet-log.ts';
import type { GrowingWork } from '../support/steps.ts';

/** Sets one of a few cells, so that the state does not grow. */
const edit = (i: number): NewEntry => ({ type: 'Set', version: 1, body: sheetBody(set(i % 5, 0, `text ${i}`)) });

/** A log with a requested snapshot that no pipeline builds. */
async function pendingLog(): Promise<LiveLog> {
  const live = await LiveLog.create();
  await live.sheet.edit(set(0, 0, 'first'));
  await live.sheet.snapshot();
  return live;
}

/** Appends of one document, while a snapshot is pending. */
export const appends: GrowingWork = async (size) => {
  const document = await (await pendingLog()).open();
  return async () => {
    for (let i = 0; i < size; i++) await document.append(edit(i));
  };
};

/** Refreshes of a document, one for each entry of another client, while a snapshot is pending. */
export const refreshes: GrowingWork = async (size) => {
  const live = await pendingLog();
  const [document, other] = [await live.open(), await live.open()];
  return async () => {
    for (let i = 0; i < size; i++) {
      await other.append(edit(i));
      await document.refresh();
    }
  };
};

/** Numbered mutations that the log has already, for example of a file that is appended again. */
export const repetitions: GrowingWork = async (size) => {
  const live = await pendingLog();
  const numbered = (i: number): NewEntry => ({ ...edit(i), once: { client: 'file', mutation: i + 1 } });
  for (let i = 0; i < size; i++) await live.sheet.append(numbered(i));
  const document = await live.open();
  return async () => {
    for (let i = 0; i < size; i++) if ((await document.append(numbered(i))) !== undefined) throw new Error('appended');
  };
};

/** Mutations of one document, all made before the first of them is stored. */
export const mutations: GrowingWork = async (size) => {
  const document = await (await pendingLog()).open();
  return () => Promise.all(Array.from({ length: size }, (_, i) => document.mutate(edit(i))));
};
