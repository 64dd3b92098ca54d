import { plainBytes } from '../codec/bytes.ts';
import { checkParts, checkValue, fits64Bits, isArray, isObject, setKey, type Value } from '../codec/value.ts';
import { ItemInvalidError, ValueUnsupportedError } from '../errors.ts';

/** One DynamoDB attribute as we write it. The SDK's `AttributeValue` takes it. */
export type AttributeValue =
  | { S: string }
  | { N: string }
  | { B: Uint8Array }
  | { BOOL: boolean }
  | { NULL: true }
  | { M: Item }
  | { L: AttributeValue[] }
  | { SS: string[] }
  | { NS: string[] }
  | { BS: Uint8Array[] };

/** One DynamoDB item as we write it. */
export type Item = Record<string, AttributeValue>;

/**
 * One DynamoDB attribute as read, not validated. The SDK's `AttributeValue` is assignable to it.
 */
export interface StoredAttribute {
  readonly S?: string | undefined;
  readonly N?: string | undefined;
  readonly B?: Uint8Array | undefined;
  readonly BOOL?: boolean;
  readonly NULL?: boolean;
  readonly M?: StoredItem;
  readonly L?: readonly StoredAttribute[];
  readonly SS?: readonly string[];
  readonly NS?: readonly string[];
  readonly BS?: readonly Uint8Array[];
}

/** One DynamoDB item as read, not validated. */
export type StoredItem = Readonly<Record<string, StoredAttribute | undefined>>;

/**
 * Whether a name is for logfold: one capital letter. logfold may use each of them, also in later
 * versions.
 */
export function isReserved(name: string): boolean {
  return name.length === 1 && name >= 'A' && name <= 'Z';
}

const EXACT = 2n ** 53n;
const SIGNIFICANT_DIGITS = 17;
// At least one digit. Captures a minus sign, not a plus.
const DECIMAL = /^\+?(-?)(?=\.?\d)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/;
// The range of DynamoDB's Number type, see
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
const TOO_LARGE = 1e126;
/** Beyond every exponent that DynamoDB writes; so texts stay short. */
const MAX_EXPONENT = 999;
const SMALLEST = 1e-130;

/**
 * Decodes a native attribute. Sorts the keys of maps and the members of sets: DynamoDB returns them
 * in any order and archives sort them, but the value must not depend on the place where an entry
 * was read. A set becomes an array. A Number becomes
 * - a number if it is an integer from -2^53 to 2^53,
 * - a bigint if it is another integer of at most 64 bits,
 * - a number if it has at most 17 significant digits, the precision of a double,
 * - otherwise its {@link decimalText}.
 * @throws ItemInvalidError, without a position, if the attribute has no type, or a Number has no
 * form of DynamoDB's
 */
export function valueFromAttribute(attribute: StoredAttribute): Value {
  if (attribute.S !== undefined) return attribute.S;
  if (attribute.N !== undefined) return numberFromText(attribute.N);
  if (attribute.B !== undefined) return plainBytes(attribute.B);
  if (attribute.BOOL !== undefined) return attribute.BOOL;
  if (attribute.NULL !== undefined) return null;
  if (attribute.L !== undefined) return attribute.L.map(valueFromAttribute);
  if (attribute.SS !== undefined) return [...attribute.SS].sort();
  if (attribute.NS !== undefined) return [...attribute.NS].sort().map(numberFromText);
  if (attribute.BS !== undefined) return attribute.BS.map(plainBytes).sort(compareBytes);
  if (attribute.M !== undefined) return valueFromMap(attribute.M);
  throw new ItemInvalidError('an attribute has none of the types of DynamoDB');
}

/** Decodes the content of a Map; see {@link valueFromAttribute}. */
export function valueFromMap(map: StoredItem): { readonly [key: string]: Value } {
  const values: Record<string, Value> = {};
  for (const key of Object.keys(map).sort()) setKey(values, key, valueFromAttribute(map[key] ?? {}));
  return values;
}

/** Orders bytes: negative if `a` comes first, 0 if they are equal. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/**
 * Encodes a value as a native attribute. {@link valueFromAttribute} reads the same value, with two
 * exceptions. A whole number beyond 2^53 comes back as a bigint if 64 bits hold it, and -0 comes
 * back as 0.
 * @throws ValueUnsupportedError if DynamoDB has no type for the value: a date, NaN, an infinity, a
 * number out of range
 */
export function attributeFromValue(value: Value): AttributeValue {
  if (value === null) return { NULL: true };
  if (typeof value === 'boolean') return { BOOL: value };
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'bigint') return { N: String(value) };
  if (typeof value === 'number') return { N: textFromNumber(value) };
  if (value instanceof Uint8Array) return { B: plainBytes(value) };
  if (value instanceof Date) {
    throw new ValueUnsupportedError('DynamoDB has no native type for dates', {
      advice: 'Give it as text, such as that of toISOString(), or as a number',
    });
  }
  if (isArray(value)) return { L: value.map(attributeFromValue) };
  return { M: Object.fromEntries(Object.entries(value).map(([key, item]) => [key, attributeFromValue(item)])) };
}

