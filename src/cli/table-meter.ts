import type { Meter } from '../adapters/dynamodb-log-store.ts';

/** Counts requests to DynamoDB and the request units that they took. */
export class TableMeter {
  requests = 0;
  readUnits = 0;
  writeUnits = 0;

  readonly meter: Meter = (_, { readUnits, writeUnits }) => {
    this.requests++;
    this.readUnits += readUnits;
    this.writeUnits += writeUnits;
  };
}
