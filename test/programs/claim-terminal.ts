/** Preloaded before a program: its standard error claims to be a terminal. */
Object.assign(process.stderr, { isTTY: true, columns: 80 });
