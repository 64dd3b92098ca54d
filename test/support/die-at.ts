import { interceptDeps, interceptPorts, type SheetLog, type SheetPorts } from './sheet-log.ts';
import type { Interceptor } from './stores/interceptor.ts';

/**
 * Runs a job whose process dies at its nth operation. After that, no operation of the process
 * returns.
 */
export async function dieAt(
  sheet: SheetLog,
  death: { readonly operation: number; readonly when: 'before' | 'after' },
  job: (ports: SheetPorts, intercept: Interceptor) => Promise<unknown>,
): Promise<void> {
  let count = 0;
  await new Promise<void>((died, survived) => {
    const intercept: Interceptor = async <T>(_: string, effect: () => Promise<T>): Promise<T> => {
      const operation = ++count;
      if (operation < death.operation) return effect();
      if (operation === death.operation) {
        if (death.when === 'after') await effect();
        died();
      }
      return new Promise<T>(() => undefined);
    };
    job(interceptPorts(sheet, intercept), intercept).then(
      () => survived(new Error('the job ended before the operation with this number')),
      survived,
    );
  });
}

/** The moment of death: before or after the operation with this number. */
export interface Death {
  readonly operation: number;
  readonly when: 'before' | 'after';
  readonly name: string;
}

/** Every point at which a job can die. Runs the job once to count its operations. */
export async function deathsOf(
  sheet: SheetLog,
  job: (deps: SheetLog['deps']) => Promise<unknown>,
): Promise<readonly Death[]> {
  const names: string[] = [];
  await job(
    interceptDeps(sheet, (name, effect) => {
      names.push(name);
      return effect();
    }),
  );
  return names.flatMap((name, i) => (['before', 'after'] as const).map((when) => ({ operation: i + 1, when, name })));
}

/** Runs a job whose process dies: see {@link dieAt}. */
export function dieDuring(
  sheet: SheetLog,
  death: Death,
  job: (deps: SheetLog['deps']) => Promise<unknown>,
): Promise<void> {
  return dieAt(sheet, death, (_, intercept) => job(interceptDeps(sheet, intercept)));
}
