/** Loaded into a process before its program: its standard error claims to be a terminal, whatever it is. */
Object.assign(process.stderr, { isTTY: true, columns: 80 });
