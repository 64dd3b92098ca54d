import { WorkbookInvalidError } from '../errors.ts';

const SIGNATURES = [
  { begins: [0x50, 0x4b, 0x03, 0x04], kind: 'xlsx' },
  { begins: [0x50, 0x4b, 0x05, 0x06], kind: 'xlsx' },
  { begins: [0xd0, 0xcf, 0x11, 0xe0], kind: 'xls' },
] as const;

/**
 * Checks the first bytes of a file.
 * @throws WorkbookInvalidError if they belong to a file of another format
 */
export function checkSignature(first: Uint8Array, format: 'csv' | 'xlsx'): void {
  const kind = SIGNATURES.find(({ begins }) => begins.every((byte, i) => first[i] === byte))?.kind ?? 'csv';
  if (kind === format) return;
  switch (kind) {
    case 'xls':
      throw new WorkbookInvalidError('the file is an old XLS workbook, or a password protects it', {
        advice: 'Save it as XLSX without a password',
      });
    case 'xlsx':
      throw new WorkbookInvalidError('the file is a ZIP archive, such as an XLSX workbook, and no CSV', {
        advice: "Read it with the format 'xlsx'",
      });
    case 'csv':
      throw new WorkbookInvalidError('the file is not an XLSX workbook: it is not a ZIP archive', {
        advice: "Save it as XLSX, or read it with the format 'csv' if it is text",
      });
  }
}

interface SheetPlace {
  readonly sheet?: string | undefined;
  /** From 1. */
  readonly row?: number | undefined;
}

/** An error for an XLSX file that was damaged or truncated, or that a faulty program wrote. */
export function damagedWorkbook(reason: string, place: SheetPlace = {}): WorkbookInvalidError {
  return new WorkbookInvalidError(`the XLSX file is damaged: ${reason}`, {
    ...place,
    advice: 'Get a complete copy of the file, or open it in a spreadsheet program and save it again as XLSX',
  });
}

/** An error for an XLSX file that exceeds a limit of this reader. */
export function workbookTooLarge(reason: string, place: SheetPlace = {}): WorkbookInvalidError {
  return new WorkbookInvalidError(`the XLSX file is too large: ${reason}`, {
    ...place,
    advice: 'Save the sheet as CSV, which has no such limit',
  });
}
