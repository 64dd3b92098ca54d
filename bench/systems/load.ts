import type { System, SystemName } from './system.ts';

/** Imports one system and nothing of the others, so that each process's memory is its own. */
export async function loadSystem(name: SystemName): Promise<System> {
  switch (name) {
    case 'logfold':
      return (await import('./logfold.ts')).logfold;
    case 'sqlite':
      return (await import('./sqlite.ts')).sqlite;
    case 'json-gzip':
      return (await import('./json-gzip.ts')).jsonGzip;
    case 'yjs':
      return (await import('./yjs.ts')).yjs;
  }
}
