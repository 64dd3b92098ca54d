import * as z from 'zod';
import { checkValue, type Value } from '../codec/value.ts';
import { EditLineInvalidError, LogfoldError } from '../errors.ts';
import { parseSheetEdit, type SheetEdit, sheetBody } from '../state/spreadsheet/edit.ts';

const time = z.int().min(0).optional();
const move = { time, at: z.int(), count: z.int() };
const cellValue = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const schema = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('insertRows'), ...move }),
  z.strictObject({ op: z.literal('deleteRows'), ...move }),
  z.strictObject({ op: z.literal('insertColumns'), ...move }),
  z.strictObject({ op: z.literal('deleteColumns'), ...move }),
  z.strictObject({ op: z.literal('set'), time, cells: z.array(z.tuple([z.int(), z.int(), cellValue])) }),
  z.strictObject({ op: z.literal('check'), time, rows: z.int(), sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
  z.strictObject({ op: z.literal('snapshot'), time }),
  z.strictObject({ op: z.literal('segment'), time }),
]);

const TYPES = {
  insertRows: 'Insert Rows',
  deleteRows: 'Delete Rows',
  insertColumns: 'Insert Columns',
  deleteColumns: 'Delete Columns',
} as const;

/** A parsed line of an edits file. Times are epoch seconds. */
export type EditLine =
  | { readonly kind: 'edit'; readonly time: number | undefined; readonly edit: SheetEdit; readonly body: Value }
  | { readonly kind: 'check'; readonly rows: number; readonly sha256: string }
  | { readonly kind: 'snapshot'; readonly time?: number | undefined }
  | { readonly kind: 'segment'; readonly time?: number | undefined };

/**
 * Reads one line of an edits file.
 * @param number of the line, from 1
 * @throws EditLineInvalidError if the line is malformed, reaches outside the sheet, or holds a
 * value that cannot be stored
 */
export function parseEditLine(text: string, number: number): EditLine {
  const line = parseLine(text, number);
  if (line.op === 'check') return { kind: 'check', rows: line.rows, sha256: line.sha256 };
  if (line.op === 'snapshot' || line.op === 'segment') return { kind: line.op, time: line.time };
  try {
    const edit: SheetEdit =
      line.op === 'set' ? parseSheetEdit('Set', line.cells) : parseSheetEdit(TYPES[line.op], [line.at, line.count]);
    const body = sheetBody(edit);
    checkValue(body);
    return { kind: 'edit', time: line.time, edit, body };
  } catch (cause) {
    if (!(cause instanceof LogfoldError)) throw cause;
    throw new EditLineInvalidError(number, `${cause.code}: ${cause.reason}`, { advice: cause.advice, cause });
  }
}

function parseLine(text: string, number: number): z.infer<typeof schema> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new EditLineInvalidError(number, 'the line is not JSON', {
      advice: 'Write one JSON object in each line',
      cause,
    });
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? '' : ` at ${issue.path.join('.')}`;
  throw new EditLineInvalidError(number, `${issue?.message ?? 'the line is not an edit'}${place}`, {
    advice:
      'Write a line whose op is set, insertRows, deleteRows, insertColumns, deleteColumns, check, snapshot or segment',
  });
}
