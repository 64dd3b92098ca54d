/** Counts of the requests and units of some work. All counts can be added and multiplied. */
export interface Work {
  /** Invocations of Lambda functions. */
  readonly invocations: number;
  /** Computing time in this process, in milliseconds. Requests take no time here. */
  readonly milliseconds: number;
  /** Requests to DynamoDB, without scans. */
  readonly requests: number;
  readonly writeUnits: number;
  /** Read units, without scans. */
  readonly readUnits: number;
  /** Requests of scans. */
  readonly scans: number;
  /** Bytes of items that scans read. Their cost depends on the size of the table. */
  readonly scannedBytes: number;
  readonly puts: number;
  readonly gets: number;
  readonly lists: number;
  /** Keys in listings of all logs. Every thousand keys is another request. */
  readonly listedKeys: number;
  /** Sends, receives and deletes. */
  readonly queueRequests: number;
}

export const NO_WORK: Work = {
  invocations: 0,
  milliseconds: 0,
  requests: 0,
  writeUnits: 0,
  readUnits: 0,
  scans: 0,
  scannedBytes: 0,
  puts: 0,
  gets: 0,
  lists: 0,
  listedKeys: 0,
  queueRequests: 0,
};

/** Adds `other` to `work`, `times` times; -1 subtracts it. */
export function addWork(work: Work, other: Work, times = 1): Work {
  const add = (name: keyof Work): number => work[name] + times * other[name];
  return {
    invocations: add('invocations'),
    milliseconds: add('milliseconds'),
    requests: add('requests'),
    writeUnits: add('writeUnits'),
    readUnits: add('readUnits'),
    scans: add('scans'),
    scannedBytes: add('scannedBytes'),
    puts: add('puts'),
    gets: add('gets'),
    lists: add('lists'),
    listedKeys: add('listedKeys'),
    queueRequests: add('queueRequests'),
  };
}

/** The sum of all counts. */
export function sumWork(works: Iterable<Work>): Work {
  let sum = NO_WORK;
  for (const work of works) sum = addWork(sum, work);
  return sum;
}
