/** The part of zstd-codec that logfold uses. The package has no types. */
declare module 'zstd-codec' {
  export interface ZstdGeneric {
    /**
     * The content size in bytes from a frame's header; null if the header has none or the bytes are
     * not a frame.
     */
    contentSize(frame: Uint8Array): number | null;
  }

  export interface ZstdSimple {
    /** A frame that states its content size; null after a failure. */
    compress(content: Uint8Array, level?: number): Uint8Array | null;
    /** Allocates the stated content size; null if this is 0 or the frame is damaged. */
    decompress(frame: Uint8Array): Uint8Array | null;
  }

  export interface Zstd {
    readonly Generic: new () => ZstdGeneric;
    readonly Simple: new () => ZstdSimple;
  }

  export const ZstdCodec: {
    /** Starts an instance of the WebAssembly module and calls back when it is ready. */
    run(ready: (zstd: Zstd) => void): void;
  };
}
