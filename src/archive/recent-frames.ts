import type { FrameLines } from './frame-lines.ts';

/**
 * Bytes of kept frames. About eight ranges of about a frame are read concurrently, and two
 * neighbours share each frame.
 */
const KEPT_BYTES = 16 * 1024 * 1024;

/** A frame of an archive. Another read of the frame has the same object. */
export interface KeptFrame {
  /** Length before compression, in bytes. */
  readonly content: number;
}

/**
 * Recently read frames of several archives. Readers go through neighbouring ranges in parallel, and
 * share the requests for the frames. Keeps the newest frame whatever its length.
 */
export class RecentFrames {
  readonly #frames = new Map<KeptFrame, Promise<FrameLines>>();
  #bytes = 0;

  /** The lines of a frame. Calls `read` unless the frame was read recently. */
  lines(frame: KeptFrame, read: () => Promise<FrameLines>): Promise<FrameLines> {
    const kept = this.#frames.get(frame);
    if (kept !== undefined) return kept;
    const reading = read();
    this.#frames.set(frame, reading);
    this.#bytes += frame.content;
    reading.catch(() => this.#forget(frame));
    for (const oldest of this.#frames.keys()) {
      if (this.#bytes <= KEPT_BYTES || oldest === frame) break;
      this.#forget(oldest);
    }
    return reading;
  }

  #forget(frame: KeptFrame): void {
    if (this.#frames.delete(frame)) this.#bytes -= frame.content;
  }
}
