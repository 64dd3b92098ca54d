import { setKey } from './value.ts';

/** Begins each name that stands for another one. */
const MARK = '~';
/** `JSON.parse` of the runtime, even if another one takes its place later. */
const parseNative: (text: string, revive?: Reviver) => unknown = JSON.parse;
const [QUOTE, BACKSLASH, COLON] = ['"', '\\', ':'];
/** Digits of a UTF-16 code unit after {@link MARK}. */
const DIGITS = 4;

/**
 * Parses JSON as `JSON.parse` should. Use it for every text with names of users.
 *
 * `JSON.parse` of V8 from 12.8 on (Node 24 to 26, Chrome from 128) may give an object a name of an
 * earlier object instead. It looks for the name among those that it knows before it decodes the
 * escapes: after `{"a":1,"\\":2}`, it reads `{"a":1,"\n":2}` as `{"a":1,"\\":2}`. A name without an
 * escape is its own text, so it is always right. Therefore this function replaces the other names
 * while it parses.
 * @throws SyntaxError if the text is not JSON
 */
export function parseJson(text: string): unknown {
  return hasEscapedName(text) ? restoreNames(parseNative(markNames(text))) : parseNative(text);
}

/** As the second argument of `JSON.parse`. */
export type Reviver = (this: unknown, name: string, value: unknown, context?: unknown) => unknown;

/**
 * Like {@link parseJson}, with a reviver. `this` of the reviver may have other names.
 * @throws SyntaxError if the text is not JSON
 * @throws the errors of the reviver
 */
export function parseJsonWith(text: string, revive: Reviver): unknown {
  if (!hasEscapedName(text)) return parseNative(text, revive);
  return parseNative(markNames(text), function (name, value, context) {
    if (isRecord(value)) renameKeys(value);
    return revive.call(this, originalName(name), value, context);
  });
}

/**
 * Parses JSON that is one string.
 * @throws SyntaxError if the text is not JSON
 */
export function parseJsonString(quoted: string): string | undefined {
  const value = parseNative(quoted);
  return typeof value === 'string' ? value : undefined;
}

/** Whether `JSON.parse` of this process confuses names that have escapes; see {@link parseJson}. */
export function confusesNames(): boolean {
  // The runtime knows the names of an object as long as the object is in memory.
  const known: object = JSON.parse('{"probe":1,"\\\\":1}');
  const read: object = JSON.parse('{"probe":1,"\\n":1}');
  return Object.keys(read)[1] === Object.keys(known)[1];
}

/**
 * Replaces names of JSON, so that no name has an escape, is `__proto__` or is not well-formed
 * Unicode. Equal names stay equal, and different names different. {@link restoreNames} undoes it.
 * A text that is not JSON stays none.
 * @throws SyntaxError if a name is malformed
 */
export function markNames(text: string): string {
  const parts: string[] = [];
  let copied = 0;
  for (let start = text.indexOf(QUOTE); start !== -1; ) {
    const end = endOfString(text, start + 1);
    if (isName(text, end)) {
      parts.push(text.slice(copied, start), markedName(text.slice(start, end + 1)));
      copied = end + 1;
    }
    start = text.indexOf(QUOTE, end + 1);
  }
  return parts.join('') + text.slice(copied);
}

/**
 * Gives the names back that {@link markNames} replaced: in `root`, and in the arrays and plain
 * objects that it contains. Changes them in place.
 */
export function restoreNames<T>(root: T): T {
  const found: unknown[] = [root];
  while (found.length > 0) {
    const value = found.pop();
    if (!isRecord(value)) continue;
    if (Array.isArray(value)) {
      for (const item of value) found.push(item);
    } else if (value === root || isPlain(value)) {
      renameKeys(value);
      for (const item of Object.values(value)) found.push(item);
    }
  }
  return root;
}

/** Outside of strings, JSON has no backslash. So the first one in a text is in a string. */
function hasEscapedName(text: string): boolean {
  for (let at = text.indexOf(BACKSLASH); at !== -1; at = text.indexOf(BACKSLASH, at)) {
    at = endOfString(text, at);
    if (isName(text, at)) return true;
  }
  return false;
}

/**
 * The index of the quote that ends a string, or the length of the text.
 * @param from an index in the string, not directly after a backslash
 */
function endOfString(text: string, from: number): number {
  for (let end = text.indexOf(QUOTE, from); end !== -1; end = text.indexOf(QUOTE, end + 1)) {
    let start = end;
    while (start > from && text[start - 1] === BACKSLASH) start--;
    if ((end - start) % 2 === 0) return end;
  }
  return text.length;
}

/** Whether a string that ends at an index is a name of an object. */
function isName(text: string, end: number): boolean {
  let next = end + 1;
  while (isSpace(text[next])) next++;
  return text[next] === COLON;
}

function isSpace(character: string | undefined): boolean {
  return character === ' ' || character === '\n' || character === '\r' || character === '\t';
}

/** @param quoted a string of JSON */
function markedName(quoted: string): string {
  const name = parseJsonString(quoted) ?? '';
  if (isOrdinary(name)) return `"${name}"`;
  const units = Array.from({ length: name.length }, (_, i) => name.charCodeAt(i).toString(16).padStart(DIGITS, '0'));
  return `"${MARK}${units.join('')}"`;
}

function isOrdinary(name: string): boolean {
  // A lone surrogate has an escape here too.
  return !isMarked(name) && name !== '__proto__' && JSON.stringify(name) === `"${name}"`;
}

function isMarked(name: string): boolean {
  return name.startsWith(MARK);
}

function originalName(name: string): string {
  if (!isMarked(name)) return name;
  const units = name.slice(MARK.length).match(/.{4}/g) ?? [];
  return units.map((unit) => String.fromCharCode(Number.parseInt(unit, 16))).join('');
}

function renameKeys(object: Record<string, unknown>): void {
  if (!Object.keys(object).some(isMarked)) return;
  const entries = Object.entries(object);
  for (const [name] of entries) delete object[name];
  for (const [name, value] of entries) setKey(object, originalName(name), value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
