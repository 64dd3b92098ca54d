import { jobsHandler } from './jobs-handler.ts';

/** Runs flush, archive, expire and collect jobs. */
export const handler = await jobsHandler('MAINTENANCE_QUEUE_URL');
