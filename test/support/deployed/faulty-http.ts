import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { Random } from '../models/random.ts';
import { type Call, type Fault, faultsFor, type HttpRequest, nameOperation, type Service } from './aws-faults.ts';

type HttpHandler = DynamoDBClient['config']['requestHandler'];

/** One request as the SDK handed it to its HTTP layer. */
export interface SentRequest {
  readonly service: Service;
  readonly operation: string;
  /** The same for all attempts of one client call. */
  readonly invocation: string;
  /** Starts at 1. */
  readonly attempt: number;
  readonly fault: Fault | undefined;
}

/** Returns the fault of a request, or undefined for none. */
export type Decide = (request: Omit<SentRequest, 'fault'>, faults: readonly Fault[]) => Fault | undefined;

/**
 * Injects faults into a share of all requests. It picks one of the faults that the request can meet
 * and that were injected least often so far.
 */
export function atRandom(seed: number, share: number): Decide {
  const random = new Random(seed);
  const met = new Map<Fault, number>();
  const times = (fault: Fault): number => met.get(fault) ?? 0;
  return (_, faults) => {
    if (!random.chance(share)) return undefined;
    const least = Math.min(...faults.map(times));
    const fault = random.pick(faults.filter((each) => times(each) === least));
    if (fault !== undefined) met.set(fault, times(fault) + 1);
    return fault;
  };
}

/**
 * Injects a fault, by name, into requests of one operation or of all. `from` and `to` limit it to
 * some attempts of each call.
 */
export function always(name: string, operation?: string, { from = 1, to = Number.POSITIVE_INFINITY } = {}): Decide {
  return (request, faults) => {
    const isMeant = operation === undefined || request.operation === operation;
    if (!isMeant || request.attempt < from || request.attempt > to) return undefined;
    return faults.find((fault) => fault.name === name);
  };
}

/** The first fault that one of some decisions returns. */
export function firstOf(...decisions: readonly Decide[]): Decide {
  return (request, faults) => {
    for (const decide of decisions) {
      const fault = decide(request, faults);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
}

/**
 * Injects faults between the SDK and the servers. Signing, serializing and retries of the SDK run
 * above it, so the SDK's clients are unchanged.
 */
export class FaultyHttp {
  /** All requests, in the order in which the SDK sent them. */
  readonly sent: SentRequest[] = [];
  readonly #decide: Decide;

  constructor(decide: Decide) {
    this.#decide = decide;
  }

  /** The requests of each client call, in order. */
  invocations(from = 0): SentRequest[][] {
    const calls = Object.groupBy(this.sent.slice(from), ({ invocation }) => invocation);
    return Object.values(calls).filter((requests) => requests !== undefined);
  }

  /**
   * Routes a client's requests through this object.
   * @returns the same client
   */
  between<C extends { readonly config: { requestHandler: HttpHandler } }>(client: C, service: Service): C {
    const handler = client.config.requestHandler;
    const send = handler.handle.bind(handler);
    const handle: HttpHandler['handle'] = async (request: HttpRequest, options) => {
      const operation = nameOperation(service, request);
      const call: Call = { service, operation, request, send: (changed = request) => send(changed, options) };
      const sending = {
        service,
        operation,
        invocation: String(request.headers['amz-sdk-invocation-id']),
        attempt: Number(/^attempt=(\d+)/.exec(String(request.headers['amz-sdk-request']))?.[1]),
      };
      const fault = this.#decide(sending, faultsFor(call));
      this.sent.push({ ...sending, fault });
      return fault === undefined ? call.send() : fault.meet(call);
    };
    Object.assign(handler, { handle });
    return client;
  }
}
