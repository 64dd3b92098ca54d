import { formatPosition, LogfoldError, openLogs } from '../../src/exports/logfold.ts';
import { spreadsheet } from '../../src/exports/spreadsheet.ts';

interface Span {
  readonly from: number;
  readonly to: number;
}

/** The job of a page: what it shows of which log, and the text that it then writes into a cell. */
export interface PageTask {
  readonly log: string;
  readonly rows: Span;
  readonly columns: Span;
  readonly write?: string | undefined;
}

export interface PageResult {
  readonly rows: unknown;
  /** The operations that the page asked its server for until it showed the rows, in order. */
  readonly requests: readonly string[];
  /** Position of the entry that the page appended. */
  readonly appended?: string | undefined;
}

/** Shows a rectangle of a sheet as the page of an application does. A test bundles this module. */
async function work({ log, write, ...rectangle }: PageTask): Promise<PageResult> {
  const requests: string[] = [];
  const logs = await openLogs({
    urlOf: (key) => `/objects/${encodeURIComponent(key)}`,
    send: async (request) => {
      requests.push(request.op);
      const response = await fetch('/log', { method: 'POST', body: JSON.stringify(request) });
      if (!response.ok) throw new Error(`status ${response.status}`);
      return response.json();
    },
  });
  const document = await logs.open(log, { reducer: spreadsheet });
  const shown = { rows: await document.view(rectangle), requests: [...requests] };
  if (write === undefined) return shown;
  const body = [[rectangle.rows.from, rectangle.columns.from, write]];
  const added = await document.append({ type: 'Set', version: 1, body });
  const rows = await document.view(rectangle);
  return { ...shown, rows, appended: added && formatPosition(added.first) };
}

async function main(): Promise<void> {
  const response = await fetch('/task');
  const answer = await work((await response.json()) as PageTask).catch((error: unknown) => ({
    failed: error instanceof LogfoldError ? error.code : String(error),
  }));
  await fetch('/answer', { method: 'POST', body: JSON.stringify(answer) });
}

void main();
