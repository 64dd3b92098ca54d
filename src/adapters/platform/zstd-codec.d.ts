/** The part of zstd-codec that logfold uses; the package brings no types of its own. */
declare module 'zstd-codec' {
  export interface ZstdGeneric {
    /** The content size in bytes that a frame states in its header; null where it states none or is no frame. */
    contentSize(frame: Uint8Array): number | null;
  }

  export interface ZstdSimple {
    /** A frame that states its content size; null where compressing failed. */
    compress(content: Uint8Array, level?: number): Uint8Array | null;
    /** Allocates what the frame states; null where that is nothing, or where the frame is damaged. */
    decompress(frame: Uint8Array): Uint8Array | null;
  }

  export interface Zstd {
    readonly Generic: new () => ZstdGeneric;
    readonly Simple: new () => ZstdSimple;
  }

  export const ZstdCodec: {
    /** Starts an instance of the WebAssembly module and hands it over once it is ready. */
    run(ready: (zstd: Zstd) => void): void;
  };
}
