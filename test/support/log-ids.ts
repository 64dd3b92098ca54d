import fc from 'fast-check';
import { isUuid, type LogId, MAX_LOG_ID_BYTES, parseLogId, textLogId } from '../../src/ids/log-id.ts';
import { anyCharacter } from './models/values.ts';

export const uuidLogs: fc.Arbitrary<LogId> = fc.uuid().map(parseLogId);

const letters = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 60 });
/** The last letters of these look like a segment number, padding or a part of a path. */
const suffixed = fc
  .tuple(fc.string({ minLength: 1, maxLength: 24 }), fc.constantFrom('\0\0\0\0', '\0\0\0\x01', 'ÿ', '/', '..', '~'))
  .map(([text, suffix]) => text + suffix);
const path = fc
  .array(fc.constantFrom('.', '..', '/', '~', '%', 'a', 'A', 'order#'), { minLength: 1, maxLength: 8 })
  .map((parts) => parts.join(''));
/** 1 to 2,000 bytes, most of them near a limit. */
const long = fc
  .tuple(fc.constantFrom('x', 'X', '/', 'ä', '€', '😀'), fc.integer({ min: 1, max: MAX_LOG_ID_BYTES }))
  .map(([letter, bytes]) => letter.repeat(Math.max(1, Math.floor(bytes / Buffer.byteLength(letter)))));
/** A UUID of digits alone has no upper case. */
const almostUuid = fc
  .uuid()
  .map((uuid) => uuid.toUpperCase())
  .filter((text) => !isUuid(text));

/** Ids of mapped logs: text that is not a UUID in lower case. */
export const textLogs: fc.Arbitrary<LogId> = fc.oneof(letters, suffixed, path, long, almostUuid).map(textLogId);

/** Any log ids. */
export const anyLogs: fc.Arbitrary<LogId> = fc.oneof(uuidLogs, textLogs);
