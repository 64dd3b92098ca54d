import type { ChunkPlatform } from '../codec/chunk.ts';
import type { Value } from '../codec/value.ts';
import { CheckpointInvalidError, EntryExistsError, EntryGapError, LogNotFoundError } from '../errors.ts';
import { checkpointOf, MAX_EPOCH_ENTRIES } from '../feed/checkpoint.ts';
import { FEED_ENTRY_VERSIONS, readSpans, type Span } from '../feed/feed-entry.ts';
import { FEED_LOG } from '../feed/feed-log.ts';
import { restartPosition } from '../feed/feed-reducer.ts';
import type { FeedPlace, SpanPlace } from '../feed/group-store.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, MAX_NUMBER, nextPosition, type Position, START } from '../ids/position.ts';
import { BodiesAhead, loadBody } from '../log/body.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import type { LogReader } from '../log/log-store.ts';
import { queryNewest, queryNewestSegments } from '../log/newest.ts';
import { readTail } from '../log/query.ts';
import { lastSnapshotOf, type Segment } from '../log/segment.ts';
import { loadRoot, nodeStore } from '../snapshot/snapshots.ts';
import { Draft } from '../state/draft.ts';
import { checkType } from '../state/reducer.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { inAdvance } from '../tree/read.ts';
import { keptEntries } from './kept-entries.ts';

/** One entry of one log, as the feed delivers it. */
export interface FeedItem {
  /**
   * The checkpoint at which a reader continues after this item. Items that the feed got together
   * have the same one, and come again together until a reader has the last of them.
   */
  readonly checkpoint: number;
  readonly log: LogId;
  /** As `logs.client.query` returns it; Snapshot and End Segment entries too. */
  readonly entry: Entry;
  /**
   * Decodes the body, and loads it if it is in the bucket; null if there is none. Snapshot and
   * End Segment entries have none: a complete Snapshot entry carries a root instead. Throws the
   * errors of a body that cannot be read, so that such an entry stops only those who need its body.
   */
  readonly body: () => Promise<Value>;
}

export interface FeedReaderDeps {
  /** Reads the logs, the feed among them. */
  readonly store: LogReader;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  readonly types: ReservedTypes;
}

/** An item, and the place after it. */
export interface PlacedItem {
  readonly item: FeedItem;
  readonly after: FeedPlace;
}

export interface PassOptions {
  /** The place within the first entry of the feed. */
  readonly within: SpanPlace | undefined;
  /** As in `EntryKeeper`. */
  readonly skipExpired: boolean;
  /**
   * Whether to miss no entry that the feed has when the pass begins. A reader that does not come
   * back soon needs it: a message of the topic may be quicker than eventually consistent reads.
   */
  readonly isFresh: boolean;
}

/** The items from a place up to the end that the feed has when they are read. */
export interface FeedPass {
  readonly items: AsyncIterable<PlacedItem>;
  /** The position after the last entry of the feed that was read. */
  readonly end: Position;
}

/** Spans that are requested ahead. At most 2 MB of entries of each are in memory. */
const SPANS_AHEAD = 16;

/** After the position of every checkpoint. */
const AFTER_ALL: Position = { segment: MAX_NUMBER, entry: MAX_EPOCH_ENTRIES };

/** Attempts to find the end of the feed while epochs begin. */
const END_ATTEMPTS = 3;

/** A span of an entry of the feed. */
interface ListedSpan {
  readonly span: Span;
  /** Its index in the entry of the feed. */
  readonly index: number;
  /** Checkpoint of the entry of the feed. */
  readonly during: number;
  /** The checkpoint after the span: the same, or the next one if it is the last span. */
  readonly end: number;
}

/** A span whose first page has been requested. */
interface BegunSpan extends ListedSpan {
  readonly first: IteratorResult<Entry[]>;
  readonly rest: AsyncGenerator<Entry[]>;
}

