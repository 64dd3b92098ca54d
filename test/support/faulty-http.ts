import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type Call, type Fault, faultsFor, type HttpRequest, nameOperation, type Service } from './aws-faults.ts';
import { Random } from './random.ts';

type HttpHandler = DynamoDBClient['config']['requestHandler'];

/** One request as the SDK handed it to its HTTP layer. */
export interface SentRequest {
  readonly service: Service;
  readonly operation: string;
  /** The same for all sendings of one call of a client. */
  readonly invocation: string;
  /** From 1. */
  readonly attempt: number;
  readonly fault: Fault | undefined;
}

/** Says what is to go wrong with a request, if anything. */
export type Decide = (request: Omit<SentRequest, 'fault'>, faults: readonly Fault[]) => Fault | undefined;

/** For a share of all requests, of the faults that the request can meet one of those that came least often so far. */
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

/** A fault by its name, for requests of one operation or of all, from one sending of a call on up to another. */
export function always(name: string, operation?: string, { from = 1, to = Number.POSITIVE_INFINITY } = {}): Decide {
  return (request, faults) => {
    const isMeant = operation === undefined || request.operation === operation;
    if (!isMeant || request.attempt < from || request.attempt > to) return undefined;
    return faults.find((fault) => fault.name === name);
  };
}

/** What the first of some decisions says that says anything. */
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
 * Puts faults between the SDK and the servers, below everything that the SDK does itself: signing, serializing,
 * retries. What a client of the SDK is made of stays as it is.
 */
export class FaultyHttp {
  /** All requests, in the order in which the SDK sent them. */
  readonly sent: SentRequest[] = [];
  readonly #decide: Decide;

  constructor(decide: Decide) {
    this.#decide = decide;
  }

  /** The requests of each call of a client, in order. */
  invocations(from = 0): SentRequest[][] {
    const calls = Object.groupBy(this.sent.slice(from), ({ invocation }) => invocation);
    return Object.values(calls).filter((requests) => requests !== undefined);
  }

  /** Leads a client's requests through here. @returns the client */
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
