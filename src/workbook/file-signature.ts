import { WorkbookInvalidError } from '../errors.ts';

/** Bytes that tell the kind of a file. */
export const SIGNATURE_BYTES = 8;

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
      throw new WorkbookInvalidError('the file is no XLSX workbook: it is no ZIP archive', {
        advice: "Save it as XLSX, or read it with the format 'csv' if it is text",
      });
  }
}
