import { parseJson } from '../../codec/json.ts';
import { StoreUnavailableError } from '../../errors.ts';

/** Time limit for the first answer of a server, in milliseconds. */
const ANSWER_MS = 10_000;

/**
 * Checks that a server speaks DynamoDB's API. The SDK would wait for a silent server, and would
 * report only the first byte of a web page. Sends one request without a signature.
 * @param endpoint an http or https URL
 * @throws StoreUnavailableError if the server cannot be reached, is silent for `answerMs`
 * milliseconds (10 seconds by default), or does not respond like DynamoDB
 */
export async function requireDynamoDb(endpoint: string, answerMs: number = ANSWER_MS): Promise<void> {
  const advice = 'Set DYNAMODB_ENDPOINT to the URL of a DynamoDB API, or unset it';
  let text: string;
  try {
    const answer = await fetch(endpoint, {
      method: 'POST',
      headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'DynamoDB_20120810.ListTables' },
      body: '{"Limit":1}',
      signal: AbortSignal.timeout(answerMs),
    });
    text = await answer.text();
  } catch (error) {
    const silent = error instanceof Error && error.name === 'TimeoutError';
    const why = silent ? `did not answer within ${answerMs / 1000} seconds` : `cannot be reached: ${reasonOf(error)}`;
    throw new StoreUnavailableError(`the server at ${endpoint} ${why}`, { advice, cause: error });
  }
  if (isAnswer(text)) return;
  throw new StoreUnavailableError(`the server at ${endpoint} does not respond like DynamoDB`, { advice });
}

/** Whether an answer is a list of tables or an error of the protocol. */
function isAnswer(text: string): boolean {
  try {
    const answer = parseJson(text);
    return typeof answer === 'object' && answer !== null && ('TableNames' in answer || '__type' in answer);
  } catch {
    return false;
  }
}

/** The reason why `fetch` failed. Only its cause shows it. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
}
