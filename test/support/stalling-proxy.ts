import { createServer, request as httpRequest, type Server, type ServerResponse } from 'node:http';

/** Hands requests on to a server, up to some number of them, and leaves the next ones without an answer. */
export class StallingProxy {
  readonly endpoint: string;
  /** Requests that came. */
  requests = 0;
  readonly #server: Server;
  #answered = Number.POSITIVE_INFINITY;
  #stalled = Promise.withResolvers<void>();
  readonly #held = new Set<ServerResponse>();

  private constructor(server: Server, endpoint: string) {
    this.#server = server;
    this.endpoint = endpoint;
  }

  static async start(target: string): Promise<StallingProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
    const proxy = new StallingProxy(server, `http://127.0.0.1:${address.port}`);
    server.on('request', (incoming, outgoing) => {
      proxy.requests++;
      if (proxy.requests > proxy.#answered) {
        proxy.#held.add(outgoing);
        proxy.#stalled.resolve();
        return;
      }
      const { method, headers, url } = incoming;
      const onward = httpRequest(new URL(url ?? '/', target), { method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(outgoing);
      });
      onward.on('error', () => outgoing.destroy());
      incoming.pipe(onward);
    });
    return proxy;
  }

  /** Counts from 0 again, and answers so many requests. @returns what resolves when one more has come */
  answer(requests: number): Promise<void> {
    for (const outgoing of this.#held) outgoing.destroy();
    this.#held.clear();
    this.requests = 0;
    this.#answered = requests;
    this.#stalled = Promise.withResolvers();
    return this.#stalled.promise;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
