/** Loaded into a process before its program: a write past the limit that `ulimit -f` sets fails, and does not kill it. */
process.on('SIGXFSZ', () => {});
