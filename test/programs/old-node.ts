/**
 * Preloaded before a program. The process claims to run in an unsupported version of Node; its
 * children do not.
 */
Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.0.0' } });
delete process.env.NODE_OPTIONS;
