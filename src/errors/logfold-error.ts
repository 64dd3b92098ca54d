/**
 * The place in a log that an error belongs to. Every part is optional: some errors belong to no
 * entry.
 */
export interface Where {
  readonly log?: string | undefined;
  readonly segment?: number | undefined;
  readonly entry?: number | undefined;
  /** Type of the entry. */
  readonly type?: string | undefined;
}

export interface ErrorDetails extends Where {
  /**
   * The next step for a person, as an instruction without a final full stop. `LOG` stands for the
   * log's id.
   */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
}

/** Advice for an object of a snapshot that is missing or damaged. */
export const REBUILD_ADVICE =
  "Restore the object from a version or a backup of the bucket, or run 'logfold sweep --rebuild --log LOG'; 'logfold verify LOG' says what else is wrong";

/**
 * The base of all errors that logfold throws on purpose. `code` never changes after a release.
 * `message` says what happened, where, and what to do next.
 */
export abstract class LogfoldError extends Error {
  abstract readonly code: string;
  /**
   * True if stored data is wrong, so a retry cannot help: the error stops the log's snapshots until
   * a person acts. False if the caller made a mistake or the error is transient.
   */
  readonly stopsLog: boolean = false;
  log: string | undefined;
  segment: number | undefined;
  entry: number | undefined;
  type: string | undefined;
  /** The message without place and advice. */
  readonly reason: string;
  readonly #advice: string | undefined;

  constructor(reason: string, details: ErrorDetails = {}) {
    super(describe(reason, details), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.reason = reason;
    this.log = details.log;
    this.segment = details.segment;
    this.entry = details.entry;
    this.type = details.type;
    this.#advice = details.advice;
  }

  /**
   * The next step for a person. The log's id replaces `LOG` as soon as it is known, so that
   * commands can be pasted.
   */
  get advice(): string | undefined {
    return withLogId(this.#advice, this.log);
  }

  /**
   * Adds the parts of the place that the error does not have yet. For callers that know more than
   * the thrower.
   */
  at(where: Where): this {
    this.log ??= where.log;
    this.segment ??= where.segment;
    this.entry ??= where.entry;
    this.type ??= where.type;
    const { log, segment, entry, type } = this;
    this.message = describe(this.reason, { log, segment, entry, type, advice: this.#advice });
    return this;
  }

  toJSON(): Record<string, unknown> {
    return {
      code: this.code,
      message: this.message,
      log: this.log,
      segment: this.segment,
      entry: this.entry,
      type: this.type,
      advice: this.advice,
    };
  }
}

function describe(reason: string, details: ErrorDetails): string {
  const advice = withLogId(details.advice, details.log);
  return `${reason}${describeWhere(details)}${advice === undefined ? '' : `. ${advice}.`}`;
}

function describeWhere(where: Where): string {
  const parts: string[] = [];
  if (where.log !== undefined) parts.push(`log ${printable(where.log)}`);
  if (where.segment !== undefined) parts.push(`segment ${where.segment}`);
  if (where.entry !== undefined) parts.push(`entry ${where.entry}`);
  if (where.type !== undefined) parts.push(`type '${where.type}'`);
  return parts.length === 0 ? '' : ` [${parts.join(', ')}]`;
}

function withLogId(advice: string | undefined, log: string | undefined): string | undefined {
  return log === undefined ? advice : advice?.replaceAll(/\bLOG\b/g, () => logWord(log));
}

/** An id as one word of a shell command. One that begins with a hyphen would be an option. */
function logWord(log: string): string {
  return log.startsWith('-') ? shellWord(log).replace('-', HYPHEN) : shellWord(log);
}

/** Stands for the first character of an id. {@link unprintable} gives it back. */
const HYPHEN = '\\u{2d}';

/**
 * A text in which escapes replace characters that move a cursor or cannot be seen, and each
 * backslash that would begin such an escape.
 */
export function printable(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]|\\(?=u\{)/gu, (found) => `\\u{${found.codePointAt(0)?.toString(16)}}`);
}

/** The inverse of {@link printable}. Other escapes stay as they are, except that of a hyphen. */
export function unprintable(text: string): string {
  return text.replaceAll(/\\u\{([0-9a-f]{1,6})\}/g, (found, digits: string) => {
    const code = Number.parseInt(digits, 16);
    const character = code > 0x10ffff ? '' : String.fromCodePoint(code);
    return printable(character) === found || character === '\\' || found === HYPHEN ? character : found;
  });
}

/** A text as one word of a shell command. */
export function shellWord(text: string): string {
  return /^[\w./][\w@%+=:,./#-]*$/.test(text) ? text : `'${printable(text).replaceAll("'", "'\\''")}'`;
}
