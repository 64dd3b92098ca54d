import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parse } from 'csv-parse/sync';
import * as z from 'zod';
import type { Value } from '../../src/codec/value.ts';

/** The demo's data and its authors. */
export const DATA = {
  title: 'US ZIP codes',
  file: 'zipcodes.csv of the npm package vega-datasets',
  credit: 'GeoNames, CC BY 4.0',
} as const;

/** Columns of the data, from left to right. */
export const COLUMNS = ['zip_code', 'latitude', 'longitude', 'city', 'state', 'county'] as const;

const number = z
  .string()
  .regex(/^-?\d+(\.\d+)?$/)
  .transform(Number);
const records = z.array(z.tuple([z.string(), number, number, z.string(), z.string(), z.string()]));

/**
 * Reads the rows of the data without the header: codes as strings, because they may start with
 * zeros, and coordinates as numbers.
 * @param limit the maximum number of rows
 */
export async function readZipCodes(limit: number): Promise<Value[][]> {
  // The package exports no files, so the path starts at its entry point.
  const entry = import.meta.resolve('vega-datasets');
  const csv = await readFile(fileURLToPath(new URL('../data/zipcodes.csv', entry)), 'utf8');
  return records.parse(parse(csv, { from_line: 2, ...(Number.isFinite(limit) && { to: limit }) }));
}
