type Decoder = InstanceType<typeof TextDecoder>;

/** Bytes that are decoded together. Sources may give longer slices. */
const SLICE_BYTES = 64 * 1024;
/** Bytes that reveal the encoding of a text, or the format of a file. */
const FIRST_BYTES = 8;

/**
 * Decodes a text in UTF-8, or in UTF-16 with a byte order mark, in pieces of bounded length.
 * @param wrong makes the error for bytes that the encoding does not allow
 * @param checkFirst gets the first 8 bytes, or all if there are fewer
 */
export async function* decodeText(
  source: AsyncIterable<Uint8Array>,
  wrong: () => Error,
  checkFirst: (first: Uint8Array) => void = () => {},
): AsyncGenerator<string> {
  let decoder: Decoder | undefined;
  // A slice may be shorter than a byte order mark.
  let first = new Uint8Array();
  for await (const bytes of source) {
    let rest = bytes;
    if (decoder === undefined) {
      rest = first = new Uint8Array([...first, ...bytes]);
      if (first.length < FIRST_BYTES) continue;
      checkFirst(first);
      decoder = decoderFor(first);
    }
    for (let at = 0; at < rest.length; at += SLICE_BYTES) {
      yield decodeNext(decoder, rest.subarray(at, at + SLICE_BYTES), wrong);
    }
  }
  if (decoder === undefined) {
    checkFirst(first);
    decoder = decoderFor(first);
    yield decodeNext(decoder, first, wrong);
  }
  yield decodeNext(decoder, undefined, wrong);
}

/** @param bytes undefined at the end of the text */
function decodeNext(decoder: Decoder, bytes: Uint8Array | undefined, wrong: () => Error): string {
  try {
    return bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true });
  } catch {
    throw wrong();
  }
}

/** The decoder that the byte order mark asks for. */
function decoderFor([first = 0, second = 0]: Uint8Array): Decoder {
  const mark = (first << 8) | second;
  return new TextDecoder(mark === 0xfffe ? 'utf-16le' : mark === 0xfeff ? 'utf-16be' : 'utf-8', { fatal: true });
}
