import * as z from 'zod';
import { parseJson } from '../codec/json.ts';
import { checkValue } from '../codec/value.ts';
import { EditLineInvalidError, LogfoldError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { NewEntry } from '../log/client.ts';
import type { EntryMetadata, ReservedTypes } from '../log/entry.ts';
import { storableMetadata } from '../log/metadata.ts';
import { checkMutations } from '../log/mutation.ts';
import { checkNewEntries } from '../log/new-entry.ts';
import { foldsSheets, parseSheetEdit, type SheetEdit, sheetBody } from '../state/spreadsheet/reducer.ts';
import { type Json, valueFromJson } from './json-value.ts';

const time = z.int().min(0).optional();
/** The place of an entry in the log from which `entries` printed it. It may get another place. */
const placed = { position: z.unknown().optional(), number: z.unknown().optional(), time };
const snapshot = z.string().optional();
const move = { time, at: z.int(), count: z.int() };
const cellValue = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const operation = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('insertRows'), ...move }),
  z.strictObject({ op: z.literal('deleteRows'), ...move }),
  z.strictObject({ op: z.literal('insertColumns'), ...move }),
  z.strictObject({ op: z.literal('deleteColumns'), ...move }),
  z.strictObject({ op: z.literal('set'), time, cells: z.array(z.tuple([z.int(), z.int(), cellValue])) }),
  z.strictObject({ op: z.literal('check'), time, rows: z.int(), sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
  z.strictObject({ op: z.literal('snapshot'), snapshot, ...placed }),
  z.strictObject({ op: z.literal('start'), snapshot, ...placed }),
  z.strictObject({ op: z.literal('segment'), ...placed }),
]);
type Operation = z.infer<typeof operation>;

type EditObject = { readonly [name: string]: Json };
const json = z.custom<Json>();
const event = z.strictObject({
  type: z.string().min(1),
  version: z.int().min(0).default(1),
  body: json.optional(),
  file: z.string().optional(),
  ...placed,
  milliseconds: z.int().min(0).max(999).optional(),
  // A schema of names would lose the name `__proto__`.
  metadata: z.custom<EditObject>(isEditObject, 'Invalid input: expected an object').optional(),
  once: z.strictObject({ client: z.string(), mutation: z.int() }).optional(),
});

const TYPES = {
  insertRows: 'Insert Rows',
  deleteRows: 'Delete Rows',
  insertColumns: 'Insert Columns',
  deleteColumns: 'Delete Columns',
} as const;

/** A parsed line of an edits file. Times are epoch seconds. */
export type EditLine =
  | { readonly kind: 'entry'; readonly entry: NewEntry }
  | { readonly kind: 'check'; readonly rows: number; readonly sha256: string }
  | { readonly kind: 'start' }
  | { readonly kind: 'snapshot'; readonly time?: number | undefined }
  | { readonly kind: 'segment'; readonly time?: number | undefined };

/** The log that a file is for. Decides which lines are valid. */
export interface EditedLog {
  readonly log: LogId;
  readonly types: ReservedTypes;
  /** Name of the reducer. Lines that edit or check a sheet are only for the spreadsheet. */
  readonly reducer: string;
}

/** The entry that stores an edit of a sheet. @param created epoch seconds */
export function sheetEntry(edit: SheetEdit, created?: number): NewEntry {
  return { type: edit.type, version: 1, body: sheetBody(edit), created };
}

/**
 * Reads one line of an edits file.
 * @param number of the line, from 1
 * @throws EditLineInvalidError if the line is malformed, reaches outside the sheet, holds a value
 * that cannot be stored, or edits a sheet although the reducer is another one
 */
export function parseEditLine(text: string, number: number, target: EditedLog): EditLine {
  const line = parseLine(text, number);
  try {
    return isEditObject(line) && 'op' in line
      ? fromOperation(parseWith(operation, line, OP_ADVICE), target)
      : fromEvent(parseWith(event, line, ENTRY_ADVICE), target);
  } catch (cause) {
    if (!(cause instanceof LogfoldError)) throw cause;
    const reason = cause instanceof MalformedError ? cause.reason : `${cause.code}: ${cause.reason}`;
    throw new EditLineInvalidError(number, reason, { advice: cause.advice, cause });
  }
}

const OP_ADVICE =
  'Write a line whose op is set, insertRows, deleteRows, insertColumns, deleteColumns, check, snapshot or segment';
const ENTRY_ADVICE =
  'Write an object with an op, or with a type and, as needed, version, body, time, metadata and once of the entry';

/** The line itself is malformed. */
class MalformedError extends UsageError {}

function parseLine(text: string, number: number): unknown {
  try {
    return parseJson(text);
  } catch (cause) {
    throw new EditLineInvalidError(number, 'the line is not JSON', {
      advice: 'Write one JSON object in each line',
      cause,
    });
  }
}

function parseWith<T>(schema: z.ZodType<T>, line: unknown, advice: string): T {
  const parsed = schema.safeParse(line);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? '' : ` at ${issue.path.join('.')}`;
  throw new MalformedError(`${issue?.message ?? 'the line is malformed'}${place}`, { advice });
}

function fromOperation(line: Operation, { reducer }: EditedLog): EditLine {
  if (line.op === 'start') return { kind: 'start' };
  if (line.op === 'snapshot' || line.op === 'segment') return { kind: line.op, time: line.time };
  if (!foldsSheets({ name: reducer })) {
    throw new MalformedError(`op ${line.op} is for sheets, and the states of reducer '${reducer}' are not sheets`, {
      advice: 'Write the type and the body of the entry instead of an op',
    });
  }
  if (line.op === 'check') return { kind: 'check', rows: line.rows, sha256: line.sha256 };
  const edit: SheetEdit =
    line.op === 'set' ? parseSheetEdit('Set', line.cells) : parseSheetEdit(TYPES[line.op], [line.at, line.count]);
  const entry = sheetEntry(edit, line.time);
  checkValue(entry.body);
  return { kind: 'entry', entry };
}

function fromEvent(line: z.infer<typeof event>, { log, types }: EditedLog): EditLine {
  const { type, version, time: created, milliseconds, once, file } = line;
  if (types.includes(type)) {
    throw new MalformedError(`the type '${type}' is reserved`, {
      advice: 'Write {"op":"snapshot"} or {"op":"segment"}, or give the entry another type',
    });
  }
  const body = valueFromJson(line.body ?? null);
  checkValue(body);
  const metadata = line.metadata === undefined ? undefined : metadataFrom(log, line.metadata);
  checkMutations(log, [{ once }]);
  const entry = { type, version, body, created, milliseconds, metadata, once, ...(file !== undefined && { file }) };
  checkNewEntries(log, [entry], types);
  return { kind: 'entry', entry };
}

function metadataFrom(log: LogId, metadata: EditObject): EntryMetadata | undefined {
  const values = Object.entries(metadata).map(([name, value]) => [name, valueFromJson(value)] as const);
  return storableMetadata(log, Object.fromEntries(values));
}

function isEditObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
