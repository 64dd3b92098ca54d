import type { World } from './world.ts';

/** Calls an exported function on logs that have everything, and checks the answer. */
export type Call = (world: World) => unknown;

/** A call for each member of an object. */
export type MemberCalls<T> = { readonly [Name in keyof T & string]-?: Call };

type IsAny<T> = 0 extends 1 & T ? true : false;
type AnyFunction = (...given: never[]) => unknown;

/** The type of the objects of a class. The prototype of another function has any type. */
type ObjectOf<Exported> = Exported extends { readonly prototype: infer Prototype }
  ? IsAny<Prototype> extends true
    ? never
    : Prototype
  : never;

/** The functions among the members of an object, without those that it may lack. */
type FunctionsOf<T> = { readonly [Name in keyof T as T[Name] extends AnyFunction ? Name : never]: T[Name] };

/** A call for a function, for each member of a class, or for each function of an object. */
type CallsOfExport<Exported> = [ObjectOf<Exported>] extends [never]
  ? Exported extends AnyFunction
    ? Call
    : MemberCalls<FunctionsOf<Exported>> & { readonly [Name in keyof Exported & string]?: Call }
  : MemberCalls<ObjectOf<Exported>> & MemberCalls<Omit<Exported, 'prototype'>>;

/** Whether there is something to call. The class of an error has only what errors have. */
type IsCalled<Exported> = Exported extends string
  ? false
  : [ObjectOf<Exported>] extends [never]
    ? Exported extends AnyFunction
      ? true
      : [keyof FunctionsOf<Exported>] extends [never]
        ? false
        : true
    : ObjectOf<Exported> extends Error
      ? false
      : true;

/** The calls that the exports of a module need. The compiler demands each, and refuses others. */
export type CallsOf<Exports> = {
  readonly [Name in keyof Exports as IsCalled<Exports[Name]> extends true ? Name : never]: CallsOfExport<Exports[Name]>;
};

/** Records what a test itself calls. Calls within logfold do not count. */
export class CallRecorder {
  /** Such as `logfold.parsePosition` and `Document.append`. */
  readonly called = new Set<string>();

  /** The exports of an entry of the package. Those with members record these under their names. */
  exportsOf<T extends object>(entry: string, module: T): T {
    return new Proxy(
      { ...module },
      {
        get: (exports, name) => {
          const value: unknown = Reflect.get(exports, name);
          const hasMembers = isClass(value) || isPlainObject(value);
          return hasMembers ? this.record(String(name), value) : this.#use(`${entry}.${String(name)}`, value, exports);
        },
      },
    );
  }

  /** An object that records the members that a test uses, as `NAME.MEMBER`. */
  record<T extends object>(name: string, target: T): T {
    return new Proxy(target, {
      get: (object, member) => {
        const used = `${name}.${String(member)}`;
        try {
          return this.#use(used, Reflect.get(object, member, object), object);
        } catch (error) {
          this.called.add(used);
          throw error;
        }
      },
    });
  }

  /** A function counts when it is called, and anything else when it is read. */
  #use(name: string, value: unknown, object: object): unknown {
    if (typeof value === 'function' && !name.endsWith('.prototype')) {
      return (...given: unknown[]): unknown => {
        this.called.add(name);
        return Reflect.apply(value, object, given);
      };
    }
    this.called.add(name);
    return value;
  }
}

export function isClass(value: unknown): value is object & { readonly prototype: unknown } {
  return typeof value === 'function' && Function.prototype.toString.call(value).startsWith('class ');
}

export function isPlainObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
