import { type LogId, textLogId } from '../../../src/ids/log-id.ts';
import { type SheetEdit, sheetBody } from '../../../src/state/spreadsheet/reducer.ts';
import type { Random } from '../models/random.ts';
import { FAULTY, NOTE } from '../models/versioned-sheet.ts';
import type { MappedTables } from '../stores/mapped-tables.ts';
import { applicationItem, applicationKey, type NewItem } from './application-items.ts';
import { enlarge, isInjected, loadAndCheck, pauseMs } from './client.ts';
import type { Ports, World } from './world.ts';

/** The work of one process of an application on one log. The plan survives its crashes. */
export interface ApplicationPlan {
  readonly log: LogId;
  readonly edits: readonly SheetEdit[];
  next: number;
  /** Index of the edit before which the application writes an item that cannot be folded. */
  readonly poisonAt: number | undefined;
}

/** A log id of an application: any text. */
export function anyLogId(random: Random, number: number): LogId {
  const text = random.pick(['17', 'Łódź order', 'a/b', '..', '%2F', '~x', 'B'.repeat(300), UUID, UUID.toUpperCase()]);
  return textLogId(number === 0 ? text : `${text}${number}`);
}

const UUID = '0192f7a0-0000-7000-8000-000000000001';

/** One life of a process of the application, which puts items until its plan is done. */
export async function liveApplication(
  world: World,
  ports: Ports,
  tables: MappedTables,
  plan: ApplicationPlan,
): Promise<void> {
  const { random, scheduler } = world;
  while (plan.next < plan.edits.length) {
    await scheduler.sleep(pauseMs(random));
    try {
      if (tables.isRegistered(plan.log) && random.chance(0.2)) await loadAndCheck(world, ports, plan.log);
      else if (random.chance(0.1)) insertOther(world, tables, plan.log);
      else {
        const edit = plan.edits[plan.next];
        const poisoned = plan.poisonAt === plan.next++;
        if (poisoned) poisonLog(world, tables, plan.log);
        if (edit !== undefined) await insert(world, ports, tables, { log: plan.log, edit });
      }
    } catch (error) {
      if (!isInjected(error)) throw error;
    }
  }
}

/** Puts items without faults until the log's newest block is full, and so many more. */
export function fillBlock(world: World, tables: MappedTables, log: LogId, more: number): void {
  do putNext(world, tables, log);
  while (!world.types.includes(tables.history(log).at(-1)?.entry.type ?? ''));
  for (let left = more; left > 0; left--) putNext(world, tables, log);
}

/** Puts an item after the newest one without faults. */
export function putNext(world: World, tables: MappedTables, log: LogId): void {
  const edit: SheetEdit = { type: 'Insert Rows', position: 0, count: 1 };
  put(tables, { log, index: tables.application.newestIndex(log) + 1, item: newItem(world, edit) });
}

/**
 * Writes another edit in place of an item.
 * @returns false if the table does not have the item
 */
export function correctItem(world: World, { application, schema }: MappedTables, log: LogId, index: number): boolean {
  const item = newItem(world, { type: 'Insert Rows', position: 0, count: 3 });
  return application.correct(log, index, applicationItem(schema, log, index, item));
}

/** Puts an item after the newest one, on the condition that no other process did. */
async function insert(
  world: World,
  { process }: Ports,
  tables: MappedTables,
  { log, edit }: { readonly log: LogId; readonly edit: SheetEdit },
): Promise<void> {
  const item = newItem(world, enlarge(world, edit));
  for (;;) {
    const index = 1 + (await process.intercept('applicationRead', async () => tables.application.newestIndex(log)));
    const done = await process.intercept('applicationPut', async () => put(tables, { log, index, item }));
    if (done) return;
  }
}

function newItem(world: World, edit: SheetEdit): NewItem {
  const serial = world.nextSerial();
  world.edits.set(serial, edit);
  return { type: edit.type, version: 1, body: sheetBody(edit), serial, nowMs: world.now() };
}

/** @returns false if an item has the index already */
function put(
  { application, schema }: MappedTables,
  { log, index, item }: { readonly log: LogId; readonly index: number; readonly item: NewItem },
): boolean {
  return application.insert(log, index, applicationItem(schema, log, index, item));
}

/** Puts an item of another kind into the same table, where the mapping tells kinds apart. */
function insertOther(world: World, { schema, application }: MappedTables, log: LogId): void {
  const { partitionKey, sortKey } = schema;
  const { [partitionKey.name]: pk } = applicationKey(schema, log, 0);
  const kind = `customer ${world.nextSerial()}`;
  const content = { S: 'of another kind' };
  if (pk !== undefined && sortKey.pattern?.startsWith('event#')) {
    application.insertOther({ [partitionKey.name]: pk, [sortKey.name]: { S: kind }, content });
  } else if (partitionKey.pattern !== undefined) {
    const other = partitionKey.type === 'S' ? { S: kind } : { B: new TextEncoder().encode(kind) };
    const sk = sortKey.type === 'N' ? { N: '7' } : { S: '0007' };
    application.insertOther({ [partitionKey.name]: other, [sortKey.name]: sk, content });
  }
}

/** Puts an item that cannot be folded, or leaves one out. */
function poisonLog(world: World, tables: MappedTables, log: LogId): void {
  const { random } = world;
  const index = tables.application.newestIndex(log) + 1;
  const item = newItem(world, { type: 'Insert Rows', position: 0, count: 0 });
  const poison = (code: string, curedBy = Number.POSITIVE_INFINITY): void => {
    world.poisons.set(item.serial, { code, curedBy });
  };
  const kinds = [0, 1, 1, 1, 2, 5, ...(typeof tables.schema.version === 'string' ? [3] : [])];
  const kind = random.pick(kinds);
  world.trace(`${world.scheduler.now()} poison ${kind} for '${log}' at item ${index}`);
  if (kind === 0 || kind === 1) poison('ENTRY_TYPE_UNKNOWN', kind === 1 ? 2 : undefined);
  if (kind === 2) poison('FOLD_FAILED');
  if (kind === 3) poison('ENTRY_VERSION_UNKNOWN');
  const type = kind === 0 ? 'Pivot' : kind === 1 ? NOTE : kind === 2 ? FAULTY : item.type;
  const changed = { ...item, type, version: kind === 3 ? 9 : 1 };
  put(tables, { log, index: kind === 5 ? index + 1 : index, item: changed });
}
