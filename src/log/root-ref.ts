import type { Entry } from './entry.ts';

/** A completed snapshot's root, as the Snapshot entry carries it: by the key of an object, or whole. */
export type RootRef = { readonly key: string } | { readonly inline: Uint8Array };

/** The root that a Snapshot entry carries; undefined while its snapshot is not completed. */
export function rootOf(entry: Entry): RootRef | undefined {
  if (entry.external !== undefined) return { key: entry.external };
  return entry.body?.format === 'bytes' ? { inline: entry.body.bytes } : undefined;
}
