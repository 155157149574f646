/**
 * The open exchanges. After a crash the gateway closes them; while it runs, a new listener of the live tail gets them
 * first, and a metric counts them.
 *
 * It processes every exchange, so `apply` is a map look-up and a few assignments. It does not get chunks. When the lease of
 * a gateway ends, its exchanges become those of its heir. A gateway that stops and knows no other one names none: its
 * exchanges become those of the oldest lease that lasts, or of the next one that is granted.
 */
import { serialize } from 'node:v8';
import type { z } from 'zod';
import * as events from '../events/catalogue/exchange.ts';
import { leaseEnded, leaseGranted } from '../events/catalogue/gateway.ts';
import { targetOfTool, toolCalled } from '../events/catalogue/mcp.ts';
import { idOf, type Position, type RecordedEvent, type StreamName, streamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';
import { createProjectionRunner, type ProjectionRunner, type RunningProjection } from './runner.ts';
import { logIdOf, saveBound } from './snapshot-basis.ts';
import type { ViewStore } from './view-store.ts';

export interface InFlightExchange {
  readonly id: string;
  /** Whose exchange it is; undefined when its gateway has ended and no other one was there. */
  readonly gateway?: string | undefined;
  /** Whether that gateway has it from another one, whose lease has ended. */
  readonly isInherited?: boolean;
  readonly requestId?: string | undefined;
  /** Milliseconds since the epoch: when it was received. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly dialect: string;
  readonly streaming: boolean;
  /** The selector in the client's spelling. */
  readonly requestedModel?: string | undefined;
  provider?: string;
  providerType?: string;
  model?: string;
  readonly userPath?: string | undefined;
  readonly actor: string;
  readonly authMethod: string;
  readonly clientIp?: string | undefined;
  readonly userAgent?: string | undefined;
  /** As in `request.received`. */
  readonly workflow?: z.infer<typeof events.requestReceived.data>['workflow'];
  attempts: number;
  attempt?: {
    readonly seq: number;
    readonly kind: string;
    readonly provider: string;
    readonly providerType: string;
    readonly model?: string | undefined;
  };
  lastEvent: string;
  /** Revision of `lastEvent`: chunks may follow it. */
  revision: string;
}

export interface InFlight {
  /** By id. */
  readonly exchanges: Map<string, InFlightExchange>;
  /** The gateways whose leases last, in the order of their grants. */
  readonly leases: Set<string>;
}

export const inFlight: Projection<InFlight> = {
  name: 'in-flight',
  version: 4,
  filter: {
    streams: ['exchange-', 'lease-'],
    types: [
      events.requestReceived.type,
      events.modelResolved.type,
      events.historyReplayed.type,
      events.attemptStarted.type,
      events.attemptFailed.type,
      toolCalled.type,
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
  ...savedAsItIs<InFlight>(),
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
  } else if (isA(event, toolCalled)) {
    Object.assign(exchange, targetOfTool(event.data.server, event.data.tool));
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

/**
 * The open exchanges, read by the start after a crash and by listeners of the live tail. A running gateway knows its
 * own open exchanges, so the fold starts with the first read. Until then a checkpoint is saved regularly: the position
 * before the oldest open exchange, where a fold has to begin.
 */
interface OpenExchangesViewOptions {
  readonly log: EventLog;
  readonly views: ViewStore;
  readonly projections: ProjectionRunner;
  /** Before the first event of the oldest open exchange. */
  readonly foldFrom: () => Position;
  /** Default 5000. */
  readonly markEveryMs?: number;
  readonly onError: (error: unknown) => void;
}

/** Without leases: in files there is one gateway at a time, and its start names it as the heir of the last one. */
const nothingOpen = serialize(inFlight.initial());

export class OpenExchangesView implements Pick<RunningProjection<InFlight>, 'state' | 'position' | 'whenProcessed'> {
  readonly #options: OpenExchangesViewOptions;
  readonly #timer: NodeJS.Timeout;
  #running: RunningProjection<InFlight> | undefined;
  #logId: string | undefined;
  #marked: Position | undefined;

  constructor(options: OpenExchangesViewOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.mark().catch(options.onError), options.markEveryMs ?? 5000);
    this.#timer.unref();
  }

  get state(): InFlight {
    return this.#run().state;
  }

  get position(): Position {
    return this.#run().position;
  }

  whenProcessed(position: Position): Promise<void> {
    return this.#run().whenProcessed(position);
  }

  /** Begins the fold now. Needed where other gateways have open exchanges, which the mark does not include. */
  follow(): void {
    this.#run();
  }

  /** Saves the position at which the next fold begins. @throws what SQLite throws when the disk is full */
  async mark(): Promise<void> {
    // After the first read the projection follows the log and is saved like any other.
    if (this.#running !== undefined) return;
    const { log, views, foldFrom } = this.#options;
    this.#logId ??= await logIdOf(log);
    const position = foldFrom();
    if (this.#logId === undefined || position === this.#marked || this.#running !== undefined) return;
    const { name, version } = inFlight;
    const snapshot = { name, version, logId: this.#logId, position, state: nothingOpen };
    if ((await saveBound(log, views, [snapshot])) !== undefined) this.#marked = position;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #run(): RunningProjection<InFlight> {
    this.#running ??= this.#options.projections.run(inFlight);
    return this.#running;
  }
}

/**
 * Begins to read which exchanges are open, with the other projections.
 * @returns resolves with those that are open at the end of the log; to be called before this process begins one
 */
export function readOpenExchanges(
  log: EventLog,
  views: ViewStore,
  together: ProjectionRunner,
): () => Promise<InFlight> {
  const projections = createProjectionRunner(log, views, { together });
  const folded = projections.run(inFlight);
  return async () => {
    await folded.whenProcessed(await log.head());
    await projections.close();
    return folded.state;
  };
}
