import type { System, SystemName } from './system.ts';

/** Imports one system only, since the modules of others would add to the memory of the process. */
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