/**
 * An attribute as read, as one to write.
 * @throws ItemInvalidError, without a position, if the attribute has no type
 */
export function plainAttribute(attribute: StoredAttribute): AttributeValue {
  const { S, N, B, BOOL, NULL, M, L, SS, NS, BS } = attribute;
  if (S !== undefined) return { S };
  if (N !== undefined) return { N };
  if (B !== undefined) return { B: plainBytes(B) };
  if (BOOL !== undefined) return { BOOL };
  if (NULL !== undefined) return { NULL: true };
  if (L !== undefined) return { L: L.map(plainAttribute) };
  if (SS !== undefined) return { SS: [...SS] };
  if (NS !== undefined) return { NS: [...NS] };
  if (BS !== undefined) return { BS: BS.map(plainBytes) };
  if (M !== undefined) return { M: plainItem(M) };
  throw new ItemInvalidError('an attribute has none of the types of DynamoDB');
}

/** Some attributes of an item as read, as those of an item to write; all by default. */
export function plainItem(item: StoredItem, names: readonly string[] = Object.keys(item)): Item {
  const entries = names.flatMap((name): [string, AttributeValue][] => {
    const attribute = item[name];
    return attribute === undefined ? [] : [[name, plainAttribute(attribute)]];
  });
  return Object.fromEntries(entries);
}

/** Every whole number with this many digits is exact. */
export const EXACT_DIGITS = 15;

/** The number of a text of decimal digits, rounded beyond 2^53; undefined for any other text. */
export function wholeNumber(text: string): number | undefined {
  if (text === '') return undefined;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x30 || code > 0x39) return undefined;
  }
  return Number(text);
}

function numberFromText(text: string): Value {
  if (text.length <= EXACT_DIGITS) {
    // Most numbers are short and whole.
    const whole = wholeNumber(text);
    if (whole !== undefined) return whole;
  }
  const number = Number(text);
  const [, sign, whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  const zeros = Number(exponent) - fraction.length + digits.length - significant.length;
  if (Number.isFinite(number) && sign !== undefined && zeros >= 0) {
    // The number is finite, so the exponent is below 309.
    const integer = significant === '' ? 0n : BigInt(`${sign}${significant}${'0'.repeat(zeros)}`);
    if (integer >= -EXACT && integer <= EXACT) return Number(integer);
    if (fits64Bits(integer)) return integer;
  }
  const isInRange = Number.isFinite(number) && (number !== 0 || significant === '');
  if (isInRange && sign !== undefined) {
    if (significant.length <= SIGNIFICANT_DIGITS) return number;
    const exact = decimalText(text);
    if (exact !== undefined) return exact;
  }
  throw new ItemInvalidError(`the Number '${text}' is none that DynamoDB stores`, {
    advice: 'Write a decimal number of at most 38 digits, below 1E126',
  });
}

/**
 * A Number of DynamoDB without an exponent and without zeros that change nothing; undefined if the
 * text is none.
 */
export function decimalText(text: string): string | undefined {
  const [, sign, whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  const shift = Number(exponent);
  if (sign === undefined || Math.abs(shift) > MAX_EXPONENT) return undefined;
  const point = whole.length + shift;
  const digits = '0'.repeat(Math.max(0, -point)) + (whole + fraction).padEnd(point, '0');
  const at = Math.max(0, point);
  const before = digits.slice(0, at).replace(/^0+/, '') || '0';
  const after = digits.slice(at).replace(/0+$/, '');
  const plain = after === '' ? before : `${before}.${after}`;
  return plain === '0' ? plain : sign + plain;
}

function textFromNumber(number: number): string {
  const size = Math.abs(number);
  if (!Number.isFinite(number) || size >= TOO_LARGE || (size < SMALLEST && size !== 0)) {
    throw new ValueUnsupportedError(`DynamoDB's Number type cannot hold ${number}`);
  }
  // The shortest text of a double beyond 2^53 is another integer than the double.
  return Number.isInteger(number) && size < 2 ** 64 ? String(BigInt(number)) : String(number);
}

/** The most levels of arrays and maps. DynamoDB stores up to 32 levels. */
const MAX_DEPTH = 16;

/**
 * Checks the limits of DynamoDB that a {@link Value} may exceed.
 * @param subject the value's name in the error, such as `the metadata`
 * @throws ValueUnsupportedError if DynamoDB has no native type for a part, an object has an empty
 * name, or the value is nested too deeply
 */
export function checkNative(subject: string, value: unknown): asserts value is Value {
  checkValue(value, subject);
  checkParts(value, subject, (part) => {
    checkValue(part);
    checkPart(part, 1);
  });
}

function checkPart(value: Value, depth: number): void {
  if (!(isArray(value) || isObject(value))) return void attributeFromValue(value);
  if (depth > MAX_DEPTH) throw new ValueUnsupportedError(`a value is nested deeper than ${MAX_DEPTH} levels`);
  for (const [name, item] of Object.entries<Value>(value)) {
    if (name === '') throw new ValueUnsupportedError('an empty name cannot be stored in DynamoDB');
    checkPart(item, depth + 1);
  }
}
