import type { LimitFunction } from 'p-limit';
import type { Follower } from './follower.ts';
import { isFinal, type LogWriter, type Unwritten } from './log-writer.ts';
import type { Pending } from './pending-list.ts';
import type { VisibleState } from './visible-state.ts';

/** Bounds of the wait before a pending entry is sent again. */
const MIN_RESEND_MS = 200;
const MAX_RESEND_MS = 30_000;

export interface PendingSenderDeps {
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Aborted when the document is closed. */
  readonly signal: AbortSignal;
  readonly follower: Follower;
  readonly writer: LogWriter;
}

/** Sends the pending entries of a document, in order, until the log has them or refuses them. */
export class PendingSender {
  readonly #deps: PendingSenderDeps;
  readonly #visible: VisibleState;
  #isSending = false;

  constructor(deps: PendingSenderDeps, visible: VisibleState) {
    this.#deps = deps;
    this.#visible = visible;
  }

  /**
   * Sends the pending entries in the background, unless it does so already.
   * @param requests runs each attempt, one request of the document at a time
   */
  start(requests: LimitFunction): void {
    if (!this.#isSending) void this.#send(requests);
  }

  async #send(requests: LimitFunction): Promise<void> {
    const { random, sleep, signal } = this.#deps;
    this.#isSending = true;
    let waitMs = MIN_RESEND_MS;
    while (this.#visible.next !== undefined) {
      const answer = await requests(() => this.#sendNext());
      if (!('error' in answer)) waitMs = MIN_RESEND_MS;
      else {
        await sleep(waitMs * (0.5 + random() / 2), signal);
        waitMs = Math.min(waitMs * 2, MAX_RESEND_MS);
      }
    }
    this.#isSending = false;
  }

  /**
   * Sends entries that are pending now.
   * @param check runs after each one, and throws to give up
   * @throws the error after which one of them is sent again later
   */
  async sendAll(seen: readonly Pending[], check: () => void): Promise<void> {
    const waiting = new Set(seen);
    for (let next = this.#visible.next; next !== undefined && waiting.has(next); next = this.#visible.next) {
      const answer = await this.#sendNext();
      if ('error' in answer) throw answer.error;
      check();
    }
  }

  /** Sends the first pending entry. @returns the error after which it is sent again later */
  async #sendNext(): Promise<{ readonly error?: unknown }> {
    const { follower, writer } = this.#deps;
    const pending = this.#visible.next;
    if (pending === undefined) return {};
    try {
      const { condition } = pending;
      const unwritten: Unwritten = { unsent: [pending], branch: this.#visible.branchOf(pending), condition };
      const added = await writer.append(unwritten, condition === undefined ? {} : { after: condition.after });
      follower.lost.forget(pending.draft);
      await this.#visible.stored(pending, added?.first);
      return {};
    } catch (error) {
      if (isFinal(error)) {
        follower.lost.forget(pending.draft);
        await this.#visible.failed(pending, error);
        return {};
      }
      this.#visible.postponed(pending, error);
      await this.#visible.update().catch(() => undefined);
      return { error };
    }
  }
}
