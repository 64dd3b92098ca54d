import { expect } from 'vitest';
import { UrlBlobStore } from '../../../src/adapters/web/url-blob-store.ts';
import type { Cases } from './case.ts';

const BYTES = Uint8Array.of(1, 2, 3);
const RETRIES = { attempts: 1, baseMs: 0, capMs: 0 };

/** A store whose objects are at `https://here.example`. Another path is refused. */
function storeAt(origin: string): UrlBlobStore {
  const fetch = async (url: string) => {
    if (!url.startsWith('https://here.example')) throw new TypeError('Failed to fetch');
    return url.endsWith('?signed') ? new Response(BYTES) : new Response('', { status: 403 });
  };
  return new UrlBlobStore({ urlOf: (key) => `${origin}/${key}`, fetch, retries: RETRIES });
}

/** Advice about logs that a page reads through the application's own server. */
export const PAGES: Cases = {
  "Check the network, the URL, and that the server allows the page's origin (CORS)": async (refused) => {
    await refused(() => storeAt('https://elsewhere.example').get('one?signed'));
    expect(await storeAt('https://here.example').get('one?signed')).toEqual(BYTES);
  },
  'Let `urlOf` return a URL that this user may read. If the object may be missing, give the signer of the URL s3:ListBucket, so that S3 says so':
    async (refused) => {
      await refused(() => storeAt('https://here.example').get('one'));
      expect(await storeAt('https://here.example').get('one?signed')).toEqual(BYTES);
    },
};
