import { jobsHandler } from './jobs-handler.ts';

/** Builds snapshots, and makes them anew. */
export const handler = await jobsHandler('SNAPSHOT_QUEUE_URL');
