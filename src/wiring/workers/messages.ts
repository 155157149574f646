/** Messages between the primary process and its workers, over their IPC channels. */

import type { Socket } from 'node:net';
import { z } from 'zod';
import type { AnalyticsStatus } from '../../analytics/process.ts';
import type { Config } from '../../config/config.ts';
import type { Arrival } from '../../http/client-address.ts';
import type { ServiceWorkers } from '../../http/health.ts';
import type { MetricFigures } from '../../http/metric-figures.ts';
import type { AnalyticsAddress } from '../../projections/analytics/analytics-db.ts';
import type { ReloadCause, ReloadOutcome, ReloadRecord } from '../reload.ts';

/** What analytics, which the primary runs, is for the workers. */
export interface AnalyticsSeen {
  readonly status: AnalyticsStatus;
  readonly gateway: AnalyticsAddress | undefined;
  readonly administrator: AnalyticsAddress | undefined;
}

/** Sent each second, and when a worker begins or ends to serve requests. */
const serviceState = z.object({
  /** Workers that serve requests. */
  running: z.number(),
  /** Why no other worker could start at the moment. */
  problem: z.string().optional(),
  /** Undefined while analytics is off. */
  analytics: z.custom<AnalyticsSeen>().optional(),
});

export type ServiceState = z.infer<typeof serviceState>;

/**
 * The first message to a worker. It reads no configuration itself: all workers have that of the primary's start or of its
 * last reload, also one that replaces another.
 */
const start = z.object({
  type: z.literal('start'),
  number: z.number(),
  config: z.custom<Config>(),
  masterKey: z.string().optional(),
  socketPath: z.string(),
  /** At which clients reach the service. */
  url: z.string(),
  state: serviceState,
});

export type WorkerStart = z.infer<typeof start>;

export const toWorker = z.discriminatedUnion('type', [
  start,
  z.object({ type: z.literal('state'), state: serviceState }),
  /** Sent with the socket of a connection. Answered by `accepted`. */
  z.object({ type: z.literal('connection'), arrival: z.custom<Arrival>().optional() }),
  z.object({ type: z.literal('stop'), reason: z.string() }),
  /** Answered by `configured`. With a record, the worker appends it first. */
  z.object({
    type: z.literal('configure'),
    config: z.custom<Config>(),
    record: z.custom<ReloadRecord>().optional(),
  }),
  /** The answer to `reload`. */
  z.object({ type: z.literal('reloaded'), id: z.number(), outcome: z.custom<ReloadOutcome>() }),
  /** Answered by `figures` with the same id. */
  z.object({ type: z.literal('collect'), id: z.number() }),
  /** The answer to `scrape`. */
  z.object({ type: z.literal('scraped'), id: z.number(), text: z.string() }),
]);

export type ToWorker = z.infer<typeof toWorker>;

export const toPrimary = z.discriminatedUnion('type', [
  /** The gateway has its lease. */
  z.object({ type: z.literal('leased'), gateway: z.string() }),
  /** It accepts connections. */
  z.object({
    type: z.literal('ready'),
    url: z.string(),
    demo: z.boolean(),
    dashboard: z.enum(['on', 'off', 'not built']),
  }),
  z.object({ type: z.literal('accepted') }),
  /** It could not start, and ends. */
  z.object({ type: z.literal('failed'), reason: z.string() }),
  /** The answer to `state`. */
  z.object({ type: z.literal('alive') }),
  z.object({ type: z.literal('figures'), id: z.number(), figures: z.custom<MetricFigures>() }),
  /** With the reason why the configuration cannot be in force. */
  z.object({ type: z.literal('configured'), problem: z.string().optional(), temporary: z.boolean().optional() }),
  /** A client asks for a reload of the service. Answered by `reloaded` with the same id. */
  z.object({ type: z.literal('reload'), id: z.number(), cause: z.custom<ReloadCause>() }),
  /** A client asks for the metrics of the service. Answered by `scraped` with the same id. */
  z.object({ type: z.literal('scrape'), id: z.number() }),
  /** It stopped, and ends. */
  z.object({
    type: z.literal('stopped'),
    /** Why the stop could not be recorded. */
    unrecorded: z.string().optional(),
    /** Why it has not stopped in the usual way. */
    error: z.string().optional(),
    /** Its last ones. */
    figures: z.custom<MetricFigures>().optional(),
  }),
]);

export type ToPrimary = z.infer<typeof toPrimary>;

/** The connections of a worker, which the primary process accepts. */
export interface ReceivedConnections {
  /** At which clients reach the service. */
  readonly url: string;
  receive(take: (socket: Socket) => void): void;
}

/** What a gateway needs to know about the service of which it is one of several workers. */
export interface WorkerPlace {
  /** From 1. The first one saves the read models for all. */
  readonly number: number;
  /** Of the primary process, which has the log open. */
  readonly socketPath: string;
  /** Undefined: it listens itself. */
  readonly connections?: ReceivedConnections | undefined;
  /** Called with the id of this gateway when it has its lease. */
  leased(gateway: string): void;
  /** The metrics of all workers, as the text of a scrape. Undefined: a scrape gets those of this one. */
  readonly scrape: (() => Promise<string>) | undefined;
  /** How many workers there are to be, and how many serve requests. */
  workers(): ServiceWorkers;
}
