import fc from 'fast-check';

/** Bytes that begin like a stored root and are none. */
export const DAMAGED_ROOT = Uint8Array.of(0x4c, 0x47, 0x46, 1, 2, 3);

/** Every proper prefix of some bytes. */
export function* truncations(bytes: Uint8Array): Generator<Uint8Array> {
  for (let length = 0; length < bytes.length; length++) yield bytes.slice(0, length);
}

/** The bytes with one bit flipped, for every bit. */
export function* bitFlips(bytes: Uint8Array): Generator<Uint8Array> {
  for (let offset = 0; offset < bytes.length; offset++) {
    for (let bit = 0; bit < 8; bit++) yield withByte(bytes, offset, (bytes[offset] ?? 0) ^ (1 << bit));
  }
}

export function withByte(bytes: Uint8Array, offset: number, byte: number): Uint8Array {
  const changed = bytes.slice();
  changed[offset] = byte;
  return changed;
}

/** The bytes with one or several ranges replaced by other bytes, of any length. */
export function damaged(bytes: Uint8Array): fc.Arbitrary<Uint8Array> {
  const change = fc.record({
    at: fc.nat({ max: bytes.length }),
    remove: fc.nat({ max: 8 }),
    insert: fc.uint8Array({ maxLength: 8 }),
  });
  return fc.array(change, { minLength: 1, maxLength: 4 }).map((changes) => {
    let result = [...bytes];
    for (const { at, remove, insert } of changes) result = result.toSpliced(at, remove, ...insert);
    return Uint8Array.from(result);
  });
}
