/** The requests of a log, computed in plain TypeScript from its events; the audit log must have the same. */
import {
  attemptStarted,
  clientDisconnected,
  exchangeCompleted,
  exchangeFailed,
  modelResolved,
  requestReceived,
  requestRefused,
  requestsRefused,
  usageRecalculated,
  usageRecorded,
} from '../../src/events/catalogue/exchange.ts';
import { idOf } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';

export interface RequestFacts {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly requestId: string;
  readonly userPath: string;
  readonly sessionId: string;
  readonly model: string;
  readonly stream: boolean;
  provider: string;
  providerType: string;
  attempts: number;
  status: number;
  durationMs: number;
  errorType: string;
  errorMessage: string;
  /** Empty when a provider answered. */
  cacheType: string;
  /** Undefined while nothing is recorded, null when no provider reported any. */
  tokens: number | null | undefined;
  /** Nano-dollars, by the usage they are of. */
  readonly costs: Map<string, bigint | null>;
  ended: boolean;
  /** More than one of refused requests that were counted together. */
  readonly requests: number;
}

/** Nano-dollars; null when no part of it has a price. */
export function costOf({ costs }: RequestFacts): bigint | null {
  const known = [...costs.values()].filter((cost) => cost !== null);
  return known.length === 0 ? null : known.reduce((sum, cost) => sum + cost, 0n);
}

const nothing = {
  requestId: '',
  sessionId: '',
  model: '',
  stream: false,
  provider: '',
  providerType: '',
  attempts: 0,
  status: 0,
  durationMs: 0,
  errorType: '',
  errorMessage: '',
  cacheType: '',
  tokens: undefined,
  ended: false,
  requests: 1,
};

/** Those that have ended, newest first. */
export async function requestsOfLog(log: EventLog): Promise<RequestFacts[]> {
  const requests = new Map<string, RequestFacts>();
  for await (const { type, stream, data, at, context, id } of log.readAll()) {
    if (type === requestReceived.type) {
      const received = requestReceived.data.parse(data);
      requests.set(stream, {
        ...nothing,
        id: idOf(stream),
        at,
        requestId: context.requestId ?? '',
        userPath: context.userPath ?? '',
        sessionId: received.sessionId ?? '',
        model: received.model ?? '',
        stream: received.stream,
        costs: new Map(),
      });
      continue;
    }
    if (type === requestsRefused.type) {
      const { status, type: errorType, count, durationMs, firstAt } = requestsRefused.data.parse(data);
      const expected = { status, errorType, requests: count, durationMs: durationMs / count, at: firstAt, ended: true };
      requests.set(id, { ...nothing, id, userPath: context.userPath ?? '', costs: new Map(), ...expected });
      continue;
    }
    const request = requests.get(stream);
    if (request === undefined) continue;
    if (type === modelResolved.type) Object.assign(request, providerOf(modelResolved.data.parse(data)));
    else if (type === attemptStarted.type) {
      Object.assign(request, providerOf(attemptStarted.data.parse(data)));
      request.attempts += 1;
    } else if (type === exchangeCompleted.type) {
      const { status, durationMs } = exchangeCompleted.data.parse(data);
      Object.assign(request, { status, durationMs, ended: true });
    } else if (type === exchangeFailed.type || type === requestRefused.type) {
      const definition = type === exchangeFailed.type ? exchangeFailed : requestRefused;
      const { status, durationMs, type: errorType, message: errorMessage } = definition.data.parse(data);
      Object.assign(request, { status, durationMs, errorType, errorMessage, ended: true });
    } else if (type === clientDisconnected.type) {
      Object.assign(request, { status: 499, durationMs: clientDisconnected.data.parse(data).durationMs, ended: true });
    } else if (type === usageRecorded.type) {
      const { totalTokens, totalCost, cacheType, source } = usageRecorded.data.parse(data);
      request.cacheType = cacheType ?? request.cacheType;
      if (source === 'provider') request.tokens = (request.tokens ?? 0) + (totalTokens ?? 0);
      else request.tokens ??= null;
      request.costs.set(id, amount(totalCost));
    } else if (type === usageRecalculated.type) {
      const { usageId, totalCost } = usageRecalculated.data.parse(data);
      request.costs.set(usageId, amount(totalCost));
    }
  }
  return [...requests.values()].filter(({ ended }) => ended).sort((one, other) => other.at - one.at);
}

function providerOf({ provider, providerType }: { provider: string; providerType: string }) {
  return { provider, providerType };
}

function amount(text: string | null): bigint | null {
  return text === null ? null : BigInt(text);
}
