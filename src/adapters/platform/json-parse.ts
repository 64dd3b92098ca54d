import { confusesNames, parseJson, parseJsonWith } from '../../codec/json.ts';

/**
 * Replaces `JSON.parse` of this process, if the runtime's confuses names; see {@link parseJson}.
 * For processes that belong to logfold: other code of theirs parses data of users too, such as
 * Lambda's runtime, the SDK and a reducer. A library must not call it: the process is not its own.
 */
export function repairJsonParse(): void {
  if (!confusesNames()) return;
  JSON.parse = (text, revive) => {
    const whole = String(text);
    return typeof revive === 'function' ? parseJsonWith(whole, revive) : parseJson(whole);
  };
}
