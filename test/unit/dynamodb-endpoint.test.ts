import { createServer, type RequestListener } from 'node:http';
import { expect, test } from 'vitest';
import { requireDynamoDb } from '../../src/adapters/dynamodb/endpoint.ts';
import { StoreUnavailableError } from '../../src/errors.ts';

/** Checks a server of which every answer is the same. */
async function check(answer: RequestListener, answerMs?: number): Promise<void> {
  const server = createServer(answer);
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen');
  try {
    await requireDynamoDb(`http://127.0.0.1:${address.port}`, answerMs);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test.each([
  ['a list of tables', 200, '{"TableNames":["Entry"]}'],
  ['a refusal', 400, '{"__type":"com.amazon.coral.service#MissingAuthenticationTokenException"}'],
])('%s is an answer of DynamoDB', async (_, status, body) => {
  await check((_request, response) => response.writeHead(status).end(body));
});

test.each([
  ['a web page', 200, '<html></html>'],
  ['nothing', 200, ''],
  ['other JSON', 200, '{"status":"ok"}'],
  ['a number', 200, '7'],
])('%s is not an answer of DynamoDB', async (_, status, body) => {
  const checking = check((_request, response) => response.writeHead(status).end(body));
  await expect(checking).rejects.toThrow(StoreUnavailableError);
  await expect(checking).rejects.toThrow('does not respond like DynamoDB');
});

test('a client gives up a server that accepts a request and stays silent', async () => {
  const checking = check(() => {}, 50);
  await expect(checking).rejects.toThrow(StoreUnavailableError);
  await expect(checking).rejects.toThrow('did not answer within 0.05 seconds');
});
