import { keyAt, uint32At } from './array.ts';
import type { Key } from './key.ts';

const DIGIT_BITS = 11;
const DIGIT = 2 ** DIGIT_BITS;

/**
 * The indexes of keys in ascending order of key. Equal keys keep their order. Numbers are sorted by
 * a least significant digit radix sort, which skips digits that all keys share. Source: Knuth, The
 * Art of Computer Programming 3, 5.2.5.
 */
export function ascendingOrder(keys: readonly Key[]): Uint32Array<ArrayBuffer> {
  const order = new Uint32Array(keys.length);
  for (let i = 0; i < order.length; i++) order[i] = i;
  if (typeof keys[0] === 'string') {
    return order.sort((a, b) => {
      const [left, right] = [keyAt(keys, a), keyAt(keys, b)];
      return left < right ? -1 : left > right ? 1 : a - b;
    });
  }
  return radixSort(keys, order);
}

function radixSort(keys: readonly Key[], order: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  let from = order;
  let to = new Uint32Array(order.length);
  const digits = new Uint32Array(order.length);
  let largest = 0;
  for (let i = 0; i < order.length; i++) largest = Math.max(largest, Number(keys[i]));
  for (let unit = 1; unit <= largest; unit *= DIGIT) {
    const starts = new Uint32Array(DIGIT);
    for (let i = 0; i < digits.length; i++) {
      const value = Math.floor(Number(keys[i]) / unit) % DIGIT;
      digits[i] = value;
      starts[value] = uint32At(starts, value) + 1;
    }
    if (starts.includes(digits.length)) continue;
    let sum = 0;
    for (let value = 0; value < DIGIT; value++) {
      const count = uint32At(starts, value);
      starts[value] = sum;
      sum += count;
    }
    for (let i = 0; i < from.length; i++) {
      const index = uint32At(from, i);
      const value = uint32At(digits, index);
      const place = uint32At(starts, value);
      to[place] = index;
      starts[value] = place + 1;
    }
    [from, to] = [to, from];
  }
  return from;
}
