/**
 * Preloaded before a program. A write past the limit of `ulimit -f` fails instead of killing the
 * process.
 */
process.on('SIGXFSZ', () => {});
