/** Loaded into a process before its program: it claims to run in a Node that is too old. Its children do not. */
Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.0.0' } });
delete process.env.NODE_OPTIONS;
