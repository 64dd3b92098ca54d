import { deepStrictEqual } from 'node:assert';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { toBase64 } from '../../src/codec/bytes.ts';
import type { Value } from '../../src/codec/value.ts';
import { LogfoldError } from '../../src/errors.ts';
import { type LogId, textLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { type AttributeValue, type Item, valueFromAttribute, valueFromMap } from '../../src/log/attribute.ts';
import { decodeEntryBody } from '../../src/log/body.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import { endOf, entryAt, entryOfItem, itemsBefore, newestEntryOf } from '../../src/log/schedule.ts';
import { itemSeconds } from '../../src/mapping/item-time.ts';
import { indexOfKey, keyOf, logOfKey, maxIndex } from '../../src/mapping/key-pattern.ts';
import { type MappingDocument, parseMapping, type SchemaMapping } from '../../src/mapping/schema-mapping.ts';
import { toApplicationItem, toEntry, toEntryItem } from '../../src/mapping/translate.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** Among them names with a meaning in logfold's schema and in JavaScript. */
const NAMES = [...'SNCTVBQXIMEWOZ', ...['pk', 'sk', 'ts', 'payload', 'name with spaces', '__proto__', 'constructor']];
const text = fc.string({ unit: 'grapheme', maxLength: 8 });
const around = text.map((each) => each.replaceAll(/[{}]/g, '#'));
const bytes = fc.uint8Array({ maxLength: 8 }).map((each) => Uint8Array.from(each));
const numberText = fc.oneof(
  fc.integer().map(String),
  fc.constantFrom('0', '-0', '1.50', '1E+20', '1e-7', '007', '12345678901234567', '-1.25', '18446744073709551615'),
  fc.constantFrom('18446744073709551616', '-0.33333333333333333333333333333333333333', '1.234567890123456789E-130'),
);
const ascending = <T>(values: fc.Arbitrary<T>, textOf: (value: T) => string) =>
  fc
    .uniqueArray(values, { minLength: 1, maxLength: 4, selector: textOf })
    .map((found) => found.sort((a, b) => (textOf(a) < textOf(b) ? -1 : 1)));
const same = (each: string) => each;

/** Attributes of every type. Archives sort the members of sets. */
const attribute: fc.Arbitrary<AttributeValue> = fc.letrec<{ any: AttributeValue }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    text.map((S) => ({ S })),
    numberText.map((N) => ({ N })),
    bytes.map((B) => ({ B })),
    fc.boolean().map((BOOL) => ({ BOOL })),
    fc.constant<AttributeValue>({ NULL: true }),
    ascending(text, same).map((SS) => ({ SS })),
    ascending(numberText, same).map((NS) => ({ NS })),
    ascending(bytes, toBase64).map((BS) => ({ BS })),
    fc.array(tie('any'), { maxLength: 4 }).map((L) => ({ L })),
    fc.array(fc.tuple(fc.constantFrom(...NAMES, 'deep'), tie('any')), { maxLength: 4 }).map((entries) => ({
      M: Object.fromEntries(entries),
    })),
  ),
})).any;

/** A document with different names everywhere. */
const mapping: fc.Arbitrary<SchemaMapping> = fc
  .record({
    names: fc.shuffledSubarray(NAMES, { minLength: 7, maxLength: 7 }),
    partition: fc.record({ type: fc.constantFrom('S', 'B'), before: around, after: around }),
    digits: fc.option(fc.integer({ min: 1, max: 32 })),
    first: fc.constantFrom(0, 1),
    before: around,
    type: fc.option(fc.constantFrom('Placed', 'T')),
    version: fc.option(fc.nat()),
    time: fc.option(fc.constantFrom('iso', 's', 'ms')),
    body: fc.constantFrom('native', 'json', 'item'),
    hasTtl: fc.boolean(),
  })
  .map(({ names, ...given }): SchemaMapping => {
    const [pk = '', sk = '', type = '', version = '', time = '', body = '', ttl = ''] = names;
    const pattern = `${given.before}{n:${given.digits}}${given.partition.after}`;
    const document: MappingDocument = {
      partitionKey: {
        name: pk,
        type: given.partition.type,
        pattern: `${given.partition.before}{id}${given.partition.after}`,
      },
      sortKey:
        given.digits === null
          ? { name: sk, type: 'N', first: given.first }
          : { name: sk, type: 'S', first: given.first, pattern },
      type: given.type === null ? type : { constant: given.type },
      version: given.version === null ? version : { constant: given.version },
      ...(given.time !== null && { time: { name: time, format: given.time } }),
      body: given.body === 'item' ? { item: true } : { name: body, format: given.body },
      ...(given.hasTtl && { ttl }),
    };
    return parseMapping(document);
  });

const log = fc.oneof(fc.uuid(), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 })).map(textLogId);

