import { jobsHandler } from './jobs-handler.ts';

/** Settles, archives, expires and collects. */
export const handler = await jobsHandler('MAINTENANCE_QUEUE_URL');
