import { LogIdInvalidError } from '../../errors.ts';
import type { LogId, ParseLog } from '../../ids/log-id.ts';
import { type BlobRange, type BlobStore, clampRange } from '../../store/blob-store.ts';
import { logName, logOfName, type ParsedKey, parseKey } from '../../store/keys.ts';
import type { AnswerOptions } from './answer-log-request.ts';

export interface ObjectOptions extends Pick<AnswerOptions, 'allows'> {
  /** The header `Range` of the request. Several ranges, and other units, give the whole object. */
  readonly range?: string | undefined;
  /**
   * The log of the object, if the page knows it. Objects of other logs are refused. Ids of more
   * than 66 bytes may need it, because the keys of a long id have its hash instead.
   */
  readonly log?: string | undefined;
}

/** An HTTP answer with an object, or with the reason why there is none. */
export interface ObjectAnswer {
  readonly status: 200 | 206 | 403 | 404 | 413 | 416;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** The most bytes of one answer. Chunks and parts of files are smaller. */
export const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** The most bytes of the first read, which shows the size of the object. Nearly all objects fit. */
const FIRST_BYTES = 8 * 1024 * 1024;

const WHOLE = { from: 0, to: Number.MAX_SAFE_INTEGER };

const NEVER_KEPT = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' };
const OBJECT_HEADERS = {
  'Content-Type': 'application/octet-stream',
  'Cache-Control': 'private, max-age=31536000, immutable',
  'X-Content-Type-Options': 'nosniff',
  'Accept-Ranges': 'bytes',
};
/** The only object that changes. */
const COLLECTED_HEADERS = { ...NEVER_KEPT, 'Content-Type': 'application/json' };

/** The kinds of objects that pages read. */
const SERVED: ReadonlySet<ParsedKey['kind']> = new Set(['chunk', 'root', 'body', 'collected']);

/**
 * Answers a page's request for an object with all bytes (200) or those of a range (206). The status
 * is 404 if there is no object, 416 if it has no such bytes, and 413 if they are too many for one
 * answer. It is 403 for keys of logs that the user may not read, and of objects that pages do not
 * need.
 *
 * No answer can be shown as a page of the application, even if a file of an entry is a page. Only
 * the browser of this user may keep an object, and only if it never changes.
 * @param key as `urlOf` got it, after the server has decoded the URL
 * @throws the errors of `allows` and of the store: log them, and answer with the status 500
 */
export async function answerObjectRequest(
  { blobs, parseLog }: { readonly blobs: Pick<BlobStore, 'getRange'>; readonly parseLog: ParseLog },
  key: string,
  options: ObjectOptions,
): Promise<ObjectAnswer> {
  const parsed = typeof key === 'string' ? parseKey(key) : undefined;
  if (parsed === undefined || !SERVED.has(parsed.kind)) return refusal(403, 'a page reads no such object');
  const log = logOf(parsed, options.log, parseLog);
  // A caller without types may forget a promise or return undefined. Only true allows.
  if (log === undefined || (await options.allows(log, 'read', [])) !== true) {
    return refusal(403, 'the server does not allow this user to read the log of the object');
  }
  const range = rangeOf(options.range);
  const first = await blobs.getRange(key, limited(range ?? WHOLE));
  if (first === undefined) return refusal(404, 'there is no such object');
  const { from, to } = clampRange(range ?? WHOLE, first.size);
  if (to - from > MAX_ANSWER_BYTES) return refusal(413, `ask for at most ${MAX_ANSWER_BYTES} bytes at a time`);
  const part = to - from > first.bytes.length ? await blobs.getRange(key, { from, to }) : first;
  if (part === undefined) return refusal(404, 'there is no such object');
  const headers = parsed.kind === 'collected' ? COLLECTED_HEADERS : OBJECT_HEADERS;
  const body = inOwnBuffer(part.bytes);
  if (range === undefined) return { status: 200, headers, body };
  if (from === to) return refusal(416, 'the object has no such bytes', { 'Content-Range': `bytes */${first.size}` });
  return { status: 206, headers: { ...headers, 'Content-Range': `bytes ${from}-${to - 1}/${part.size}` }, body };
}

/** The log of a key; undefined if it is another one than the page named, or none of these logs. */
function logOf({ name }: ParsedKey, named: string | undefined, parseLog: ParseLog): LogId | undefined {
  const id = named ?? logOfName(name);
  if (id === undefined) return undefined;
  try {
    const log = parseLog(id);
    return logName(log) === name ? log : undefined;
  } catch (error) {
    if (error instanceof LogIdInvalidError) return undefined;
    throw error;
  }
}

/** One range of bytes: `bytes=0-9`, `bytes=10-` or `bytes=-10`; undefined for all others. */
function rangeOf(header: string | undefined): BlobRange | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? [];
  if (first === '') return last === '' ? undefined : { last: Number(last) };
  const range = { from: Number(first), to: last === '' ? WHOLE.to : Number(last) + 1 };
  return range.from < range.to ? range : undefined;
}

/** A part of a range with the bytes of the first read. */
function limited(range: BlobRange): BlobRange {
  if ('last' in range) return { last: Math.min(range.last, FIRST_BYTES) };
  return { from: range.from, to: Math.min(range.to, range.from + FIRST_BYTES) };
}

/** The bytes in a buffer that has nothing else, without a copy if it is so already. */
function inOwnBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length ? new Uint8Array(buffer) : bytes.slice();
}

function refusal(status: ObjectAnswer['status'], reason: string, headers: Record<string, string> = {}): ObjectAnswer {
  const all = { 'Content-Type': 'text/plain; charset=utf-8', ...NEVER_KEPT, ...headers };
  return { status, headers: all, body: new TextEncoder().encode(`${reason}\n`) };
}