interface Case {
  readonly mapping: SchemaMapping;
  readonly place: { readonly log: LogId; readonly position: Position; readonly index: number };
  readonly item: Item;
}

const TIMES = {
  iso: fc.constantFrom<AttributeValue>({ S: '2026-01-02T03:04:05.678Z' }, { S: '1999-12-31' }),
  s: fc.nat().map((N): AttributeValue => ({ N: String(N) })),
  ms: fc.nat().map((N): AttributeValue => ({ N: String(N * 1000) })),
};

/** An item of an application that fits a mapping, and its place. */
const fitting: fc.Arbitrary<Case> = fc
  .tuple(mapping, log, fc.nat(), fc.nat(2 ** 32 - 1), fc.nat(2 ** 32 - 1))
  .chain(([mapping, log, number, segment, entry]) => {
    const { type, version, time, body, ttl } = mapping;
    const index = number % (maxIndex(mapping) + 1);
    type Given = readonly [name: string, value: AttributeValue | null];
    const given: fc.Arbitrary<Given>[] = [];
    const add = (name: string, value: fc.Arbitrary<AttributeValue | null>) =>
      given.push(value.map((attribute): Given => [name, attribute]));
    if ('attribute' in type) {
      add(
        type.attribute,
        text.map((S) => ({ S: `t${S}` })),
      );
    }
    if ('attribute' in version) add(version.attribute, fc.constantFrom({ N: '1' }, { N: '007' }));
    if (time !== undefined) add(time.attribute, TIMES[time.format]);
    if (body !== 'whole item') {
      add(body.attribute, fc.option(body.format === 'json' ? fc.json().map((S) => ({ S })) : attribute));
    }
    if (ttl !== undefined) add(ttl, fc.option(fc.nat().map((N) => ({ N: String(N) }))));
    const free = fc.array(fc.tuple(fc.constantFrom(...NAMES, 'other'), attribute), { maxLength: 6 });
    return fc.tuple(free, fc.tuple(...given)).map(([others, named]): Case => {
      const attributes = new Map<string, AttributeValue>(others);
      for (const [name, value] of named) {
        if (value === null) attributes.delete(name);
        else attributes.set(name, value);
      }
      for (const [name, value] of Object.entries(keyOf(mapping, log, index))) attributes.set(name, value);
      return { mapping, item: Object.fromEntries(attributes), place: { log, position: { segment, entry }, index } };
    });
  });

test('an item is translated back exactly, also from the line of an archive', () => {
  fc.assert(
    fc.property(fitting, ({ mapping, item, place }) => {
      const line = encodeItemLine(toEntryItem(mapping, item, place));
      deepStrictEqual(toApplicationItem(mapping, decodeItemLine(line)), item);
    }),
    { numRuns: propertyRuns(3000) },
  );
});

test('a translated item is an entry with the body, the type and the number of the item', () => {
  fc.assert(
    fc.property(fitting, ({ mapping, item, place }) => {
      const entry = decodeEntry(toEntryItem(mapping, item, place));
      expect(entry).toMatchObject({ log: place.log, position: place.position, number: place.index + 1 });
      for (const name of ['id', 'external', 'metadata', 'once']) expect(entry).not.toHaveProperty(name);
      deepStrictEqual(decodeEntryBody(entry), expectedBody(mapping, item));
      expect(entry.type).toBe(
        'constant' in mapping.type ? mapping.type.constant : textIn(item[mapping.type.attribute]),
      );
    }),
    { numRuns: propertyRuns(3000) },
  );
});

/** A fitting item with another attribute under one of its names, or without it. */
const changed: fc.Arbitrary<Case> = fitting.chain((given) =>
  fc
    .tuple(fc.constantFrom(...Object.keys(given.item)), fc.option(attribute, { nil: undefined }))
    .map(([name, value]) => {
      const kept = Object.entries(given.item).filter(([each]) => each !== name);
      return { ...given, item: Object.fromEntries(value === undefined ? kept : [...kept, [name, value]]) };
    }),
);

/** The result of a function, or the error that it throws. */
function outcome(work: () => unknown): unknown {
  try {
    return { result: work() };
  } catch (error) {
    if (!(error instanceof LogfoldError)) throw error;
    return { error: error.toJSON() };
  }
}

test('an entry from an item equals the entry from its translation, and so do the errors', () => {
  fc.assert(
    fc.property(fc.oneof(fitting, changed), ({ mapping, item, place }) => {
      deepStrictEqual(
        outcome(() => toEntry(mapping, item, place)),
        outcome(() => decodeEntry(toEntryItem(mapping, item, place))),
      );
    }),
    { numRuns: propertyRuns(3000) },
  );
});

