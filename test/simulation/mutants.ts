/** A fault that is planted into a copy of the sources. */
export interface Mutant {
  readonly name: string;
  /** The wrong behaviour. */
  readonly fault: string;
  /**
   * The test file that finds the fault, relative to the repository. If absent, the simulation finds
   * it.
   */
  readonly test?: string;
  /** The vitest project that runs the test. If absent, every project with the test runs it. */
  readonly project?: 'sources' | 'bundles';
  readonly edits: readonly {
    /** The source file, relative to `src`. */
    readonly file: string;
    /** Must occur exactly once in the file. */
    readonly from: string;
    readonly to: string;
  }[];
}

/** Faults of every part of logfold. The simulation or the named test must find each of them. */
export const MUTANTS: readonly Mutant[] = [
  {
    name: 'last-snapshot-before-root',
    fault: 'Last Snapshot moves before the Snapshot entry carries its root',
    edits: [
      {
        file: 'workers/snapshot/build-snapshot.ts',
        from: '  const ref = await saveRoot(blobs, place, encoded);\n',
        to: '  await deps.tables.advanceLastSnapshot(log, { position }, segment?.lastSnapshot);\n  const ref = await saveRoot(blobs, place, encoded);\n',
      },
    ],
  },
  {
    name: 'root-before-chunks',
    fault: 'a snapshot is completed before its chunks are written',
    edits: [
      {
        file: 'tree/node-store.ts',
        from: '    await Promise.all([...writes, ...this.#early]);\n',
        to: '    Promise.all([...writes, ...this.#early]).catch(() => {});\n',
      },
    ],
  },
  {
    name: 'foreign-chunk',
    fault: 'a chunk is not written if another log has an equal chunk',
    edits: [
      {
        file: 'snapshot/snapshots.ts',
        from: '    put: (id, stored) => blobs.put(chunkKey(log, id), stored),\n',
        to: `    put: async (id, stored) => {
      for await (const { key } of blobs.list('logs/')) if (key.endsWith(id)) return;
      await blobs.put(chunkKey(log, id), stored);
    },
`,
      },
    ],
  },
  {
    name: 'other-reducer',
    fault: 'a new reducer version continues from snapshots of the old version',
    edits: [
      {
        file: 'snapshot/root.ts',
        from: '  if (root.reducer.name === reducer.name && root.reducer.version === reducer.version) return undefined;\n',
        to: '  if (root.reducer.name === reducer.name) return undefined;\n',
      },
    ],
  },
  {
    name: 'stop-on-trouble',
    fault: 'an unreachable store stops the log, as an error in the log does',
    edits: [
      {
        file: 'snapshot/stop.ts',
        from: '    if (!(error instanceof LogfoldError && error.stopsLog)) throw error;\n',
        to: '    if (!(error instanceof LogfoldError)) error = new LogfoldError(String(error));\n    if (!(error instanceof LogfoldError)) throw error;\n',
      },
    ],
  },
  {
    name: 'same-name-twice',
    fault: 'jobs of different segments have the same deduplication id',
    edits: [
      {
        file: 'workers/jobs/job.ts',
        from: '{nameOf(job)}`;\n}\n\n/**\n * The deduplication id of a continuation.',
        to: '{logLabel(job.log) + job.position.entry}`;\n}\n\n/**\n * The deduplication id of a continuation.',
      },
    ],
  },
  {
    name: 'blind-sweep',
    fault: 'the sweep does not look for pending snapshots',
    edits: [
      {
        file: 'workers/sweep/pending-snapshots.ts',
        from: '    if (isFrozen(segment) || (shown.length > 0 && !replaceForeign)) return [];\n',
        to: '    if (isFrozen(segment) || since !== undefined) return [];\n',
      },
    ],
  },
  {
    name: 'counted-from-the-start',
    fault: 'a division policy counts from the start of the segment, not from the newest Snapshot entry',
    test: 'test/property/division.test.ts',
    edits: [
      { file: 'log/division-policy.ts', from: '  const since = newest - snapshot;\n', to: '  const since = newest;\n' },
    ],
  },
  {
    name: 'divide-twice',
    fault: 'a duplicate of a divide job appends a second Snapshot entry',
    test: 'test/property/division.test.ts',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: "  if (!isDue && !endsSegment) return { reason: 'not due' };\n",
        to: '',
      },
      {
        file: 'workers/divide/divide-log.ts',
        from: "  if (!isDue && !startsSegment) return { reason: 'uncovered' };\n",
        to: '',
      },
      { file: 'workers/divide/divide-log.ts', from: 'coveredEntries(segment) - 1 : -1;', to: '-1 : -1;' },
    ],
  },
  {
    name: 'divide-past-end',
    fault: 'a divide job appends to a segment that ended between its two reads',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: '    if (end.isEnded) end = await countEnd(deps, log);\n',
        to: '',
      },
      {
        file: 'workers/divide/divide-log.ts',
        from: "    if (end.isEnded) throw new EntryExistsError('the segment ended just now', { log });\n",
        to: '',
      },
    ],
  },
  {
    name: 'starved-division',
    fault: 'a divide job writes only directly after the entry that it read last',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: 'unread = mayGuess ? (unread + 1) % (MAX_UNREAD + 1) : 0;',
        to: 'unread = 0;',
      },
    ],
  },
  {
    name: 'unread-unchecked',
    fault: 'a divide job does not check that the entries exist that it has not read',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: '  if (unread === 0) await tables.putEntries(entries);\n  else await tables.putAhead({ entries }, expected);\n',
        to: '  await tables.putEntries(entries);\n',
      },
    ],
  },
  {
    name: 'sweep-asks-no-one',
    fault: 'the sweep forgets logs in which nothing asked for a snapshot',
    test: 'test/property/division.test.ts',
    edits: [
      {
        file: 'workers/sweep/due-division.ts',
        from: 'if (this.#isDue && isStopped !== true)',
        to: 'if (this.#isDue && isStopped === false)',
      },
    ],
  },
  {
    name: 'segment-after-snapshot',
    fault: 'a segment starts directly after a Snapshot entry, with another one of the same state',
    test: 'test/property/division.test.ts',
    edits: [{ file: 'log/division-policy.ts', from: '  if (newest === snapshot) return false;\n', to: '' }],
  },
  {
    name: 'expire-uncovered',
    fault: 'segments expire before they are covered',
    edits: [
      {
        file: 'retention/retention-policy.ts',
        from: '    next.lastSnapshot !== undefined ||',
        to: '    next.created > 0 ||',
      },
    ],
  },
  {
    name: 'expire-before-archive',
    fault: 'segments expire before their archive is written and verified',
    edits: [
      {
        file: 'retention/retention-policy.ts',
        from: "  if (policy.archive && archive === undefined) return expiry === undefined ? 'archive' : undefined;\n",
        to: '',
      },
      {
        file: 'workers/retention/expire-segment.ts',
        from: 'if (policy.archive && segment.archive === undefined) {',
        to: 'if (1 > 2) {',
      },
    ],
  },
  {
    name: 'archive-not-read-back',
    fault: 'an archive with an altered entry is named on its segment without verification',
    edits: [
      {
        file: 'workers/retention/write-archive.ts',
        from: 'await verifyArchive(archive, items(range), of, () => isTimeUp(deps));',
        to: 'archive.end + 0 * verifyArchive.length;',
      },
      {
        file: 'workers/retention/write-archive.ts',
        from: '    yield page;\n    entries +=',
        to: '    yield written === undefined ? page.map((item) => ({ ...item, V: { N: "7" } })) : page;\n    entries +=',
      },
    ],
  },
  {
    name: 'archive-part-unchecked',
    fault: 'a part of an archive is used although Last Snapshot has another root by now',
    test: 'test/unit/archive-continuations.test.ts',
    edits: [
      {
        file: 'workers/retention/archive-parts.ts',
        from: 'if (last !== undefined && last >= archive.first && last < part.to) {',
        to: 'if (types.snapshot === "" && last !== undefined) {',
      },
    ],
  },
  {
    name: 'gaps-unseen',
    fault: 'readers do not look into the archive for missing entries between entries in the table',
    edits: [{ file: 'archive/archived-log-store.ts', from: 'if (number !== next) {', to: 'if (number < next) {' }],
  },
  {
    name: 'late-stamps',
    fault: 'an expire job continues after its segment was restored or its expiry undone',
    edits: [
      {
        file: 'workers/retention/expire-segment.ts',
        from: '    if (options.dryRun !== true && archive !== undefined) await requireStillExpiring(deps, expiring, page);\n',
        to: '',
      },
      {
        file: 'workers/retention/expire-segment.ts',
        from: '  if (!archived) return expireInTransaction(deps, segment, staying, how);\n',
        to: '',
      },
    ],
  },
  {
    name: 'expired-before-stamped',
    fault: 'a segment is marked as expired before its entries are',
    edits: [
      {
        file: 'workers/retention/expire-segment.ts',
        from: '  const mode = { how: policy.expire, archived: archive !== undefined };\n',
        to: '  const mode = { how: policy.expire, archived: archive !== undefined };\n  if (options.dryRun !== true) await finish(deps, expiring, archive?.entries ?? 1);\n',
      },
    ],
  },
  {
    name: 'collect-without-grace',
    fault: 'unreachable objects are removed immediately, even if a build is writing them',
    edits: [
      {
        file: 'workers/gc/reaper.ts',
        from: 'if (graceMs === 0 || now - since >= graceMs) {',
        to: 'if (now >= since) {',
      },
      {
        file: 'workers/gc/reaper.ts',
        from: '    const isOld = modified <= this.#options.now - this.#options.graceMs;\n',
        to: '    const isOld = modified <= this.#options.now;\n',
      },
    ],
  },
  {
    name: 'collect-below-progress',
    fault: 'the chunks of running builds are collected',
    edits: [
      {
        file: 'workers/gc/collect.ts',
        from: 'new Marker(deps, log, [...needed, ...builds, ...others])',
        to: 'new Marker(deps, log, [...needed, ...others])',
      },
      {
        file: 'workers/gc/reaper.ts',
        from: 'if (graceMs === 0 || now - since >= graceMs) {',
        to: 'if (now >= since) {',
      },
    ],
  },
  {
    name: 'collect-archived-snapshots',
    fault: 'the last snapshot of an archived segment is not kept',
    edits: [
      {
        file: 'retention/retention-policy.ts',
        from: '  if (entry === segment.lastSnapshot?.position.entry) return true;\n',
        to: '  if (entry === segment.lastSnapshot?.position.entry && segment.archive === undefined) return true;\n',
      },
    ],
  },
  {
    name: 'collect-archived-bodies',
    fault: 'the external bodies of archived entries are collected',
    edits: [
      {
        file: 'workers/gc/orphan-bodies.ts',
        from: '  await dropArchivedBodies(store, { log, segments }, unnamed);\n',
        to: '  dropArchivedBodies.length;\n',
      },
    ],
  },
  {
    name: 'collect-run-forgets',
    fault: 'a run of a collection forgets the objects that earlier runs condemned',
    edits: [
      {
        file: 'workers/gc/collection-record.ts',
        from: 'filter(([key]) => !isJudged(key, judged))',
        to: 'filter(([key]) => judged.after === undefined && !isJudged(key, judged))',
      },
    ],
  },
  {
    name: 'collect-forgets-dropped',
    fault: 'a run of a collection forgets a dropped snapshot if the note already has as many others',
    test: 'test/unit/collect-worker-damage.test.ts',
    edits: [
      {
        file: 'workers/gc/collect.ts',
        from: 'if (noted.length > note.dropped.length) ',
        to: 'if (old.length > note.dropped.length) ',
      },
    ],
  },
  {
    name: 'debris-left',
    fault: 'the remains of a crashed archive job are never collected',
    edits: [
      {
        file: 'workers/gc/collect.ts',
        from: "else if (kind === 'body' || kind === 'stop' || kind === 'collected' || reached.has(blob.key)) reaper.keep(blob);",
        to: "else if (kind !== 'root' && kind !== 'progress' || reached.has(blob.key)) reaper.keep(blob);",
      },
    ],
  },
  {
    name: 'uploads-left',
    fault: 'unfinished uploads are not aborted',
    edits: [{ file: 'workers/gc/collect.ts', from: '    if (!dry) await deps.blobs.abort(upload);\n', to: '' }],
  },
  {
    name: 'last-snapshot-backwards',
    fault: 'a slower job moves Last Snapshot back',
    edits: [
      {
        file: 'adapters/memory/log-store.ts',
        from: 'if (hasArchive(stored) || stored.foreign?.L !== undefined || !isDeepStrictEqual(stored.lastSnapshot, from))\n',
        to: 'if (hasArchive(stored) || isDeepStrictEqual(stored.lastSnapshot, to))\n',
      },
    ],
  },
  {
    name: 'foreign-root-overwritten',
    fault: 'a snapshot replaces what another program wrote onto its entry',
    test: 'test/unit/foreign-root.test.ts',
    edits: [
      {
        file: 'workers/snapshot/build-snapshot.ts',
        from: '  if (body !== undefined && !replaceForeign) return passOver({ position }, body);\n',
        to: '',
      },
    ],
  },
  {
    name: 'foreign-pointer-moved',
    fault: 'Last Snapshot moves although another program wrote it during the build',
    test: 'test/unit/foreign.test.ts',
    edits: [
      {
        file: 'log/last-snapshot.ts',
        from: '    if (replaceForeign !== true) return part;\n',
        to: '',
      },
    ],
  },
  {
    name: 'foreign-archive-expires',
    fault: 'a segment expires although another program archived it',
    test: 'test/unit/foreign.test.ts',
    edits: [
      {
        file: 'workers/retention/expire-segment.ts',
        from: '  if (part !== undefined) return passOver({ segment: number }, part);\n',
        to: '',
      },
    ],
  },
  {
    name: 'append-ignores-condition',
    fault: 'an append succeeds although an entry follows that its client does not know',
    edits: [
      {
        file: 'log/append.ts',
        from: 'if (order === 0 || (await onlyReservedFollow(source, log, after, newest))) return;',
        to: 'if (order >= 0) return;',
      },
    ],
  },
  {
    name: 'append-refused-after-snapshot',
    fault: 'an append is refused although only Snapshot entries follow',
    edits: [
      {
        file: 'log/append.ts',
        from: 'if (order === 0 || (await onlyReservedFollow(source, log, after, newest))) return;',
        to: 'if (order === 0) return;',
      },
    ],
  },
  {
    name: 'attribute-of-archived-entry',
    fault: 'an attribute changes after its entry was archived',
    edits: [
      {
        file: 'adapters/memory/log-store.ts',
        from: '    if (this.#segment(log, position.segment + 1) !== undefined) throw segmentClosed(log, position);\n',
        to: '',
      },
    ],
  },
  {
    name: 'equal-entry-taken',
    fault: 'a client takes any equal entry at its position for its own',
    edits: [
      {
        file: 'log/item-codec.ts',
        from: '  const found = decodeEntryId(item);\n  const { id } = entry;\n',
        to: `  const bare = ({ I: _, X: __, ...rest }: StoredItem) => JSON.stringify(Object.entries(rest).sort());
  if (bare(item) === bare(encodeEntry(entry))) return true;
  const found = decodeEntryId(item);
  const { id } = entry;
`,
      },
    ],
  },
  {
    name: 'own-entry-unknown',
    fault: 'a client that repeats a request does not recognize the entry that its first attempt wrote',
    edits: [
      {
        file: 'log/item-codec.ts',
        from: 'found?.length === id.length',
        to: 'found?.length === -1',
      },
    ],
  },
  {
    name: 'mutation-again',
    fault: 'a fold applies a mutation again that it has applied',
    edits: [{ file: 'state/draft.ts', from: 'if (mutation <= Number(', to: 'if (mutation < Number(' }],
  },
  {
    name: 'unread-root',
    fault: 'Last Snapshot moves to a root that another program wrote, without reading the snapshot',
    edits: [
      {
        file: 'workers/snapshot/snapshot-entry.ts',
        from: '  await readCarried(place, carried, () => readWhole(deps, place, carried));\n',
        to: '',
      },
    ],
  },
  {
    name: 'frozen-snapshot-lost',
    fault: 'a rebuild leaves the snapshot of an archived segment incomplete if its chunks are no longer produced',
    test: 'test/unit/rebuild-worker.test.ts',
    edits: [
      {
        file: 'workers/snapshot/rebuild-log.ts',
        from: '    return await readWhole(deps, root, frozen, seen);\n',
        to: '    return await loadRoot(deps, root, frozen);\n',
      },
    ],
  },
  {
    name: 'dropped-snapshot-loaded',
    fault: 'a load of an earlier state starts from a snapshot that garbage collection dropped',
    test: 'test/unit/look-back.test.ts',
    edits: [{ file: 'snapshot/look-back.ts', from: 'if (dropped.has(snapshot)) continue;', to: '' }],
  },
  {
    name: 'addon-decodes',
    fault: 'bodies are read with msgpackr, which keeps a byte order mark only with its native addon',
    test: 'test/property/text.test.ts',
    project: 'bundles',
    edits: [
      {
        file: 'log/body.ts',
        from: "import { Packr } from 'msgpackr/pack';\n",
        to: "import { Packr, Unpackr } from 'msgpackr';\n",
      },
      {
        file: 'log/body.ts',
        from: '=== 1) return decodeLenientValue(bytes);\n',
        to: '=== 1) return new Unpackr({ useRecords: false }).unpack(bytes);\n',
      },
    ],
  },
  {
    name: 'names-as-text',
    fault: 'names in JSON that have escapes are compared as they are written',
    test: 'test/unit/json-names.test.ts',
    edits: [
      {
        file: 'codec/json.ts',
        from: '  return hasEscapedName(text) ? restoreNames(parseNative(markNames(text))) : parseNative(text);\n',
        to: '  return parseNative(text);\n',
      },
    ],
  },
  {
    name: 'sdk-names',
    fault: 'the SDK reads the names in answers by itself',
    test: 'test/integration/hostile-names.test.ts',
    edits: [
      {
        file: 'adapters/dynamodb/exact-answer.ts',
        from: '  return marked === text ? undefined : Buffer.from(marked);\n',
        to: '  return undefined;\n',
      },
    ],
  },
  {
    name: 'prototype-attribute',
    fault: 'the reader of bytes assigns an attribute `__proto__`, and loses it',
    test: 'test/property/page-reader.test.ts',
    edits: [
      {
        file: 'log/item-json.ts',
        from: '    this.members((name) => setKey(item, name, this.attribute(depth)));\n',
        to: '    this.members((name) => void (item[name] = this.attribute(depth)));\n',
      },
    ],
  },
  {
    name: 'same-lossy-reader',
    fault: 'the reader of bytes loses `__proto__`, and also reads what archives are compared with',
    test: 'test/integration/hostile-names.test.ts',
    edits: [
      {
        file: 'log/item-json.ts',
        from: '    this.members((name) => setKey(item, name, this.attribute(depth)));\n',
        to: '    this.members((name) => void (item[name] = this.attribute(depth)));\n',
      },
      {
        file: 'adapters/dynamodb/mapped-items.ts',
        from: 'isChecked ? parsedItems : storedItems',
        to: 'isChecked ? storedItems : storedItems',
      },
    ],
  },
  {
    name: 'rounded-decimals',
    fault: 'a Number of too many digits is read as the nearest double',
    test: 'test/unit/item-codec.test.ts',
    edits: [
      {
        file: 'log/attribute.ts',
        from: '    if (significant.length <= SIGNIFICANT_DIGITS) return number;\n',
        to: '    if (significant.length <= 2 * SIGNIFICANT_DIGITS) return number;\n',
      },
    ],
  },
  {
    name: 'empty-answer',
    fault: 'an answer without bytes is an answer without items',
    test: 'test/integration/page-reader.test.ts',
    edits: [
      {
        file: 'adapters/dynamodb/exact-answer.ts',
        from: '      if (bytes.length === 0) throw cutAnswer(source);\n',
        to: '',
      },
    ],
  },
  {
    name: 'last-root-unverified',
    fault: 'verify does not look at the entry that Last Snapshot names if that entry carries no root',
    test: 'test/unit/verify.test.ts',
    edits: [{ file: 'workers/audit/verify.ts', from: '    await this.#last(segment);\n', to: '    this.#last;\n' }],
  },
  {
    name: 'meta-not-copied',
    fault: "the metadata record of a draft keeps the reducer's own objects",
    test: 'test/property/reducers.test.ts',
    edits: [
      {
        file: 'state/meta.ts',
        from: '    return held instanceof Uint8Array ? decodeValue(held) : held;\n',
        to: '    return held;\n',
      },
      { file: 'state/meta.ts', from: '    const held = canonical(value);\n', to: '    const held = value;\n' },
    ],
  },
  {
    name: 'meta-unordered',
    fault: 'metadata has the order in which it was set',
    test: 'test/property/reducers.test.ts',
    edits: [{ file: 'state/meta.ts', from: '[...this.#held.keys()].sort().values()', to: 'this.#held.keys()' }],
  },
  {
    name: 'change-listed-twice',
    fault: 'a collection lists an item under each of its changes, not only under the newest',
    test: 'test/property/collections.test.ts',
    edits: [
      {
        file: 'state/collections/reducer.ts',
        from: 'if (before !== undefined) maps.changes.delete(changeKey(collection, before.change));',
        to: '',
      },
    ],
  },
  {
    name: 'version-starts-again',
    fault: 'an item that was deleted and put again has version 1',
    test: 'test/property/collections.test.ts',
    edits: [
      {
        file: 'state/collections/reducer.ts',
        from: '(before?.version ?? 0) + 1',
        to: '(before?.isDeleted === false ? before.version : 0) + 1',
      },
    ],
  },
  {
    name: 'kind-outlives-items',
    fault: 'an emptied map keeps its kind of keys until the next snapshot',
    test: 'test/property/reducers.test.ts',
    edits: [
      { file: 'state/edited-map.ts', from: '      if (!(await isEmpty(this.store, this.#map))) {\n', to: '      {\n' },
    ],
  },
  {
    name: 'weights-wait',
    fault: 'edits with weights are buffered, which loses the weights',
    test: 'test/unit/draft.test.ts',
    edits: [
      {
        file: 'state/edited-map.ts',
        from: 'requested.buffers === true && !weighted',
        to: 'requested.buffers === true',
      },
      { file: 'state/draft-map.ts', from: '    if (!this.buffers) return;\n', to: '    return;\n' },
    ],
  },
  {
    name: 'native-keys-unordered',
    fault: 'native bodies have their keys in the order in which they were read',
    test: 'test/unit/item-codec.test.ts',
    edits: [{ file: 'log/attribute.ts', from: 'Object.keys(map).sort()', to: 'Object.keys(map)' }],
  },
  {
    name: 'history-of-deleted',
    fault: 'a history keeps the values of deleted rows',
    test: 'test/property/history.test.ts',
    edits: [
      {
        file: 'state/history/with-history.ts',
        from: '    this.#draft.history.deleteRange(recordsOf(map, kind, range));\n',
        to: '',
      },
    ],
  },
  {
    name: 'any-weight',
    fault: 'a draft accepts any number as a weight',
    test: 'test/unit/draft.test.ts',
    edits: [
      {
        file: 'state/draft-map.ts',
        from: '    if (!Number.isSafeInteger(weight) || weight < 1) {\n',
        to: '    if (weight === undefined) {\n',
      },
    ],
  },
  {
    name: 'value-over-limit',
    fault: 'a draft accepts values that do not fit into a chunk',
    test: 'test/unit/draft.test.ts',
    edits: [
      { file: 'tree/batch.ts', from: '      if (length > MAX_CHUNK_BYTES) this.#refuse(start, length);\n', to: '' },
    ],
  },
  {
    name: 'root-not-read-back',
    fault: 'a root is published without a test that it can be read',
    test: 'test/unit/root.test.ts',
    edits: [{ file: 'snapshot/root.ts', from: '    requireReadable(platform, root, encoded);\n', to: '' }],
  },
  {
    name: 'replay-past-difference',
    fault: 'a replay continues from a snapshot that differs from the fold',
    test: 'test/unit/replay-continuations.test.ts',
    edits: [
      {
        file: 'workers/audit/replay.ts',
        from: '    if (replayed !== stored) {\n',
        to: '    if (replayed === stored + stored) {\n',
      },
    ],
  },
  {
    name: 'advice-with-wrong-option',
    fault: 'advice names an option that its command does not have',
    test: 'test/unit/advice.test.ts',
    edits: [
      {
        file: 'workers/retention/archive-parts.ts',
        from: "`Run 'logfold archive LOG ",
        to: "`Run 'logfold archive LOG --segment ",
      },
    ],
  },
  {
    name: 'fork-forgets-tail',
    fault: 'a document that forks at a newer snapshot forgets the entries after it',
    test: 'test/property/document.test.ts',
    edits: [
      {
        file: 'client/tail.ts',
        from: 'this.#keep(this.#entries.slice(index));',
        to: 'this.#keep(this.#entries.slice(index, index + 1));',
      },
    ],
  },
  {
    name: 'lost-answer-not-searched',
    fault: 'after a lost answer, a document appends again without a search for its entry',
    test: 'test/property/document.test.ts',
    edits: [
      {
        file: 'client/log-writer.ts',
        from: '        if (!isConflict) await this.#findAppended(entries);\n        else if (uncertain > 0) await follower.readTo(newest);\n',
        to: '        uncertain = -1;\n',
      },
    ],
  },
  {
    name: 'stopped-document-appends',
    fault: 'a document that has stopped at a bad entry appends after it',
    test: 'test/property/bad-entry.test.ts',
    edits: [
      {
        file: 'client/log-writer.ts',
        from: '      follower.checkAppends();\n',
        to: '',
      },
    ],
  },
  {
    name: 'later-bad-entry-shown',
    fault: 'a load stops at the first bad entry that it meets, although an entry before it is bad too',
    test: 'test/property/bad-entry.test.ts',
    edits: [
      {
        file: 'snapshot/bad-entry.ts',
        from: '      badEntry = found;\n',
        to: '      badEntry ??= found;\n',
      },
    ],
  },
  {
    name: 'pending-not-folded-again',
    fault: "a pending entry is not folded again if it came after others' entries",
    test: 'test/unit/document-faults.test.ts',
    edits: [
      {
        file: 'client/visible-state.ts',
        from: '    const isOnly = version === this.#version + 1 && (folder === this.#folder || isLast);',
        to: '    const isOnly = true;',
      },
    ],
  },
  {
    name: 'others-not-moved',
    fault: 'entries of others do not move over unsent entries, so that the next unsent one meets them elsewhere',
    test: 'test/unit/rebase.test.ts',
    edits: [
      {
        file: 'client/passage.ts',
        from: 'next.push({ ...each, entries: crossed.others });',
        to: 'next.push(each);',
      },
    ],
  },
  {
    name: 'own-entry-moves',
    fault: 'an entry that the log has got moves the unsent entries after it again',
    test: 'test/property/rebase.test.ts',
    edits: [
      {
        file: 'client/branch.ts',
        from: '  if (sent === 0 || id === undefined) return false;',
        to: '  if (sent >= 0 || id === undefined) return false;',
      },
    ],
  },
  {
    name: 'announced-not-carried',
    fault: 'an entry that is announced while others arrive does not meet their entries',
    test: 'test/unit/unsent-entries.test.ts',
    edits: [
      {
        file: 'client/visible-state.ts',
        from: '    while (this.#lacks(folded.move)) await this.#carry(folded.move);\n    if (this.#isClosed()) return;\n    this.#isOutdated',
        to: '    if (this.#isClosed()) return;\n    this.#isOutdated',
      },
    ],
  },
  {
    name: 'same-change-missed',
    fault: 'an entry that others made too drops the later entries of its author',
    test: 'test/property/list-rebase.test.ts',
    edits: [
      {
        file: 'client/passage.ts',
        from: '      if (crossed.others.length === 0) return crossed;\n',
        to: '',
      },
    ],
  },
  {
    name: 'own-by-prefix',
    fault: 'an entry of others counts as own if its id begins with that of an unsent entry',
    test: 'test/unit/unsent-entries.test.ts',
    edits: [
      {
        file: 'client/branch.ts',
        from: '  return i < sent && equalBytes(id, pieceId(draft.id, i));',
        to: '  return i >= 0 && equalBytes(id.subarray(0, draft.id.length), draft.id);',
      },
    ],
  },
  {
    name: 'ids-of-pieces-repeat',
    fault: 'the entries that take the place of one have equal ids',
    test: 'test/unit/unsent-entries.test.ts',
    edits: [
      {
        file: 'client/branch.ts',
        from: '  return i === 0 ? id : Uint8Array.of(...id, i);',
        to: '  return i === 0 ? id : Uint8Array.of(...id, 1);',
      },
    ],
  },
  {
    name: 'index-of-piece',
    fault: 'a refused entry has its index among those that took the place of others',
    test: 'test/unit/unsent-entries.test.ts',
    edits: [
      {
        file: 'client/branch.ts',
        from: 'if (indexOf(index) === index) return error;',
        to: 'if (index >= 0) return error;',
      },
    ],
  },
  {
    name: 'state-before-held',
    fault: 'a document that loaded a newer snapshot holds the state before it',
    test: 'test/unit/rebase-costs.test.ts',
    edits: [
      {
        file: 'client/arrivals.ts',
        from: '    this.#next = { change, moment };',
        to: '    this.#next = { change, moment };\n    Object.assign(moment, { change });',
      },
    ],
  },
  {
    name: 'repetition-survives',
    fault: 'a repeated mutation stays unsent, unmoved, although the first one has failed',
    test: 'test/unit/unsent-entries.test.ts',
    edits: [
      {
        file: 'client/passage.ts',
        from: "    if (cause !== undefined) this.#fail(unsent, 'it repeats",
        to: "    if (cause === 0) this.#fail(unsent, 'it repeats",
      },
    ],
  },
  {
    name: 'builds-on-nothing',
    fault: 'an entry stays pending although the one on which it builds has failed',
    test: 'test/unit/rebase.test.ts',
    edits: [
      {
        file: 'client/passage.ts',
        from: '    if (stretch.gone.length === 0 ||',
        to: '    if (stretch.gone.length >= 0 ||',
      },
    ],
  },
  {
    name: 'split-mutation',
    fault: 'a deletion with a mutation becomes several entries, and only one of them applies',
    test: 'test/unit/rebase.test.ts',
    edits: [
      {
        file: 'client/branch.ts',
        from: '  return draft.once === undefined && count',
        to: '  return count',
      },
    ],
  },
  {
    name: 'skipped-forgotten',
    fault: 'unsent entries do not meet the entries that a document skipped for a newer snapshot',
    test: 'test/unit/rebase.test.ts',
    edits: [
      {
        file: 'client/follower.ts',
        from: '      this.#arrive([{ from:',
        to: '      if (end.entry < 0) this.#arrive([{ from:',
      },
    ],
  },
  {
    name: 'no-effect-moves',
    fault: 'a mutation without effect moves unsent entries, if a document skipped it',
    test: 'test/unit/rebase.test.ts',
    edits: [
      {
        file: 'client/arrivals.ts',
        from: '    if (mutation <= (',
        to: '    if (mutation < 0 && mutation <= (',
      },
    ],
  },
  {
    name: 'append-overtakes',
    fault: 'an append comes before the pending entries on which it builds',
    test: 'test/unit/rebase.test.ts',
    edits: [
      {
        file: 'client/document.ts',
        from: '        await this.#sender.sendAll(seen, () => this.#checkOpen());\n',
        to: '        if (seen.length < 0) await this.#sender.sendAll(seen, () => this.#checkOpen());\n',
      },
    ],
  },
  {
    name: 'seen-when-sent',
    fault: 'an append counts everything as seen that the document shows when it is sent',
    test: 'test/unit/rebase.test.ts',
    edits: [
      {
        file: 'client/document.ts',
        from: '? this.#visible.author(unsent) :',
        to: '? () => this.#visible.author(unsent)() :',
      },
    ],
  },
  {
    name: 'unseen-rows-deleted',
    fault: 'a deletion deletes the rows that others inserted into its range',
    test: 'test/unit/sheet-rebase.test.ts',
    edits: [
      {
        file: 'state/spreadsheet/rebase.ts',
        from: '    over.position <= position\n      ?',
        to: '    over.position <= position || end > 0\n      ?',
      },
    ],
  },
  {
    name: 'both-come-second',
    fault: 'two insertions at one row each come after the other one',
    test: 'test/unit/sheet-rebase.test.ts',
    edits: [
      {
        file: 'state/spreadsheet/rebase.ts',
        from: "over.kind === 'insert' && side === 'later' ?",
        to: "over.kind === 'insert' && side.length > 0 ?",
      },
    ],
  },
  {
    name: 'equal-state-announced',
    fault: 'the listeners of a document run after an entry that changes nothing',
    test: 'test/property/notifications.test.ts',
    edits: [
      {
        file: 'client/visible-state.ts',
        from: '    return DocumentState.isSame(this.#state, folder.nodes, state);\n',
        to: '    return false;\n',
      },
    ],
  },
  {
    name: 'buffered-change-unnoticed',
    fault: 'states that differ only in buffered edits count as equal',
    test: 'test/property/notifications.test.ts',
    edits: [
      {
        file: 'tree/buffered-tree.ts',
        from: '    if (!isSameValue(old, now) || !isSameWeight) return false;\n',
        to: '    if (places.tree !== undefined && (!isSameValue(old, now) || !isSameWeight)) return false;\n',
      },
    ],
  },
  {
    name: 'overtaken-as-applied',
    fault: 'a document says that a mutation was applied although a later one of its client was faster',
    test: 'test/unit/document.test.ts',
    edits: [
      {
        file: 'client/applied-mutations.ts',
        from: '    if (isApplied) return;\n',
        to: '    if (isApplied || highest > 0) return;\n',
      },
    ],
  },
  {
    name: 'reverse-begins-late',
    fault: 'a read in reverse begins at a leaf after its range',
    test: 'test/unit/read-ahead.test.ts',
    edits: [
      {
        file: 'tree/read.ts',
        from: '(key === undefined ? keys.length : lowerBound(keys, key));',
        to: '(key === undefined ? keys.length : Math.min(keys.length, lowerBound(keys, key) + 1));',
      },
    ],
  },
  {
    name: 'old-state-rejects',
    fault: 'an append is rejected without a look at what others appended',
    test: 'test/unit/validate.test.ts',
    edits: [
      {
        file: 'client/log-writer.ts',
        from: 'comparePositions(this.#follower.confirmed.end, end) !== 0',
        to: 'comparePositions(this.#follower.confirmed.end, end) < 0',
      },
    ],
  },
  {
    name: 'tail-unbounded',
    fault: 'a document whose requested snapshot never completes keeps every entry',
    test: 'test/unit/tail.test.ts',
    edits: [
      {
        file: 'client/tail.ts',
        from: '    if (this.#entries.length > MAX_ENTRIES) {\n',
        to: '    if (this.#entries.length > MAX_ENTRIES && !this.isPending) {\n',
      },
    ],
  },
  {
    name: 'page-without-limits',
    fault: 'a page appends metadata that no other writer may write',
    test: 'test/unit/remote-log-store.test.ts',
    edits: [{ file: 'adapters/web/answer-log-request.ts', from: '    storableMetadata(log, metadata);\n', to: '' }],
  },
  {
    name: 'page-entries-unfolded',
    fault: 'a server with a reducer appends the entries of pages without a fold',
    test: 'test/unit/folding-server.test.ts',
    edits: [
      {
        file: 'adapters/web/answer-log-request.ts',
        from: '  if (warm !== undefined && reducer !== undefined) {',
        to: '  if (warm === undefined && reducer !== undefined) {',
      },
    ],
  },
  {
    name: 'moved-twice',
    fault: 'a server that folds appends an entry again that it has moved',
    test: 'test/unit/folding-server.test.ts',
    edits: [{ file: 'client/warm-log.ts', from: 'sent: 1, dropped: []', to: 'sent: 0, dropped: []' }],
  },
  {
    name: 'condition-moved',
    fault: 'a server that folds rebases an append that has a condition',
    test: 'test/unit/folding-server.test.ts',
    edits: [
      {
        file: 'client/log-writer.ts',
        from: '    const mayMove = options.after === undefined;',
        to: '    const mayMove = true;',
      },
    ],
  },
  {
    name: 'parts-dropped-unsaid',
    fault: 'a server that folds drops parts of an edit, and its author does not hear of it',
    test: 'test/unit/folding-server.test.ts',
    edits: [
      {
        file: 'client/warm-log.ts',
        from: '(item.isVoid || droppedParts(item).length > 0 ? [] : draftsOf(item))',
        to: '(item.isVoid ? [] : draftsOf(item))',
      },
    ],
  },
  {
    name: 'stale-warm-log',
    fault: 'a server that folds trusts an end that it read long ago',
    test: 'test/unit/folding-server.test.ts',
    edits: [{ file: 'client/warm-log.ts', from: 'follower.isStale || ', to: '' }],
  },
  {
    name: 'flood-waits',
    fault: 'any number of requests of pages waits for one log',
    test: 'test/unit/folding-server.test.ts',
    edits: [
      {
        file: 'client/warm-log.ts',
        from: '    if (this.#requests.pendingCount >= MAX_WAITING) {',
        to: '    if (this.#requests.pendingCount > 1e9) {',
      },
    ],
  },
  {
    name: 'warm-logs-kept',
    fault: 'a server that folds keeps every log in memory',
    test: 'test/unit/folding-server.test.ts',
    edits: [
      {
        file: 'client/warm-logs.ts',
        from: '      if (this.#bytes <= this.#maxBytes) return;',
        to: '      if (this.#bytes <= 1e12) return;',
      },
    ],
  },
  {
    name: 'listener-at-switch',
    fault: 'a document that moves to a newer snapshot calls its listeners',
    test: 'test/property/document.test.ts',
    edits: [
      {
        file: 'client/visible-state.ts',
        from: '      DocumentState.move(this.#state, folder.nodes, folded.state);\n',
        to: '      this.#set(folded.state, false);\n',
      },
    ],
  },
  {
    name: 'schedule-changes-under-items',
    fault: 'a new division policy changes the schedule of a segment whose first item exists',
    edits: [
      { file: 'mapping/mapped-segments.ts', from: 'if (changes && count <= same.first) {', to: 'if (changes) {' },
      {
        file: '../test/support/stores/memory-mapped-items.ts',
        from: '    if (this.#table.has({ partition: segment.log, sort: segment.schedule?.first ?? 0 })) return false;\n',
        to: '',
      },
    ],
  },
  {
    name: 'segment-shown-too-early',
    fault: 'a recorded segment of a mapped log is shown before the segment before it is full',
    edits: [
      {
        file: 'mapping/mapped-segments.ts',
        from: 'isFrozen(record) || hasBegun(schedule, items);',
        to: 'isFrozen(record) || schedule.first >= items;',
      },
    ],
  },
  {
    name: 'snapshot-entry-not-counted',
    fault: 'the positions of items do not count the Snapshot entry after a full block',
    edits: [
      {
        file: 'log/schedule.ts',
        from: '  return i + Math.floor(i / snapshotEvery) + 1;\n',
        to: '  return i + Math.floor((i - 1) / snapshotEvery) + 1;\n',
      },
    ],
  },
  {
    name: 'restore-of-other-item',
    fault: 'a restore leaves out the attributes of an item that have the name of one of logfold',
    edits: [{ file: 'mapping/translate.ts', from: '    ...mapOf(item.O),\n', to: '' }],
  },
  {
    name: 'changed-source-continued',
    fault: 'a build continues from a snapshot although its last item has changed',
    edits: [
      {
        file: 'snapshot/build.ts',
        from: '  if (found.root !== undefined) await requireLastItem(deps, found.root);\n',
        to: '  if (found.root?.lastItem?.length === 0) await requireLastItem(deps, found.root);\n',
      },
    ],
  },
  {
    name: 'changed-source-loaded',
    fault: 'a reader loads a snapshot although its last item has changed',
    edits: [
      {
        file: 'snapshot/load.ts',
        from: '    root === undefined ? undefined : requireLastItem(deps, root),\n',
        to: '    root?.lastItem?.length === 0 ? requireLastItem(deps, root) : undefined,\n',
      },
    ],
  },
  {
    name: 'mixed-lives',
    fault: 'a build reads its last item after the fold, and does not compare it with the one that it folded',
    test: 'test/simulation/source.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'snapshot/build.ts',
        from: '  const now = isPart || lastFolded === undefined ? await readLastItem(deps, log, at) : known;\n',
        to: '  const now = await readLastItem(deps, log, at);\n',
      },
      {
        file: 'snapshot/build.ts',
        from: '    a === undefined || b === undefined ? a === b : isSameForFold(a, b);\n',
        to: '    a === undefined || b === undefined || !isSameForFold(a, b) || true;\n',
      },
    ],
  },
  {
    name: 'shortened-log-unseen',
    fault: 'a reader does not find the segments of a log whose application deleted many items',
    test: 'test/simulation/source.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'mapping/mapped-segments.ts',
        from: '    if (found.length === limit || records.length < most) return found;\n',
        to: '    if (found.length <= limit) return found;\n',
      },
    ],
  },
  {
    name: 'progress-of-deleted-log',
    fault: 'a build continues from progress of a deleted log with the same id',
    test: 'test/unit/same-id-again.test.ts',
    edits: [
      {
        file: 'snapshot/build.ts',
        from: '      } else if (await hasSameLastItem(deps, root)) {\n',
        to: '      } else if (await hasSameLastItem(deps, { ...root, lastItem: undefined })) {\n',
      },
    ],
  },
  {
    name: 'root-of-other-mapping',
    fault: 'a reader continues from a snapshot that another mapping made',
    edits: [
      {
        file: 'log/meaning.ts',
        from: '  if (made.mapping !== undefined) await makerOf(source, made);\n',
        to: "  if (made.mapping === '') await makerOf(source, made);\n",
      },
    ],
  },
  {
    name: 'archive-of-other-mapping',
    fault: 'a restore uses another mapping than the archive',
    edits: [
      {
        file: 'archive/reader.ts',
        from: '  const maker = await makerOf({ ...source, store: source.tables }, made);\n',
        to: '  const maker = await makerOf({ ...source, store: undefined }, made);\n',
      },
    ],
  },
  {
    name: 'first-item-ignored',
    fault: "the first item of an application's log does not register the log",
    test: 'test/unit/division-policy.test.ts',
    edits: [{ file: 'mapping/item-division.ts', from: 'return index === 0 || count', to: 'return count' }],
  },
  {
    name: 'inferred-schedule-kept',
    fault: 'a reader keeps the schedule that it inferred for a segment without an item',
    test: 'test/unit/mapped-log-store.test.ts',
    edits: [
      {
        file: 'mapping/mapped-segments.ts',
        from: '    if (inferred.isFinal) this.#cache(log, segment, inferred);\n',
        to: '    this.#cache(log, segment, inferred);\n',
      },
    ],
  },
  {
    name: 'mapped-end-too-early',
    fault: 'the feed leaves out the Snapshot entry after the last item of a full block',
    test: 'test/unit/log-ends.test.ts',
    edits: [
      {
        file: 'mapping/log-ends.ts',
        from: 'newestEntryOf(schedule, index + 1) ?? 0',
        to: 'entryOfItem(schedule, index)',
      },
      {
        file: 'mapping/log-ends.ts',
        from: "import { indexAfter, newestEntryOf, type Schedule } from '../log/schedule.ts';",
        to: "import { entryOfItem, indexAfter, type Schedule } from '../log/schedule.ts';",
      },
    ],
  },
  {
    name: 'retried-batch-unpublished',
    fault: 'a batch that an earlier delivery fed is not published, although that delivery failed',
    test: 'test/unit/feed-stream.test.ts',
    edits: [
      {
        file: 'functions/stream-function.ts',
        from: '    if (checkpoint === undefined) return true;\n',
        to: '    if (checkpoint === undefined || spans === 0) return true;\n',
      },
    ],
  },
  {
    name: 'end-at-snapshot-missed',
    fault: 'a sweep does not feed a log without an entry after Last Snapshot',
    test: 'test/unit/feed-sweep.test.ts',
    edits: [
      {
        file: 'workers/sweep/pending-snapshots.ts',
        from: 'end === undefined ? from : Math.min(from, lastSnapshot?.position.entry ?? 0);',
        to: 'from;',
      },
    ],
  },
  {
    name: 'part-of-file-unchecked',
    fault: 'a file that a reducer reads in part is folded although its bytes do not have their hash',
    test: 'test/unit/file-entries.test.ts',
    edits: [
      {
        file: 'log/file.ts',
        from: '    if (!this.#isOpened || this.#isVerified) return;\n',
        to: '    return;\n',
      },
    ],
  },
  {
    name: 'checkpoint-before-item',
    fault: 'a consumer group saves the checkpoint after an item before its consumer has done the item',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/feed.ts',
        from: '        yield read.items;\n        await member.done(read.after, { isBatch: size !== undefined });\n',
        to: '        await member.done(read.after, { isBatch: size !== undefined });\n        yield read.items;\n',
      },
    ],
  },
  {
    name: 'skipped-epochs',
    fault: 'a reader of the feed begins at the newest snapshot and skips the epochs before it',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/feed-reader.ts',
        from: 'comparePositions(position, restart) < 0 ? restart : position;',
        to: 'comparePositions(position, restart) < 0 ? restart : last;',
      },
    ],
  },
  {
    name: 'unchecked-span',
    fault: 'the feed takes a span that does not continue where the feed has the log',
    test: 'test/unit/feed-log.test.ts',
    edits: [
      {
        file: 'feed/feed-reducer.ts',
        from: '      if (!isSame(end, after)) throw staleSpan(log, { after, end });\n',
        to: '',
      },
    ],
  },
  {
    name: 'remembered-ends',
    fault: 'a feed that begins again keeps the positions that it had',
    test: 'test/unit/feed-writer.test.ts',
    edits: [{ file: 'feed/feed-reducer.ts', from: "      logs.deleteRange({ from: '', to: AFTER_ALL });\n", to: '' }],
  },
  {
    name: 'checkpoint-of-later-span',
    fault: 'an item has the checkpoint after its entry of the feed although items of the entry follow',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/feed-reader.ts',
        from: 'index === spans.length - 1 ? checkpointOf(next)',
        to: 'index === 0 ? checkpointOf(next)',
      },
    ],
  },
  {
    name: 'root-for-body',
    fault: 'a reader of the feed decodes the root of a complete Snapshot entry as its body',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/feed-reader.ts',
        from: '(isReserved(entry) ? null : bodies.load(entry))',
        to: 'bodies.load(entry)',
      },
    ],
  },
  {
    name: 'lease-by-its-clock',
    fault: 'a consumer group waits until the clock says that the lease of a killed member is over',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/group-member.ts',
        from: 'until <= now || until > now + LEASE_MS + CLOCK_ERROR_MS;',
        to: 'until <= now;',
      },
      {
        file: 'client/group-member.ts',
        from: 'over = seenMs >= LEASE_MS ? lease : undefined;',
        to: 'over = isOver(lease, now) ? lease : undefined;',
      },
    ],
  },
  {
    name: 'young-in-the-future',
    fault: 'a sweep takes an entry that is dated in the future for young, and does not feed it',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workers/sweep/finder.ts',
        from: 'return Math.abs(age) < youngSeconds;',
        to: 'return age < youngSeconds;',
      },
    ],
  },
  {
    name: 'changed-entry-unseen',
    fault: '`verify` does not say that an entry in the table differs from its archive',
    test: 'test/unit/mapped-life.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workers/audit/verify.ts',
        from: '    if (changed === undefined) return;\n',
        to: '    if (changed === undefined || present > 0) return;\n',
      },
    ],
  },
  {
    name: 'gap-by-machine-clock',
    fault: 'a comparison dates gaps, and waits, by the clock of its machine',
    test: 'test/property/revisions.test.ts',
    edits: [
      {
        file: 'workers/revisions/compare-table.ts',
        from: '    return Math.floor(this.#deps.items.serviceTime() / 1000);\n',
        to: '    return Math.floor(this.#deps.now() / 1000);\n',
      },
    ],
  },
  {
    name: 'gap-of-change-on-its-way',
    fault: 'a comparison records a gap although the stream may still bring the change',
    test: 'test/property/revisions.test.ts',
    edits: [
      {
        file: 'workers/revisions/compare-table.ts',
        from: 'const ON_THE_WAY_SECONDS = 25 * 3600;\n',
        to: 'const ON_THE_WAY_SECONDS = 3600;\n',
      },
    ],
  },
  {
    name: 'job-of-newer-release-dropped',
    fault: 'a job of an unknown kind counts as malformed, so that it is a dead letter within a second',
    test: 'test/unit/functions.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workers/jobs/job.ts',
        from: "  if (typeof kind === 'string' && !Object.hasOwn(QUEUE_OF, kind)) {\n",
        to: '  if (format < 1) {\n',
      },
    ],
  },
  {
    name: 'young-entries-ahead',
    fault: 'a sweep reports that the feed has more of a log, although the log has young entries',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workers/sweep/feed-ends.ts',
        from: '  if (seen !== undefined && comparePositions(seen, fed) >= 0) return;\n',
        to: '',
      },
      { file: 'workers/sweep/feed-ends.ts', from: '    if (comparePositions(end, fed) >= 0) return;\n', to: '' },
    ],
  },
  {
    name: 'log-back-unnoticed',
    fault: 'a sweep does not report a log that went back to an earlier state',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workers/feed/feed-writer.ts',
        from: 'else if (comparePositions(after, to) > 0) ahead.push',
        to: 'else if (after.segment > to.segment) ahead.push',
      },
    ],
  },
  {
    name: 'reader-stuck-before-restart',
    fault: 'a reader of the feed does not look for a restart after an entry that is gone',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/feed.ts',
        from: 'isMissing(error) ? await this.#reader.restartAfter(reached) : undefined',
        to: 'undefined',
      },
    ],
  },
  {
    name: 'old-image-for-new',
    fault: 'a revision has the item as it was before the change',
    test: 'test/property/revisions.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'revisions/new-revisions.ts',
        from: 'canonicalItem(change.newImage ?? {})',
        to: 'canonicalItem(change.oldImage ?? {})',
      },
    ],
  },
  {
    name: 'unnoticed-gap',
    fault: 'a change whose old image the log does not know is recorded without a gap',
    test: 'test/property/revisions.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'revisions/new-revisions.ts',
        from: '  if (!sameItem(old, last?.item)) {',
        to: '  if (!sameItem(old, last?.item) && last === undefined) {',
      },
    ],
  },
  {
    name: 'local-dates',
    fault: 'dates in files are read in the time zone of the machine',
    test: 'test/property/time-zones.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workbook/iso-time.ts',
        from: 'return dateAt(time).toISOString().slice(0, 10) === text ? time : undefined;',
        to: 'return dateAt(time).toISOString().slice(0, 10) === text ? time + dateAt(time).getTimezoneOffset() * 60_000 : undefined;',
      },
    ],
  },
  {
    name: 'empty-results',
    fault: 'an import takes a formula without a result as an empty cell',
    test: 'test/unit/xlsx.test.ts',
    project: 'sources',
    edits: [{ file: 'workbook/reading-rules.ts', from: 'needsResults: true', to: 'needsResults: false' }],
  },
  {
    name: 'rounded-digits',
    fault: 'an import takes a text as a number although the number has other digits',
    test: 'test/golden/imports.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workbook/typed-text.ts',
        from: '  if (rules === 1) return number;',
        to: '  if (rules > 0) return number;',
      },
    ],
  },
  {
    name: 'rules-forgotten',
    fault: 'an import without rules is read by the newest ones',
    test: 'test/golden/imports.test.ts',
    project: 'sources',
    edits: [{ file: 'state/spreadsheet/import.ts', from: 'rules = 1 } = body', to: 'rules = 2 } = body' }],
  },
  {
    name: 'stale-place-kept',
    fault: 'a group that saves a checkpoint keeps its older place within an entry of the feed',
    test: 'test/contract/group-store.test.ts',
    edits: [
      {
        file: 'adapters/dynamodb/group-store.ts',
        from: "    if (within === undefined) removes.push('P');\n    else sets.push('P = :place');\n",
        to: "    if (within !== undefined) sets.push('P = :place');\n",
      },
    ],
  },
  {
    name: 'older-end-wins',
    fault: 'the feed takes the last of several ends of a log instead of the newest',
    test: 'test/unit/feed-writer.test.ts',
    edits: [
      {
        file: 'workers/feed/feed-writer.ts',
        from: 'if (isNewer && log !== FEED_LOG)',
        to: 'if (log !== FEED_LOG)',
      },
    ],
  },
  {
    name: 'place-in-every-entry',
    fault: 'a reader applies its place within an entry of the feed to the later entries too',
    test: 'test/simulation/feed.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/feed-reader.ts',
        from: 'const done = comparePositions(position, from.position) === 0 ? from.within : undefined;',
        to: 'const done = from.within;',
      },
    ],
  },
  {
    name: 'end-of-stale-read',
    fault: 'a reader that does not wait for new items stops where a stale read ends',
    test: 'test/unit/feed.test.ts',
    edits: [
      {
        file: 'client/feed.ts',
        from: 'isFresh: !follow',
        to: 'isFresh: false',
      },
    ],
  },
  {
    name: 'sequence-as-text',
    fault: 'sequence numbers of a stream are compared as strings',
    test: 'test/property/revisions.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'revisions/image-change.ts',
        from: 'return BigInt(record.sequence) > BigInt(than.sequence);',
        to: 'return record.sequence > than.sequence;',
      },
    ],
  },
  {
    name: 'failed-document-kept',
    fault: 'the recorder of revisions keeps a document that it could not open',
    test: 'test/unit/warm-process.test.ts',
    edits: [
      {
        file: 'workers/revisions/revision-logs.ts',
        from: '      if (this.#open.get(log) === open) this.#open.delete(log);\n      throw error;',
        to: '      throw error;',
      },
    ],
  },
  {
    name: 'later-changes-dropped',
    fault: 'only the change that failed is recorded again, and not those of its log after it',
    test: 'test/unit/record-revisions.test.ts',
    edits: [
      {
        file: 'workers/revisions/record-revisions.ts',
        from: 'ofLog.slice(done)) failed',
        to: 'ofLog.slice(done, done + 1)) failed',
      },
    ],
  },
  {
    name: 'gap-after-newer-revision',
    fault: 'a comparison records a gap although the item has got a revision in the meantime',
    test: 'test/unit/compare-table.test.ts',
    edits: [
      {
        file: 'workers/revisions/table-comparison.ts',
        from: '      if ((before.last?.revision ?? 0) !== revision) return false;\n',
        to: '',
      },
    ],
  },
  {
    name: 'revisions-divided-now',
    fault: 'a divide job dates the Snapshot entry of a log of revisions by its clock',
    test: 'test/property/revisions.test.ts',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: 'foldsItems(reducer) ? (created ?? now) : now }',
        to: 'now }',
      },
    ],
  },
  {
    name: 'failed-claim-kept',
    fault: 'a process that could not claim its bucket once never registers a log',
    test: 'test/unit/warm-process.test.ts',
    edits: [
      {
        file: 'mapping/log-registrar.ts',
        from: '      this.#claimed = undefined;\n',
        to: '',
      },
    ],
  },
  {
    name: 'stale-records-believed',
    fault: 'a reader of a mapped log mistakes a stale list of segments for the newest',
    test: 'test/property/mapped-segments.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'mapping/mapped-segments.ts',
        from: '    if (newest !== undefined && isShort) records = await this.#records(log, most, CONSISTENT);\n',
        to: '',
      },
    ],
  },
  {
    name: 'item-before-unread',
    fault: 'a range of a mapped log that begins with a virtual entry leaves this entry out',
    test: 'test/contract/mapped-log-store.test.ts',
    edits: [
      {
        file: 'mapping/entry-pages.ts',
        from: 'itemsBefore(schedule, from) - (isVirtual ? 1 : 0)',
        to: 'itemsBefore(schedule, from)',
      },
    ],
  },
  {
    name: 'time-of-item-lost',
    fault: 'a translated item does not keep the time of the application',
    test: 'test/property/schema-mapping.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'mapping/translate.ts',
        from: "name === time?.attribute || (body !== 'whole item' && !names.has(name))",
        to: "body !== 'whole item' && !names.has(name)",
      },
    ],
  },
  {
    name: 'stopped-log-divided',
    fault: 'a divide job appends Snapshot entries to a stopped log',
    test: 'test/unit/divide-worker.test.ts',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: "    if (isStopped) return { outcome: 'undivided', reason: 'stopped' };\n",
        to: '',
      },
    ],
  },
  {
    name: 'too-many-guessed',
    fault: 'a divide job that guessed too many new entries never guesses fewer',
    test: 'test/unit/divide-worker.test.ts',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: 'else if (error instanceof EntryNotFoundError) unread--;',
        to: 'else if (error instanceof EntryNotFoundError) unread += 0;',
      },
    ],
  },
  {
    name: 'segment-one-late',
    fault: 'a segment is due one entry later than the policy says',
    test: 'test/unit/sweep-division.test.ts',
    edits: [
      {
        file: 'log/division-policy.ts',
        from: 'return newest >= entries || segmentBytes',
        to: 'return newest > entries || segmentBytes',
      },
    ],
  },
  {
    name: 'minutes-since-first',
    fault: 'the minutes of a division policy are counted from an entry before the newest Snapshot entry',
    test: 'test/property/tail-count.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'log/tail-count.ts',
        from: '      this.#oldest = undefined;\n',
        to: '',
      },
    ],
  },
  {
    name: 'last-frame-of-part-lost',
    fault: 'the last frame of a part is left out of the joined archive',
    test: 'test/unit/archive.test.ts',
    edits: [
      {
        file: 'archive/reader.ts',
        from: 'if (frame.after > to) break;',
        to: 'if (frame.after >= to) break;',
      },
    ],
  },
  {
    name: 'compared-up-to-archive',
    fault: 'an archive is not compared with entries of the table after its end',
    test: 'test/unit/archive-worker.test.ts',
    edits: [
      {
        file: 'workers/retention/write-archive.ts',
        from: 'to: stopped ? archive.end : undefined',
        to: 'to: archive.end',
      },
    ],
  },
  {
    name: 'stopped-part-is-whole',
    fault: 'a part that was written up to the end of the time counts as the whole archive',
    test: 'test/unit/archive-continuations.test.ts',
    edits: [
      {
        file: 'workers/retention/write-archive.ts',
        from: 'ended: !stopped && to === archive.end',
        to: 'ended: to === archive.end',
      },
    ],
  },
  {
    name: 'part-of-old-item',
    fault: 'a part of an archive is used although the table has another entry at its end',
    test: 'test/unit/archive-continuations.test.ts',
    edits: [
      {
        file: 'workers/retention/archive-parts.ts',
        from: '    if (item === undefined || stored === undefined || !sameEntry(item, stored, { segment, types })) continue;\n',
        to: '    if (item === undefined) continue;\n',
      },
    ],
  },
  {
    name: 'rejected-edit-shown',
    fault: 'a document goes on showing a pending entry that was rejected',
    test: 'test/unit/bad-entry.test.ts',
    edits: [
      {
        file: 'client/visible-state.ts',
        from: '  async #updateOrLater(): Promise<void> {\n    this.#isOutdated = true;\n',
        to: '  async #updateOrLater(): Promise<void> {\n',
      },
    ],
  },
  {
    name: 'settled-folded-again',
    fault: 'a document folds pending entries that do not wait any more',
    test: 'test/property/document.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/visible-state.ts',
        from: '      if (pending.isSettled) continue;\n',
        to: '',
      },
    ],
  },
  {
    name: 'entries-between-unread',
    fault: 'a document does not read the Snapshot entries that came before its own new entry',
    test: 'test/unit/document.test.ts',
    edits: [
      {
        file: 'client/follower.ts',
        from: 'if (first === undefined || !isAsFolded || comparePositions(first.position, added.first) !== 0) {',
        to: 'if (first === undefined || !isAsFolded) {',
      },
    ],
  },
  {
    name: 'pending-without-number',
    fault: 'a document folds a pending entry without the number that it gets',
    test: 'test/property/fold-entry.test.ts',
    edits: [
      {
        file: 'client/visible-state.ts',
        from: 'entriesAt(foldedAt, draftsOf(item), before)',
        to: 'entriesAt(foldedAt, draftsOf(item))',
      },
    ],
  },
  {
    name: 'milliseconds-lost',
    fault: 'the reader of bytes loses the milliseconds of an entry',
    test: 'test/property/entry-json.test.ts',
    edits: [{ file: 'log/entry-json.ts', from: 'entry.milliseconds = part;', to: '' }],
  },
  {
    name: 'archived-milliseconds-lost',
    fault: 'an archived entry of an application has the whole seconds of its time',
    test: 'test/property/mapped-archives.test.ts',
    edits: [
      { file: 'archive/frame-lines.ts', from: 'time === undefined ? entryDecoder() : ofItems', to: 'entryDecoder()' },
    ],
  },
  {
    name: 'reverse-skips-segment-end',
    fault: 'a query in reverse leaves out the End Segment entries',
    test: 'test/property/query.test.ts',
    edits: [
      {
        file: 'log/read-backward.ts',
        from: '{ segment: segment - 1, entry: 1 } : nextPosition(last.position)',
        to: '{ segment: segment - 1, entry: 1 } : last.position',
      },
    ],
  },
  {
    name: 'refresh-without-chunks',
    fault: 'a document whose chunks were collected cannot be refreshed',
    test: 'test/unit/document-faults.test.ts',
    edits: [
      {
        file: 'client/follower.ts',
        from: '      if (error instanceof ChunkMissingError) return this.reload();\n',
        to: '',
      },
    ],
  },
  {
    name: 'line-end-in-two-slices',
    fault: 'a line end that two slices of a CSV file share counts as two',
    test: 'test/property/csv.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workbook/csv.ts',
        from: '          if (i + 1 === text.length) this.#skipLf = true;\n          else if',
        to: '          if',
      },
    ],
  },
  {
    name: 'corner-of-row-above',
    fault: 'a cell below the first cell of a merged area is shown',
    test: 'test/unit/xlsx.test.ts',
    edits: [
      {
        file: 'workbook/merged-areas.ts',
        from: '    this.#corners.clear();\n',
        to: '',
      },
    ],
  },
  {
    name: 'cut-character-accepted',
    fault: 'a text that ends within a character is read without an error',
    test: 'test/unit/csv.test.ts',
    edits: [
      {
        file: 'workbook/text-decoding.ts',
        from: '  yield decodeNext(decoder, undefined, wrong);\n',
        to: '',
      },
    ],
  },
  {
    name: 'merge-in-two-slices',
    fault: 'merged areas are not found if their first name is in two pieces of the XML',
    test: 'test/property/xlsx.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'workbook/merged-areas.ts',
        from: '    end = piece.slice(1 - word.length);\n',
        to: '',
      },
    ],
  },
  {
    name: 'row-never-too-long',
    fault: 'a row of a CSV file may be of any length',
    test: 'test/unit/csv.test.ts',
    edits: [
      {
        file: 'workbook/csv.ts',
        from: '    this.#rowCharacters += text.length;\n',
        to: '',
      },
    ],
  },
  {
    name: 'stale-reload-taken',
    fault: 'a document that loads the newest snapshot again takes a stale read, and goes back',
    test: 'test/property/stale-reads.test.ts',
    project: 'sources',
    edits: [
      {
        file: 'client/follower.ts',
        from: '    if (order < 0) return;\n',
        to: '',
      },
    ],
  },
  {
    name: 'guessed-revisions',
    fault: 'a divide job guesses entries of a log of revisions, whose times it does not know',
    test: 'test/property/revisions.test.ts',
    edits: [
      {
        file: 'workers/divide/divide-log.ts',
        from: 'const mayGuess = !foldsItems(deps.reducer);',
        to: 'const mayGuess = true;',
      },
    ],
  },
  {
    name: 'swept-failure-forgotten',
    fault: 'a sweep that could not feed a batch of logs reports success',
    test: 'test/unit/warm-process.test.ts',
    edits: [
      {
        file: 'workers/sweep/feed-ends.ts',
        from: '    if (this.#failure !== undefined) throw this.#failure.error;\n',
        to: '',
      },
    ],
  },
  {
    name: 'failed-frame-kept',
    fault: 'a reader of an archive never reads a frame again that it could not read once',
    test: 'test/unit/warm-process.test.ts',
    edits: [
      {
        file: 'archive/frame-lines.ts',
        from: '    reading.catch(() => this.#forget(frame));\n',
        to: '    reading.catch(() => undefined);\n',
      },
    ],
  },
  {
    name: 'archive-by-segment-only',
    fault: 'a reader goes on with the archive that a segment had before',
    test: 'test/unit/rebuild-worker.test.ts',
    edits: [
      {
        file: 'archive/archived-log-store.ts',
        from: 'segment.archive.key}`;',
        to: 'segment.segment}`;',
      },
    ],
  },
  {
    name: 'external-roots-not-restored',
    fault: 'a restore of a mapped log leaves out roots that are in the bucket',
    test: 'test/contract/mapped-log-store.test.ts',
    edits: [
      {
        file: 'mapping/mapped-log-store.ts',
        from: 'isVirtual(item) && (item.B !== undefined || item.E !== undefined)',
        to: 'isVirtual(item) && item.B !== undefined',
      },
    ],
  },
  {
    name: 'logs-written-in-turn',
    fault: 'a transaction writes one log after the other',
    test: 'test/property/transact.test.ts',
    edits: [
      {
        file: 'log/append.ts',
        from: '      await context.tables.putEntries(placed.flat(), how);\n',
        to: '      for (const entries of placed) await context.tables.putEntries(entries);\n',
      },
    ],
  },
  {
    name: 'attributes-left-behind',
    fault: 'a new segment does not carry the attributes of its log',
    test: 'test/unit/log-attributes.test.ts',
    edits: [
      {
        file: 'log/new-segment.ts',
        from: 'const attributes = shownAttributes(segments);',
        to: 'const attributes = shownAttributes(segments.slice(2));',
      },
    ],
  },
  {
    name: 'stale-attributes-carried',
    fault: 'a segment that starts carries attributes that changed in the meantime',
    test: 'test/contract/log-store.test.ts',
    edits: [
      {
        file: 'adapters/dynamodb/log-store.ts',
        from: '    if (segment.attributes === undefined) return [];\n',
        to: '    if (segment.attributes !== endedAttributes) return [];\n',
      },
    ],
  },
  {
    name: 'older-attributes-shown',
    fault: 'a document takes attributes of its log from a read of older segments',
    test: 'test/unit/log-attributes.test.ts',
    edits: [
      {
        file: 'log/log-attributes.ts',
        from: 'newest.segment < known.segment',
        to: 'newest.segment < known.segment - 9',
      },
    ],
  },
  {
    name: 'refusal-names-cached-end',
    fault: 'a refused append names the end that its client knew before as the newest',
    test: 'test/unit/append-condition.test.ts',
    edits: [
      {
        file: 'log/append.ts',
        from: 'if (error instanceof EntryExistsError && this.#seen === undefined)',
        to: 'if (error instanceof EntryExistsError && this.#seen !== undefined)',
      },
    ],
  },
  {
    name: 'one-log-proves-all',
    fault: 'an entry that one log has already counts as the whole transaction',
    test: 'test/contract/log-store.test.ts',
    edits: [
      {
        file: 'adapters/dynamodb/log-store.ts',
        from: '    if (own.length === 0) throw conflictOf(entries, creation.existing);\n',
        to: '    if (own.length === 0) throw conflictOf(entries, creation.existing);\n    if (own.length > 0) return;\n',
      },
    ],
  },
  {
    name: 'first-log-allowed',
    fault: 'the server asks for the first log of a transaction only whether the user may append',
    test: 'test/unit/transact.test.ts',
    edits: [
      {
        file: 'adapters/web/answer-log-request.ts',
        from: "  for (const { log, entries } of decoded) await requireAllowed(options, log, 'append', entries);\n",
        to: "  if (first !== undefined) await requireAllowed(options, first.log, 'append', first.entries);\n",
      },
    ],
  },
  {
    name: 'late-value-kept',
    fault: 'a late value is evaluated although a later edit of its key replaced it',
    test: 'test/unit/late-values.test.ts',
    edits: [{ file: 'tree/batch.ts', from: '    this.#late?.delete(key);\n', to: '' }],
  },
  {
    name: 'late-value-past-range',
    fault: 'a late value survives a range delete after it',
    test: 'test/unit/late-values.test.ts',
    edits: [{ file: 'tree/batch.ts', from: '    if (this.#ranges.deletes(key, index + 1)) return;\n', to: '' }],
  },
  {
    name: 'late-failure-of-reader',
    fault: 'a late value that fails stops the log at the entry that reads it',
    test: 'test/unit/late-values.test.ts',
    edits: [
      {
        file: 'state/draft-use.ts',
        from: 'foldFailure(nameOf(), where, error)',
        to: 'foldFailure(nameOf(), current, error)',
      },
    ],
  },
  {
    name: 'late-failure-caught',
    fault: 'a reducer that catches the failure of a late value goes on',
    test: 'test/unit/late-values.test.ts',
    edits: [
      { file: 'state/draft-use.ts', from: '        this.#failure ??= foldFailure(', to: '        throw foldFailure(' },
    ],
  },
  {
    name: 'late-after-fold',
    fault: 'a fold ends before late values are evaluated',
    test: 'test/unit/late-values.test.ts',
    edits: [{ file: 'snapshot/fold.ts', from: '    draft.evaluate();\n', to: '' }],
  },
];
