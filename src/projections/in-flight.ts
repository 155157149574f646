/**
 * The open exchanges. After a crash the gateway closes them; while it runs, a new listener of the live tail gets them
 * first, and a metric counts them.
 *
 * It processes every exchange, so `apply` is a map look-up and a few assignments. It does not get chunks. When the lease of
 * a gateway ends, its exchanges become those of its heir. A gateway that stops and knows no other one names none: its
 * exchanges become those of the oldest lease that lasts, or of the next one that is granted.
 */
import { z } from 'zod';
import * as events from '../events/catalogue/exchange.ts';
import { leaseEnded, leaseGranted } from '../events/catalogue/gateway.ts';
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
  /** Whose exchange it is; undefined when its gateway has ended and no other one was there. */
  gateway: z.string().optional(),
  /** Whether that gateway has it from another one, whose lease has ended. */
  isInherited: z.boolean().optional(),
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

export interface InFlight {
  /** By id. */
  readonly exchanges: Map<string, InFlightExchange>;
  /** The gateways whose leases last, in the order of their grants. */
  readonly leases: Set<string>;
}

const savedInFlight = z.object({ exchanges: z.array(inFlightExchange), leases: z.array(z.string()) });

export const inFlight: Projection<InFlight> = {
  name: 'in-flight',
  version: 3,
  filter: {
    streams: ['exchange-', 'lease-'],
    types: [
      events.requestReceived.type,
      events.modelResolved.type,
      events.historyReplayed.type,
      events.attemptStarted.type,
      events.attemptFailed.type,
      ...events.exchangeEnds,
      leaseEnded.type,
      leaseGranted.type,
    ],
  },
  initial: () => ({ exchanges: new Map(), leases: new Set() }),
  apply(state, event) {
    const { exchanges } = state;
    const id = idOf(event.stream);
    if (isA(event, leaseEnded)) {
      endLease(state, id, event.data.heir);
    } else if (isA(event, leaseGranted)) {
      state.leases.add(id);
      inherit(state, undefined, id);
    } else if (events.exchangeEnds.has(event.type)) {
      exchanges.delete(id);
    } else if (isA(event, events.requestReceived)) {
      exchanges.set(id, beginExchange(id, event));
    } else {
      const exchange = exchanges.get(id);
      if (exchange === undefined) return state;
      advance(exchange, event);
      exchange.lastEvent = event.type;
      exchange.revision = String(event.revision);
    }
    return state;
  },
  save: ({ exchanges, leases }) => ({ exchanges: [...exchanges.values()], leases: [...leases] }),
  load(saved) {
    const { exchanges, leases } = savedInFlight.parse(saved);
    return {
      exchanges: new Map(exchanges.map((exchange) => [exchange.id, exchange])),
      leases: new Set(leases),
    };
  },
};

function beginExchange(
  id: string,
  event: RecordedEvent<string, z.infer<typeof events.requestReceived.data>>,
): InFlightExchange {
  const { data, context } = event;
  return {
    id,
    gateway: data.gateway,
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

function endLease(state: InFlight, gateway: string, heir: string | undefined): void {
  state.leases.delete(gateway);
  const [oldest] = state.leases;
  inherit(state, gateway, heir ?? oldest);
}

function inherit({ exchanges }: InFlight, gateway: string | undefined, heir: string | undefined): void {
  for (const exchange of exchanges.values()) {
    if (exchange.gateway === gateway) Object.assign(exchange, { gateway: heir, isInherited: true });
  }
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
  return [...state.exchanges.values()].map((exchange) => ({
    id: exchange.id,
    stream: streamName('exchange', exchange.id),
    exchange,
  }));
}
