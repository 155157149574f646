/**
 * The open exchanges. After a crash the gateway closes them; while it runs, a new listener of the live tail gets them
 * first, and a metric counts them.
 *
 * It processes every exchange, so `apply` is a map look-up and a few assignments. It does not get chunks.
 */
import { z } from 'zod';
import * as events from '../events/catalogue/exchange.ts';
import { idOf, type RecordedEvent, type StreamName, streamName } from '../events/event.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const attemptPreview = z.object({
  seq: z.number(),
  kind: z.string(),
  provider: z.string(),
  providerType: z.string(),
  model: z.string().optional(),
});

const inFlightExchange = z.object({
  id: z.string(),
  requestId: z.string().optional(),
  /** Milliseconds since the epoch: when it was received. */
  at: z.number(),
  method: z.string(),
  path: z.string(),
  dialect: z.string(),
  streaming: z.boolean(),
  /** The selector in the client's spelling. */
  requestedModel: z.string().optional(),
  provider: z.string().optional(),
  providerType: z.string().optional(),
  model: z.string().optional(),
  userPath: z.string().optional(),
  actor: z.string(),
  authMethod: z.string(),
  clientIp: z.string().optional(),
  userAgent: z.string().optional(),
  /** As in `request.received`. Absent in state that an earlier version saved. */
  workflow: events.requestReceived.data.shape.workflow,
  attempts: z.number(),
  attempt: attemptPreview.optional(),
  lastEvent: z.string(),
  /** Revision of `lastEvent`: chunks may follow it. */
  revision: z.string(),
});

export type InFlightExchange = z.infer<typeof inFlightExchange>;

export type InFlight = Map<string, InFlightExchange>;

export const inFlight: Projection<InFlight> = {
  name: 'in-flight',
  version: 1,
  filter: {
    streams: ['exchange-'],
    types: [
      events.requestReceived.type,
      events.modelResolved.type,
      events.historyReplayed.type,
      events.attemptStarted.type,
      events.attemptFailed.type,
      ...events.exchangeEnds,
    ],
  },
  initial: () => new Map(),
  apply(state, event) {
    const id = idOf(event.stream);
    if (events.exchangeEnds.has(event.type)) {
      state.delete(id);
      return state;
    }
    if (isA(event, events.requestReceived)) {
      state.set(id, beginExchange(id, event));
      return state;
    }
    const exchange = state.get(id);
    if (exchange === undefined) return state;
    advance(exchange, event);
    exchange.lastEvent = event.type;
    exchange.revision = String(event.revision);
    return state;
  },
  save: (state) => [...state.values()],
  load(saved) {
    const state: InFlight = new Map();
    for (const exchange of z.array(inFlightExchange).parse(saved)) state.set(exchange.id, exchange);
    return state;
  },
};

function beginExchange(
  id: string,
  event: RecordedEvent<string, z.infer<typeof events.requestReceived.data>>,
): InFlightExchange {
  const { data, context } = event;
  return {
    id,
    requestId: context.requestId,
    at: event.at,
    method: data.method,
    path: data.path,
    dialect: data.dialect,
    streaming: data.stream,
    requestedModel: data.model,
    userPath: context.userPath,
    actor: context.actor,
    authMethod: data.authMethod,
    clientIp: data.clientIp,
    userAgent: data.headers['user-agent'],
    workflow: data.workflow,
    attempts: 0,
    lastEvent: event.type,
    revision: String(event.revision),
  };
}

function advance(exchange: InFlightExchange, event: RecordedEvent): void {
  if (isA(event, events.modelResolved)) {
    exchange.provider = event.data.provider;
    exchange.providerType = event.data.providerType;
    exchange.model = event.data.model;
  } else if (isA(event, events.attemptStarted)) {
    const { attempt: seq, kind, provider, providerType, model } = event.data;
    exchange.attempts = seq;
    exchange.attempt = { seq, kind, provider, providerType, model };
  }
}

/** The exchanges that a gateway left open when it did not stop in an orderly way, in the order of their requests. */
export function openExchanges(state: InFlight): { id: string; stream: StreamName; exchange: InFlightExchange }[] {
  return [...state.values()].map((exchange) => ({
    id: exchange.id,
    stream: streamName('exchange', exchange.id),
    exchange,
  }));
}
