/**
 * Counts the steps of some work: the elements that array methods, spreads and loops visit or copy,
 * those of maps and sets, and the bytes that typed arrays copy. It does not see a loop over an
 * index. Counts do not depend on how fast the machine is.
 *
 * A thread whose array methods were replaced stays slower. So the work runs in another thread: see
 * {@link stepsOf}.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/** Prepares work of a size, which is not counted. @returns the work to count */
export type GrowingWork = (size: number) => Promise<() => Promise<unknown>>;

interface Task {
  readonly module: string;
  readonly name: string;
  readonly sizes: readonly number[];
}

/**
 * The steps of work that a module exports, for each of some sizes.
 * @param module the URL of the module
 * @param name the exported {@link GrowingWork}
 */
export async function stepsOf(module: string, name: string, sizes: readonly number[]): Promise<number[]> {
  const workerData: Task = { module, name, sizes };
  const worker = new Worker(new URL(import.meta.url), { workerData });
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

/**
 * Requires that work of four times the size takes at most five times the steps.
 * @param size large enough that fixed costs do not hide the growth
 */
export async function requireLinear(module: string, name: string, size: number): Promise<void> {
  const [small = 0, large = 0] = await stepsOf(module, name, [size, 4 * size]);
  if (small > 0 && large <= 5 * small) return;
  throw new Error(`'${name}' took ${small} steps for ${size}, and ${large} steps for ${4 * size}`);
}

type Method = (this: unknown, ...parameters: unknown[]) => unknown;

let steps = 0;

/** Methods that call a function for each element that they visit. */
const VISITS = [
  ...['every', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex', 'flatMap', 'forEach', 'map'],
  ...['reduce', 'reduceRight', 'some', 'sort', 'toSorted'],
];
/** Methods that visit or move up to all elements. */
const WHOLE = [
  ...['concat', 'fill', 'includes', 'indexOf', 'join', 'lastIndexOf', 'reverse', 'shift', 'splice', 'toReversed'],
  ...['toSpliced', 'unshift', 'with'],
];
/** Methods that copy what they return. */
const COPIES = ['slice'];

function replace(prototype: object, name: string, by: (old: Method) => Method): void {
  const old: unknown = Reflect.get(prototype, name);
  if (typeof old === 'function') Reflect.set(prototype, name, by(old as Method));
}

function lengthOf(value: unknown): number {
  return typeof value === 'object' && value !== null && 'length' in value ? Number(value.length) : 0;
}

function countCalls(old: Method): Method {
  return function (run, ...rest) {
    if (typeof run !== 'function') steps += lengthOf(this);
    const counted = (...parameters: unknown[]): unknown => {
      steps++;
      return Reflect.apply(run as Method, rest[0], parameters);
    };
    return old.apply(this, typeof run === 'function' ? [counted, ...rest] : [run, ...rest]);
  };
}

/** Counts each step of the iterators that a method returns. */
function countNext(old: Method): Method {
  return function (...parameters) {
    const iterator = old.apply(this, parameters) as Iterator<unknown> & { next: Method };
    const next = iterator.next.bind(iterator);
    iterator.next = () => {
      steps++;
      return next();
    };
    return iterator;
  };
}

function countEverything(): void {
  for (const name of VISITS) replace(Array.prototype, name, countCalls);
  for (const { prototype } of [Array, Object.getPrototypeOf(Uint8Array) as { prototype: object }]) {
    for (const name of COPIES) {
      replace(prototype, name, (old) => {
        return function (...parameters) {
          const copy = old.apply(this, parameters);
          steps += lengthOf(copy);
          return copy;
        };
      });
    }
  }
  for (const name of WHOLE) {
    replace(Array.prototype, name, (old) => {
      return function (...parameters) {
        steps += lengthOf(this);
        return old.apply(this, parameters);
      };
    });
  }
  replace(Object.getPrototypeOf(Uint8Array.prototype) as object, 'set', (old) => {
    return function (...parameters) {
      steps += lengthOf(parameters[0]);
      return old.apply(this, parameters);
    };
  });
  for (const prototype of [Array.prototype, Map.prototype, Set.prototype]) {
    for (const name of ['entries', 'keys', 'values']) replace(prototype, name, countNext);
    const iterate: Method = Reflect.get(prototype, Symbol.iterator);
    Object.defineProperty(prototype, Symbol.iterator, {
      value: countNext(iterate),
      writable: true,
      configurable: true,
    });
  }
}

if (!isMainThread && parentPort !== null) {
  const { module, name, sizes } = workerData as Task;
  const exported: Record<string, GrowingWork | undefined> = await import(module);
  const work = exported[name];
  if (work === undefined) throw new Error(`${module} exports no '${name}'`);
  const runs = [];
  for (const size of sizes) runs.push(await work(size));
  countEverything();
  const counts: number[] = [];
  for (const run of runs) {
    steps = 0;
    await run();
    counts.push(steps);
  }
  parentPort.postMessage(counts);
}
