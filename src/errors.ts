/** All errors with their codes. Import them from this file; `src/errors/` holds them by subject. */
export * from './errors/caller.ts';
export * from './errors/environment.ts';
export * from './errors/log.ts';
export * from './errors/logfold-error.ts';
export * from './errors/state.ts';
export * from './errors/thrown.ts';
