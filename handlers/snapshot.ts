import { jobsHandler } from './jobs-handler.ts';

/** Runs snapshot and rebuild jobs. */
export const handler = await jobsHandler('SNAPSHOT_QUEUE_URL');
