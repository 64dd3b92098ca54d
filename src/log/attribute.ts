import { plainBytes } from '../codec/bytes.ts';
import { fits64Bits, type Value } from '../codec/value.ts';
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

/** One DynamoDB attribute as it comes from outside: nothing is promised. The SDK's `AttributeValue` is one. */
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

/** One DynamoDB item as it comes from outside. */
export type StoredItem = Readonly<Record<string, StoredAttribute | undefined>>;

const EXACT = 2n ** 53n;
const SIGNIFICANT_DIGITS = 17;
// At least one digit, with the sign apart from a plus.
const DECIMAL = /^\+?(-?)(?=\.?\d)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/;
// What DynamoDB's Number type takes, see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
const TOO_LARGE = 1e126;
const SMALLEST = 1e-130;

/**
 * What a native attribute says. DynamoDB gives the keys of a map and the members of a set in no promised order, and an
 * archive sorts them, so both are put in order here: a reader must not depend on where an entry was read. A set reads as
 * an array. A Number reads
 * - as a number where it is an integer up to 2^53 either way,
 * - as a bigint where it is a larger integer of at most 64 bits,
 * - as a number where it has at most 17 significant digits, which is what a double carries.
 * @throws ItemInvalidError, without place, where a Number has more digits than that or the attribute has no type
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

function valueFromMap(map: StoredItem): Value {
  const keys = Object.keys(map).sort();
  // fromEntries defines keys instead of assigning them, so a key `__proto__` is a key like any other.
  return Object.fromEntries(keys.map((key) => [key, valueFromAttribute(map[key] ?? {})]));
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/**
 * The native attribute for a value: the inverse of {@link valueFromAttribute}, but for whole numbers beyond 2^53,
 * which come back as bigint where 64 bits hold them, and for -0.
 * @throws ValueUnsupportedError where DynamoDB has no such type: dates, NaN, infinities, numbers out of its range
 */
export function attributeFromValue(value: Value): AttributeValue {
  if (value === null) return { NULL: true };
  if (typeof value === 'boolean') return { BOOL: value };
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'bigint') return { N: String(value) };
  if (typeof value === 'number') return { N: textFromNumber(value) };
  if (value instanceof Uint8Array) return { B: value };
  if (value instanceof Date) throw new ValueUnsupportedError('DynamoDB has no native type for dates');
  if (isArray(value)) return { L: value.map(attributeFromValue) };
  return { M: Object.fromEntries(Object.entries(value).map(([key, item]) => [key, attributeFromValue(item)])) };
}

function numberFromText(text: string): Value {
  const number = Number(text);
  const [, sign, whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  const zeros = Number(exponent) - fraction.length + digits.length - significant.length;
  if (Number.isFinite(number) && sign !== undefined && zeros >= 0) {
    // Below 10^309, or the number would be infinite.
    const integer = significant === '' ? 0n : BigInt(`${sign}${significant}${'0'.repeat(zeros)}`);
    if (integer >= -EXACT && integer <= EXACT) return Number(integer);
    if (fits64Bits(integer)) return integer;
  }
  if (sign === undefined || !Number.isFinite(number) || significant.length > SIGNIFICANT_DIGITS) {
    throw new ItemInvalidError(`the Number '${text}' cannot be read without losing digits`, {
      advice: `Write decimals of up to ${SIGNIFICANT_DIGITS} significant digits and integers of up to 64 bits`,
    });
  }
  return number;
}

function textFromNumber(number: number): string {
  const size = Math.abs(number);
  if (!Number.isFinite(number) || size >= TOO_LARGE || (size < SMALLEST && size !== 0)) {
    throw new ValueUnsupportedError(`DynamoDB's Number type cannot hold ${number}`);
  }
  return String(number);
}

// Array.isArray does not narrow readonly arrays.
function isArray(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}
