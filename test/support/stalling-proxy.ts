import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';

/** Forwards some number of requests to a server, and leaves later requests without an answer. */
export class StallingProxy {
  readonly endpoint: string;
  /** Number of received requests. */
  requests = 0;
  readonly #server: Server;
  readonly #target: string;
  #answered = Number.POSITIVE_INFINITY;
  #stalled = Promise.withResolvers<void>();
  readonly #held = new Map<ServerResponse, IncomingMessage>();

  private constructor(server: Server, target: string, endpoint: string) {
    this.#server = server;
    this.#target = target;
    this.endpoint = endpoint;
  }

  static async start(target: string): Promise<StallingProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
    const proxy = new StallingProxy(server, target, `http://127.0.0.1:${address.port}`);
    server.on('request', (incoming, outgoing) => {
      proxy.requests++;
      if (proxy.requests > proxy.#answered) {
        proxy.#held.set(outgoing, incoming);
        proxy.#stalled.resolve();
        return;
      }
      proxy.#handOn(incoming, outgoing);
    });
    return proxy;
  }

  #handOn(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method, headers, url } = incoming;
    const onward = httpRequest(new URL(url ?? '/', this.#target), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  }

  /**
   * Counts from 0 again, and answers so many requests.
   * @returns a promise that resolves when one more request has come
   */
  answer(requests: number): Promise<void> {
    for (const outgoing of this.#held.keys()) outgoing.destroy();
    this.#held.clear();
    this.requests = 0;
    this.#answered = requests;
    this.#stalled = Promise.withResolvers();
    return this.#stalled.promise;
  }

  /** Forwards the requests without an answer and all later ones. */
  release(): void {
    this.#answered = Number.POSITIVE_INFINITY;
    for (const [outgoing, incoming] of this.#held) this.#handOn(incoming, outgoing);
    this.#held.clear();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
