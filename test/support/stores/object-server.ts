import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type BlobStore, clampRange } from '../../../src/store/blob-store.ts';

/** Answers a request before the objects do. Returns false to let the objects answer. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<boolean> | boolean;

/**
 * A server on 127.0.0.1 that serves the objects of a blob store under `/objects/<key>`, with
 * ranges, as S3 does behind presigned URLs.
 */
export class ObjectServer {
  readonly #server: Server;
  /** The keys of the objects that were asked for, in order. */
  readonly asked: string[] = [];
  /** Bytes of objects that were sent. */
  sentBytes = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(blobs: Pick<BlobStore, 'get'>, handler: Handler = () => false): Promise<ObjectServer> {
    const server = createServer((request, response) => {
      self.#answer(blobs, handler, request, response).catch((error: unknown) => {
        response.statusCode = 500;
        response.end(String(error));
      });
    });
    const self = new ObjectServer(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return self;
  }

  get origin(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  urlOf = (key: string): string => `${this.origin}/objects/${encodeURIComponent(key)}`;

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(blobs: Pick<BlobStore, 'get'>, handler: Handler, request: IncomingMessage, response: ServerResponse) {
    if (await handler(request, response)) return;
    const [, encoded] = /^\/objects\/(.*)$/.exec(request.url ?? '') ?? [];
    const bytes = encoded === undefined ? undefined : await blobs.get(decodeURIComponent(encoded));
    if (encoded !== undefined) this.asked.push(decodeURIComponent(encoded));
    if (bytes === undefined) return void response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>');
    const [, from, to] = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    if (from === undefined || to === undefined) return void this.#send(response.writeHead(200), bytes);
    const asked = from === '' ? { last: Number(to) } : { from: Number(from), to: Number(to) + 1 };
    const range = clampRange(asked, bytes.length);
    if (range.from === range.to) return void response.writeHead(416).end();
    response.writeHead(206, { 'Content-Range': `bytes ${range.from}-${range.to - 1}/${bytes.length}` });
    this.#send(response, bytes.subarray(range.from, range.to));
  }

  #send(response: ServerResponse, bytes: Uint8Array): void {
    this.sentBytes += bytes.length;
    response.end(bytes);
  }
}
