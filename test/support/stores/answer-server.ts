import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An HTTP response, word for word. */
export interface HttpAnswer {
  readonly body: string | Uint8Array;
  /** 200 by default. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** After half of the body, the connection breaks off, or nothing more comes. */
  readonly half?: 'breaks off' | 'stalls';
}

/** A server on 127.0.0.1 that gives prepared answers to any requests. */
export class AnswerServer {
  /** Bodies of the received requests, in order. */
  readonly received: string[] = [];
  readonly #server: Server;
  #answers: readonly HttpAnswer[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<AnswerServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const self = new AnswerServer(server);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { body, status = 200, headers, half } = self.#next();
        self.received.push(Buffer.concat(chunks).toString());
        const bytes = Buffer.from(body);
        response.writeHead(status, {
          'content-type': 'application/x-amz-json-1.0',
          'content-length': bytes.length,
          ...headers,
        });
        if (half === undefined) return void response.end(bytes);
        response.write(bytes.subarray(0, bytes.length / 2), () => {
          if (half === 'breaks off') response.destroy();
        });
      });
    });
    return self;
  }

  get endpoint(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  /** Gives these answers from now on, the last one again and again. Forgets what it received. */
  answer(...answers: readonly [HttpAnswer, ...HttpAnswer[]]): void {
    this.received.length = 0;
    this.#answers = answers;
  }

  #next(): HttpAnswer {
    const answer = this.#answers[Math.min(this.received.length, this.#answers.length - 1)];
    if (answer === undefined) throw new Error('the server has no answer');
    return answer;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
