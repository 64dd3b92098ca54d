import { toHex } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import type { ValueObject } from '../codec/value.ts';
import type { Fingerprint } from '../log/meaning.ts';
import type { SchemaMapping } from './schema-mapping.ts';

/**
 * A mapping as JSON, with all defaults written out: the inverse of `parseMapping`. Mappings that
 * translate every item in the same way have equal documents.
 */
export function mappingDocument(mapping: SchemaMapping): ValueObject {
  const { partitionKey, sortKey, type, version, time, body, metadata, ttl } = mapping;
  const { name, first, form } = sortKey;
  return {
    partitionKey: {
      name: partitionKey.name,
      type: partitionKey.type,
      pattern: `${partitionKey.prefix}{id}${partitionKey.suffix}`,
    },
    sortKey:
      form === 'N'
        ? { name, type: 'N', first }
        : { name, type: 'S', first, pattern: `${form.prefix}{n:${form.digits}}${form.suffix}` },
    type: 'attribute' in type ? type.attribute : type,
    version: 'attribute' in version ? version.attribute : version,
    ...(time !== undefined && { time: { name: time.attribute, format: time.format } }),
    body: body === 'whole item' ? { item: true } : { name: body.attribute, format: body.format },
    ...(metadata !== undefined && { metadata }),
    ...(ttl !== undefined && { ttl }),
  };
}

/**
 * The parts of a mapping that decide what the entries of a log are. The TTL attribute decides
 * nothing, unless the body is the whole item.
 */
export function meaningParts(mapping: SchemaMapping): ValueObject {
  const { ttl, ...parts } = mappingDocument(mapping);
  return mapping.body === 'whole item' && ttl !== undefined ? { ...parts, ttl } : parts;
}

/** The hash of a mapping's {@link meaningParts}, in their canonical bytes. */
export function fingerprintOf(platform: Pick<ChunkPlatform, 'sha256'>, mapping: SchemaMapping): Fingerprint {
  return toHex(platform.sha256(encodeValue(meaningParts(mapping))));
}

/** Names the parts in which two mappings differ, with their values, for messages. */
export function describeDifference(other: SchemaMapping, own: SchemaMapping): string {
  const [theirs, ours] = [Object.entries(meaningParts(other)), Object.entries(meaningParts(own))].map(
    (parts) => new Map(parts.map(([name, value]) => [name, JSON.stringify(value)])),
  );
  const names = [...new Set([...(theirs?.keys() ?? []), ...(ours?.keys() ?? [])])];
  return names
    .filter((name) => theirs?.get(name) !== ours?.get(name))
    .map((name) => `'${name}' is ${theirs?.get(name) ?? 'absent'} there and ${ours?.get(name) ?? 'absent'} here`)
    .join(', and ');
}
