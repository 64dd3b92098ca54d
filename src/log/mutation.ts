import { UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { type AttributeValue, type StoredAttribute, wholeNumber } from './attribute.ts';
import type { ClientMutation } from './entry.ts';

/** The most UTF-16 code units of a client's name. The name is a key in every state. */
const MAX_CLIENT_LENGTH = 256;

/**
 * Checks the mutations of entries that are appended together.
 * @throws UsageError if a client or a number is invalid, or the numbers of a client do not ascend
 */
export function checkMutations(log: LogId, entries: readonly { readonly once?: ClientMutation | undefined }[]): void {
  const newest = new Map<string, number>();
  for (const { once } of entries) {
    if (once === undefined) continue;
    if (typeof once !== 'object' || once === null) {
      throw new UsageError(`once is ${once === null ? 'null' : shown(once)}`, {
        log,
        advice: 'Give an object with a client and a mutation, or omit it',
      });
    }
    const { client, mutation } = once;
    if (!isClient(client)) {
      throw new UsageError(`${shown(client)} cannot name the client of a mutation`, {
        log,
        advice: `Give well-formed text of 1 to ${MAX_CLIENT_LENGTH} UTF-16 code units, such as a UUID`,
      });
    }
    if (!isNumber(mutation) || mutation <= (newest.get(client) ?? 0)) {
      throw new UsageError(`${shown(mutation)} cannot be the next mutation of client '${client}'`, {
        log,
        advice: 'Number the mutations of each client in ascending order, with whole numbers of at least 1',
      });
    }
    newest.set(client, mutation);
  }
}

/** Encodes a mutation as a List of client and number. */
export function encodeMutation({ client, mutation }: ClientMutation): AttributeValue {
  return { L: [{ S: client }, { N: String(mutation) }] };
}

/**
 * The inverse of {@link encodeMutation}; undefined if there is no mutation. Any other attribute
 * belongs to another program.
 */
export function decodeMutation(attribute: StoredAttribute | undefined): ClientMutation | undefined {
  if (attribute?.L?.length !== 2) return undefined;
  const client = attribute.L[0]?.S;
  const mutation = wholeNumber(attribute.L[1]?.N ?? '');
  return isClient(client) && isNumber(mutation) ? { client, mutation } : undefined;
}

function isClient(client: unknown): client is string {
  return typeof client === 'string' && client !== '' && client.length <= MAX_CLIENT_LENGTH && client.isWellFormed();
}

function isNumber(mutation: unknown): mutation is number {
  return Number.isSafeInteger(mutation) && Number(mutation) > 0;
}

function shown(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' ? `'${value.slice(0, 300)}'` : `a value of type ${typeof value}`;
}
