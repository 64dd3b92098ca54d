import type { Entry } from './entry.ts';

/** A completed snapshot's root, as the Snapshot entry carries it: by the key of an object, or whole. */
export type RootRef = { readonly key: string } | { readonly inline: Uint8Array };

/** The root that a Snapshot entry carries; undefined while its snapshot is not completed. */
export function rootOf(entry: Entry): RootRef | undefined {
  if (entry.external !== undefined) return { key: entry.external };
  return entry.body?.format === 'bytes' ? { inline: entry.body.bytes } : undefined;
}

/** Whether both are the same object, or the same bytes. */
export function sameRoot(a: RootRef, b: RootRef): boolean {
  if ('key' in a) return 'key' in b && a.key === b.key;
  if ('key' in b || a.inline.length !== b.inline.length) return false;
  return a.inline.every((byte, i) => byte === b.inline[i]);
}
