/**
 * Preloaded before a program: its standard error claims to be a terminal, and so does its standard
 * output if the variable has a width.
 */
const columns = Number(process.env.CLAIMED_COLUMNS ?? 80);
Object.assign(process.stderr, { isTTY: true, columns });
if (process.env.CLAIMED_COLUMNS !== undefined) Object.assign(process.stdout, { isTTY: true, columns });
