import * as z from 'zod';
import { LogIdInvalidError } from '../errors.ts';
import { type LogId, type ParseLog, textLogId } from '../ids/log-id.ts';

/**
 * A log id in JSON. It is not in `src/ids`, because pages do not load this library.
 * @param parse the ids to accept; any by default
 */
export function logIdSchema(parse: ParseLog = textLogId) {
  return z.string().transform((text, context): LogId => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof LogIdInvalidError)) throw error;
      context.addIssue({ code: 'custom', message: error.reason, input: text });
      return z.NEVER;
    }
  });
}