/** Reads the feed, and the entries that it lists. */
export class FeedReader {
  readonly #deps: FeedReaderDeps;

  constructor(deps: FeedReaderDeps) {
    this.#deps = deps;
  }

  /** The position after the newest entry of the feed; the start if there is no feed yet. */
  async end(): Promise<Position> {
    for (let attempts = 1; ; attempts++) {
      try {
        return nextPosition((await queryNewest(this.#deps, FEED_LOG, { consistent: true })).position);
      } catch (error) {
        if (error instanceof LogNotFoundError) return START;
        // An epoch began between two requests.
        if (!(error instanceof EntryExistsError) || attempts === END_ATTEMPTS) throw error;
      }
    }
  }

  /**
   * @returns the checkpoint at the end of the feed
   * @throws CheckpointInvalidError if the feed ends before the position
   */
  async requireReached(position: Position): Promise<number> {
    const [given, end] = [checkpointOf(position), checkpointOf(await this.end())];
    if (given <= end) return end;
    throw new CheckpointInvalidError(`the checkpoint ${given} is after the end of the feed, which is ${end}`, {
      advice: `Give a checkpoint up to ${end}. If the feed was lost and begun again, read it from 0`,
    });
  }

  /**
   * The position at which a reader begins that wants everything from a position onward: the same
   * one, or the newest restart after it, since all entries come again there. Looks for a restart
   * only if the feed has a snapshot after the position: a reader that is closer to the end meets it
   * soon.
   */
  async startFrom(position: Position): Promise<Position> {
    const { blobs, platform } = this.#deps;
    const last = lastSnapshotOf(await this.#newestSegments());
    if (last === undefined || comparePositions(last, position) <= 0) return position;
    const { snapshot, pages } = await readTail(this.#deps, FEED_LOG);
    const root = snapshot && (await loadRoot({ blobs, platform }, { log: FEED_LOG, ...snapshot }, snapshot.root));
    let restart = restartPosition(new Draft(nodeStore(this.#deps, FEED_LOG), root?.state));
    for await (const page of pages) {
      restart = page.findLast(({ type }) => type === 'Restart')?.position ?? restart;
    }
    return restart !== undefined && comparePositions(position, restart) < 0 ? restart : position;
  }

  /**
   * The newest restart of the feed after a position; undefined if there is none. Reads all entries
   * of the feed from there.
   */
  async restartAfter(position: Position): Promise<Position | undefined> {
    let restart: Position | undefined;
    for await (const page of this.#feedPages(position, { skipExpired: true, isFresh: true })) {
      restart = page.findLast(({ type }) => type === 'Restart')?.position ?? restart;
    }
    return restart !== undefined && comparePositions(position, restart) < 0 ? restart : undefined;
  }

  /**
   * When the first entry of the feed from a position on was created, in epoch seconds; undefined if
   * there is none. Passes over entries that expired without an archive.
   */
  async createdAt(position: Position): Promise<number | undefined> {
    const range = { from: position, to: 'end', limit: 1 } as const;
    const [page] = await Array.fromAsync(keptEntries({ ...this.#deps, skipExpired: true }, FEED_LOG, range));
    return page?.[0]?.created;
  }

  /**
   * Reading throws CheckpointInvalidError if the feed ends before the position, and the errors of
   * {@link keptEntries}.
   */
  pass(from: Position, { within, skipExpired, isFresh }: PassOptions): FeedPass {
    let end = from;
    const pages = this.#feedPages(from, { skipExpired, isFresh });
    const spans = this.#spans(pages, { position: from, within }, (position) => {
      end = position;
    });
    const items = this.#items(spans, skipExpired);
    return {
      items,
      get end() {
        return end;
      },
    };
  }

  async *#items(spans: AsyncIterable<ListedSpan>, skipExpired: boolean): AsyncGenerator<PlacedItem> {
    const begun = inAdvance(spans, SPANS_AHEAD, (listed) => this.#begin(listed, skipExpired));
    for await (const { span, index, during, end, first, rest } of begun) {
      for (let page = first; page.done !== true; page = await rest.next()) {
        const { blobs, types } = this.#deps;
        const isReserved = ({ type }: Entry): boolean => types.includes(type);
        const external = page.value.filter((entry) => entry.external !== undefined && !isReserved(entry));
        const bodies = new BodiesAhead(blobs, external);
        for (const entry of page.value) {
          const isLast = comparePositions(entry.position, span.to) === 0;
          const checkpoint = isLast ? end : during;
          const after =
            checkpoint === during ? { checkpoint, within: { span: index, to: entry.position } } : { checkpoint };
          const body = async (): Promise<Value> => (isReserved(entry) ? null : bodies.load(entry));
          yield { item: { checkpoint, log: span.log, entry, body }, after };
        }
      }
    }
  }

  /**
   * The spans of pages of the feed, from a place onward.
   * @param read called after each entry of the feed
   */
  async *#spans(
    pages: AsyncIterable<readonly Entry[]>,
    from: { readonly position: Position; readonly within: SpanPlace | undefined },
    read: (end: Position) => void,
  ): AsyncGenerator<ListedSpan> {
    for await (const page of pages) {
      for (const entry of page) {
        const { position } = entry;
        const during = checkpointOf(position);
        const next = nextPosition(position);
        const spans = await this.#spansOf(entry);
        const done = comparePositions(position, from.position) === 0 ? from.within : undefined;
        for (const [index, whole] of spans.entries()) {
          const span = restOf(whole, index, done);
          const end = index === spans.length - 1 ? checkpointOf(next) : during;
          if (span !== undefined) yield { span, index, during, end };
        }
        read(next);
      }
    }
  }

  async #spansOf(entry: Entry): Promise<readonly Span[]> {
    const { types, blobs } = this.#deps;
    if (types.includes(entry.type)) return [];
    const body = await loadBody(blobs, entry);
    checkType(entry, FEED_ENTRY_VERSIONS);
    return entry.type === 'Appends' ? readSpans(body) : [];
  }

  async #begin(listed: ListedSpan, skipExpired: boolean): Promise<BegunSpan> {
    const { log, after, to } = listed.span;
    const range = { from: after === undefined ? START : nextPosition(after), to: nextPosition(to) };
    const rest = keptEntries({ ...this.#deps, concurrency: 1, skipExpired }, log, range);
    return { ...listed, first: await rest.next(), rest };
  }

  /** Pages of the feed's own entries. */
  async *#feedPages(
    from: Position,
    { skipExpired, isFresh }: Pick<PassOptions, 'skipExpired' | 'isFresh'>,
  ): AsyncGenerator<readonly Entry[]> {
    const range = { from, to: isFresh ? AFTER_ALL : ('end' as const), isOpen: true };
    let isThere = false;
    try {
      for await (const page of keptEntries({ ...this.#deps, skipExpired }, FEED_LOG, range)) {
        isThere = true;
        yield page;
      }
    } catch (error) {
      // A feed that was not found may have been created since.
      const wasNotThere = error instanceof LogNotFoundError;
      if (isThere || !(wasNotThere || error instanceof EntryGapError)) throw error;
      const end = await this.requireReached(from);
      if (checkpointOf(from) !== end && !wasNotThere) throw error;
    }
  }

  #newestSegments(): Promise<readonly Segment[]> {
    return queryNewestSegments(this.#deps.store, FEED_LOG).catch((error: unknown) => {
      if (error instanceof LogNotFoundError) return [];
      throw error;
    });
  }
}

/** The part of a span that is not done; undefined if all of it is. */
function restOf(span: Span, index: number, done: SpanPlace | undefined): Span | undefined {
  if (done === undefined || index > done.span) return span;
  if (index < done.span || comparePositions(done.to, span.to) >= 0) return undefined;
  return { ...span, after: done.to };
}
