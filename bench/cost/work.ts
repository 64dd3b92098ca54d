/** What some work asked of AWS, as it is counted there. Everything in it can be added up and multiplied. */
export interface Work {
  /** Times that a Lambda function is invoked for it. */
  readonly invocations: number;
  /** Milliseconds that it took in this process, where no request takes any time. */
  readonly milliseconds: number;
  /** Requests to DynamoDB, without those of scans. */
  readonly requests: number;
  readonly writeUnits: number;
  /** Without those of scans. */
  readonly readUnits: number;
  /** Pages of scans. */
  readonly scans: number;
  /** Bytes of items that scans went over: what they cost goes by the table's size, not by a log's. */
  readonly scannedBytes: number;
  readonly puts: number;
  readonly gets: number;
  readonly lists: number;
  /** Keys that a listing goes over for all logs together: each thousand is a request more. */
  readonly listedKeys: number;
  /** Messages sent, receives and deletes. */
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

/** Two works together, or the second one `times` so often: -1 takes it away. */
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

/** All of them together. */
export function sumWork(works: Iterable<Work>): Work {
  let sum = NO_WORK;
  for (const work of works) sum = addWork(sum, work);
  return sum;
}
