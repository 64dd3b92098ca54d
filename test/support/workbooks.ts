import type { ByteSource } from '../../src/codec/bytes.ts';
import type { WorkbookCell } from '../../src/workbook/row.ts';
import { readWorkbook, type WorkbookReading } from '../../src/workbook/workbook.ts';

/** Bytes as a file that gives slices of a size. */
export function slicesOf(bytes: Uint8Array, size = 65_536): ByteSource {
  return async function* () {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  };
}

/** Reads a whole workbook: each row with its number and its cells. */
export async function readRows(
  file: ByteSource,
  options: WorkbookReading,
): Promise<(readonly [number, ...WorkbookCell[]])[]> {
  const rows = [];
  for await (const batch of readWorkbook(file, options)) {
    for (const { row, cells } of batch) rows.push([row, ...cells] as const);
  }
  return rows;
}
