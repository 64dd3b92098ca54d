/** A check that is made once for everybody who asks, and again only after a failure. */
export function once(check: () => Promise<void>): () => Promise<void> {
  let checked: Promise<void> | undefined;
  return () => {
    checked ??= check().catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return checked;
  };
}
