/** Tables for people whose steps `test/unit/growth.test.ts` compares at two sizes. */

import { textTable } from '../../src/cli/format.ts';
import type { GrowingWork } from '../support/steps.ts';

/** A table as wide as that of `status`. */
export const rows: GrowingWork = async (size) => {
  const columns = Array.from({ length: 13 }, (_, i) => `column ${i}`);
  const cells = Array.from({ length: size }, (_, i) => columns.map((name) => `${name} of ${i}`));
  return async () => textTable(columns, cells);
};
