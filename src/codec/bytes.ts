const FEW_BYTES = 64;

/**
 * Gives the bytes of a file in slices. Each call reads the file from its beginning, so that a
 * reader may read it twice.
 */
export type ByteSource = () => AsyncIterable<Uint8Array>;

/** A growing buffer of bytes. */
export class ByteWriter {
  bytes: Uint8Array;
  view: DataView;
  length: number;

  /** @param start initial capacity in bytes, or initial content, which is not changed */
  constructor(start: number | Uint8Array = 256) {
    this.bytes = typeof start === 'number' ? new Uint8Array(start) : start;
    this.length = typeof start === 'number' ? 0 : start.length;
    this.view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength);
  }

  /**
   * Appends `more` bytes, which the caller fills.
   * @returns their start
   */
  grow(more: number): number {
    const start = this.length;
    const end = start + more;
    if (end > this.bytes.length) {
      const wider = new Uint8Array(Math.max(end, this.bytes.length * 2));
      wider.set(this.bytes.subarray(0, start));
      this.bytes = wider;
      this.view = new DataView(wider.buffer);
    }
    this.length = end;
    return start;
  }

  append(source: Uint8Array): void {
    const start = this.grow(source.length);
    this.bytes.set(source, start);
  }

  /** Appends a part of other bytes. */
  appendPart(source: Uint8Array, from: number, to: number): void {
    const length = to - from;
    const start = this.grow(length);
    const target = this.bytes;
    // For a few bytes a loop is faster than a copy from a new view.
    if (length < FEW_BYTES) for (let i = 0; i < length; i++) target[start + i] = source[from + i] ?? 0;
    else target.set(source.subarray(from, to), start);
  }

  /** A copy of the bytes written so far. */
  take(): Uint8Array {
    return this.bytes.slice(0, this.length);
  }
}

/** Whether two arrays hold the same bytes. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Lower-case hexadecimal. */
export function toHex(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += HEX[byte];
  return text;
}

/** The value of each ASCII character as a hexadecimal digit; 0 for the others. */
const NIBBLES = Uint8Array.from({ length: 128 }, (_, code) => Number.parseInt(String.fromCharCode(code), 16));

/** Decodes an even number of hexadecimal digits into `target` from index `at`. */
export function fromHex(hex: string, target: Uint8Array = new Uint8Array(hex.length / 2), at = 0): Uint8Array {
  for (let i = 0; i * 2 < hex.length; i++) {
    target[at + i] = ((NIBBLES[hex.charCodeAt(i * 2)] ?? 0) << 4) | (NIBBLES[hex.charCodeAt(i * 2 + 1)] ?? 0);
  }
  return target;
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const LETTERS = new TextEncoder().encode(ALPHABET);
const PADDING = 0x3d;
const ASCII = new TextDecoder();

/** Base64 with the standard alphabet and padding (RFC 4648, section 4). */
export function toBase64(bytes: Uint8Array): string {
  const letters = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  let out = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    const three = ((bytes[i] ?? 0) << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    letters[out++] = letter(three >> 18);
    letters[out++] = letter(three >> 12);
    letters[out++] = letter(three >> 6);
    letters[out++] = letter(three);
  }
  for (let unused = bytes.length % 3; unused % 3 !== 0; unused++) letters[--out] = PADDING;
  return ASCII.decode(letters);
}

function letter(bits: number): number {
  return LETTERS[bits & 0x3f] ?? 0;
}

/** The inverse of {@link toBase64}; undefined if the text is not Base64. */
export function fromBase64(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) return undefined;
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

const NO_DIGIT = 0xff;
/** The value of each character of Base64; {@link NO_DIGIT} for the others. */
const DIGITS = base64Digits();

function base64Digits(): Uint8Array {
  const digits = new Uint8Array(256).fill(NO_DIGIT);
  for (let i = 0; i < ALPHABET.length; i++) digits[ALPHABET.charCodeAt(i)] = i;
  return digits;
}

/** The number of bytes of Base64 that is ASCII in bytes, with padding. */
export function base64Length(source: Uint8Array, { from, to }: { readonly from: number; readonly to: number }): number {
  const padding = source[to - 1] !== PADDING ? 0 : source[to - 2] !== PADDING ? 1 : 2;
  return to === from ? 0 : ((to - from) / 4) * 3 - padding;
}

/**
 * Decodes Base64 that is ASCII in bytes, with padding, into `target` from index `at`.
 * @returns false if it is not Base64; part of it may then have been written
 */
export function decodeBase64(
  source: Uint8Array,
  { from, to }: { readonly from: number; readonly to: number },
  target: Uint8Array,
  at: number,
): boolean {
  if ((to - from) % 4 !== 0) return false;
  let end = to;
  while (end > to - 2 && end > from && source[end - 1] === PADDING) end--;
  let all = 0;
  let out = at;
  let i = from;
  for (; i + 4 <= end; i += 4) {
    const a = digit(source, i);
    const b = digit(source, i + 1);
    const c = digit(source, i + 2);
    const d = digit(source, i + 3);
    all |= a | b | c | d;
    target[out++] = (a << 2) | (b >> 4);
    target[out++] = (b << 4) | (c >> 2);
    target[out++] = (c << 6) | d;
  }
  if (i < end) {
    const a = digit(source, i);
    const b = digit(source, i + 1);
    const c = end - i === 3 ? digit(source, i + 2) : 0;
    all |= a | b | c;
    target[out++] = (a << 2) | (b >> 4);
    if (end - i === 3) target[out] = (b << 4) | (c >> 2);
  }
  return all < ALPHABET.length;
}

function digit(source: Uint8Array, at: number): number {
  return DIGITS[source[at] ?? 0] ?? NO_DIGIT;
}

/** The same bytes as a plain Uint8Array, whatever subclass an SDK or a runtime returns. */
export function plainBytes(bytes: Uint8Array): Uint8Array {
  return bytes.constructor === Uint8Array ? bytes : new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
