import fc from 'fast-check';
import { beforeEach } from 'vitest';
import { enterTimeZone, TIME_ZONES } from './time-zones.ts';

// Each property runs in two time zones, one run in the first and the next run in the second. A
// failure that depends on the zone is repeated with LOGFOLD_TIME_ZONE=Pacific/Chatham.
const given = process.env.LOGFOLD_TIME_ZONE;
const zones = TIME_ZONES.filter((zone) => given === undefined || zone === given);

let run = 0;
let leave = () => {};
beforeEach(() => {
  run = 0;
});

fc.configureGlobal({
  beforeEach() {
    const zone = zones[run++ % zones.length];
    if (zone === undefined) throw new Error(`LOGFOLD_TIME_ZONE is not one of ${TIME_ZONES.join(', ')}`);
    leave = enterTimeZone(zone);
  },
  afterEach: () => leave(),
});
