import type { Around } from './around.ts';
import { portsAround, type SheetLog } from './sheet-log.ts';

/** Runs a job whose process dies at its nth operation: from then on it never hears of anything again. */
export async function dieAt(
  sheet: SheetLog,
  death: { readonly operation: number; readonly when: 'before' | 'after' },
  job: (ports: Pick<SheetLog, 'store' | 'blobs'>, around: Around) => Promise<unknown>,
): Promise<void> {
  let count = 0;
  await new Promise<void>((died, survived) => {
    const around: Around = async <T>(_: string, effect: () => Promise<T>): Promise<T> => {
      const operation = ++count;
      if (operation < death.operation) return effect();
      if (operation === death.operation) {
        if (death.when === 'after') await effect();
        died();
      }
      return new Promise<T>(() => undefined);
    };
    job(portsAround(sheet, around), around).then(() => survived(new Error('nobody died')), survived);
  });
}