test('a time in ISO 8601 is read in whole seconds, in every form of the same time', () => {
  const times = fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-12-31T23:59:59Z') });
  fc.assert(
    fc.property(times, (date) => {
      const text = date.toISOString();
      const seconds = Math.floor(date.getTime() / 1000);
      for (const S of [text, text.toLowerCase(), text.replace('T', ' '), text.replace(/\.\d+Z/, '+00:00')]) {
        expect(itemSeconds({ S }, 'iso')).toBe(seconds);
      }
    }),
    { numRuns: propertyRuns(1000) },
  );
});

test('a text of digits in the form of a time is one only if the day and the time exist', () => {
  const upTo = (most: number) => fc.nat(most).map((number) => String(number).padStart(2, '0'));
  const parts = fc.tuple(fc.integer({ min: 1900, max: 2100 }), upTo(13), upTo(32), upTo(25), upTo(61), upTo(61));
  fc.assert(
    fc.property(parts, ([year, month, day, hours, minutes, seconds]) => {
      const common = `${year}-${month}-${day}T${hours}:${minutes}:${seconds}.000Z`;
      // The general reader takes every form except the common one.
      expect(itemSeconds({ S: common }, 'iso')).toBe(itemSeconds({ S: common.replace('.000', '') }, 'iso'));
    }),
    { numRuns: propertyRuns(3000) },
  );
});

function expectedBody(mapping: SchemaMapping, item: Item): Value {
  const { body } = mapping;
  if (body === 'whole item') {
    return valueFromMap(Object.fromEntries(Object.entries(item).filter(([name]) => !mapping.names.has(name))));
  }
  const found = Object.hasOwn(item, body.attribute) ? item[body.attribute] : undefined;
  if (found === undefined) return null;
  return body.format === 'json' ? JSON.parse(textIn(found)) : valueFromAttribute(found);
}

function textIn(attribute: AttributeValue | undefined): string {
  return attribute !== undefined && 'S' in attribute ? attribute.S : '';
}

test('log and index are read back from the key', () => {
  fc.assert(
    fc.property(fitting, ({ mapping, item, place }) => {
      expect(logOfKey(mapping, item)).toBe(place.log);
      expect(indexOfKey(mapping, item)).toBe(place.index);
    }),
    { numRuns: propertyRuns(1000) },
  );
});

const schedule = fc.record({
  first: fc.nat(1000),
  items: fc.integer({ min: 1, max: 50 }),
  snapshotEvery: fc.integer({ min: 1, max: 60 }),
});

test('a schedule gives each item one entry, in order, and every other entry is virtual', () => {
  fc.assert(
    fc.property(schedule, (schedule) => {
      const { first, items, snapshotEvery } = schedule;
      const entries = Array.from({ length: endOf(schedule) + 1 }, (_, entry) => entryAt(schedule, entry));
      const indexes = entries.flatMap((entry) => (entry?.kind === 'item' ? [entry.index] : []));
      expect(indexes).toEqual(Array.from({ length: items }, (_, i) => first + i));
      for (const index of indexes)
        expect(entryAt(schedule, entryOfItem(schedule, index))).toEqual({ kind: 'item', index });
      expect(entries[0]).toEqual({ kind: 'snapshot', items: first });
      expect(entries.at(-1)).toEqual({ kind: 'end segment', items: first + items });
      const snapshots = entries.flatMap((entry) => (entry?.kind === 'snapshot' ? [entry.items - first] : []));
      expect(snapshots).toEqual(snapshots.map((_, block) => block * snapshotEvery));
      expect(snapshots).toHaveLength(Math.ceil(items / snapshotEvery));
      expect(entryAt(schedule, endOf(schedule) + 1)).toBeUndefined();
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('the entries of a range have the items that the schedule says', () => {
  fc.assert(
    fc.property(schedule, fc.nat(120), fc.nat(120), (schedule, a, b) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)];
      const numbers = Array.from({ length: to - from }, (_, i) => from + i);
      const indexes = numbers
        .map((entry) => entryAt(schedule, entry))
        .flatMap((entry) => (entry?.kind === 'item' ? [entry.index] : []));
      const [first, after] = [itemsBefore(schedule, from), itemsBefore(schedule, to)];
      expect(indexes).toEqual(Array.from({ length: after - first }, (_, i) => first + i));
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('the newest entry of a segment is the last one whose items all exist', () => {
  fc.assert(
    fc.property(schedule, fc.nat(1100), (schedule, items) => {
      const entries = Array.from({ length: endOf(schedule) + 1 }, (_, entry) => entry);
      const exists = (entry: number) => itemsBefore(schedule, entry + 1) <= items;
      const present = items < schedule.first ? [] : entries.filter(exists);
      expect(newestEntryOf(schedule, items)).toBe(present.at(-1));
    }),
    { numRuns: propertyRuns(500) },
  );
});
