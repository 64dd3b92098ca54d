import type { MappingDocument } from '../../src/mapping/schema-mapping.ts';

/** The mapping of a table of orders, as a person writes it. */
export const ORDERS_DOCUMENT = {
  partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  type: 'type',
  version: { constant: 1 },
  time: { name: 'ts', format: 'iso' },
  body: 'payload',
} as const satisfies MappingDocument;

/** Like {@link ORDERS_DOCUMENT}, with an attribute for time to live. */
export const EXPIRING_ORDERS = { ...ORDERS_DOCUMENT, ttl: 'expiresAt' } as const satisfies MappingDocument;
