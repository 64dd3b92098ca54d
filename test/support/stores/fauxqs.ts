import { Server } from 'node:net';
import { S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { type FauxqsServer, startFauxqs } from 'fauxqs';

const REGION = 'us-east-1';

/** S3 and SQS in this process, on 127.0.0.1 and a free port, with clients for them. */
export interface LocalAws {
  readonly server: FauxqsServer;
  readonly s3: S3Client;
  readonly sqs: SQSClient;
  stop(): Promise<void>;
}

export async function startLocalAws(): Promise<LocalAws> {
  const server = await onLoopback(() => startFauxqs({ port: 0, logger: false, defaultRegion: REGION }));
  const options = {
    endpoint: server.address,
    region: REGION,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  };
  const s3 = new S3Client({ ...options, forcePathStyle: true });
  // The host name in queue URLs resolves only in some environments.
  const sqs = new SQSClient({ ...options, useQueueUrlAsEndpoint: false });
  return {
    server,
    s3,
    sqs,
    async stop() {
      s3.destroy();
      sqs.destroy();
      await server.stop();
    },
  };
}

/**
 * Makes `start` listen on 127.0.0.1 only. The package listens on all addresses and has no option
 * for it.
 */
async function onLoopback<T>(start: () => Promise<T>): Promise<T> {
  const { listen } = Server.prototype;
  Server.prototype.listen = new Proxy(listen, {
    apply: (target, server, [options, ...rest]) =>
      Reflect.apply(target, server, [{ ...options, host: '127.0.0.1' }, ...rest]),
  });
  try {
    return await start();
  } finally {
    Server.prototype.listen = listen;
  }
}
