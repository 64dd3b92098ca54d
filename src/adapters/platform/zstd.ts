/**
 * The npm package has a copy of zstd-codec in place of this module. `.ci/build-package.ts` makes
 * the copy, because bundlers for browsers stop at the modules of Node that zstd-codec names.
 */
export { type Zstd, ZstdCodec } from 'zstd-codec';
