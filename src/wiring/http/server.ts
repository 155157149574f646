/** The HTTP server of the gateway, with its health checks and without other routes. */

import { readdirSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { mintEventId } from '../../events/event-id.ts';
import type { ConnectionSetup } from '../../http/connection-setup.ts';
import { registerHealth } from '../../http/health.ts';
import type { Http2Connections } from '../../http/http2.ts';
import { acceptHttp, openListener, type PortListener } from '../../http/listener.ts';
import type { Metrics } from '../../http/metrics.ts';
import { createRequestRecorder } from '../../http/request-recorder.ts';
import { createServer, type ServerOptions } from '../../http/server.ts';
import type { AnalyticsQueries } from '../analytics/reports.ts';
import { bodyLimits, type ModelRequests } from '../exchange.ts';
import { type GatewayLog, storageHealth } from '../log/event-log.ts';
import type { ReceivedConnections, WorkerPlace } from '../workers/messages.ts';

export interface GatewayServerOptions extends Pick<ServerOptions, 'authenticator' | 'admitRequest' | 'isStopping'> {
  readonly config: Config;
  readonly log: GatewayLog;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly setup: ConnectionSetup;
  readonly requests: Pick<ModelRequests, 'refused' | 'exchanges'>;
  /** Whether this gateway acts on every change that another one has confirmed. */
  readonly isCurrent: () => boolean;
  /** Undefined while analytics is off. */
  readonly analytics: AnalyticsQueries | undefined;
  /** Undefined where nothing is exported. */
  readonly telemetry: { readonly health: 'ok' | 'failing' } | undefined;
  /** Undefined where the service is one process. */
  readonly workers: WorkerPlace['workers'] | undefined;
}

export function createGatewayServer(options: GatewayServerOptions) {
  const { config, log, logger, metrics, requests, analytics, telemetry, workers, isStopping } = options;
  const recorder = createRequestRecorder({
    log,
    refused: requests.refused,
    metrics,
    newId: mintEventId,
    modelRequestOf: (request) => requests.exchanges.modelRequestOf(request),
  });
  const app = createServer({
    bodyLimits: bodyLimits(config, log),
    get bodyBounds() {
      return config.server.bodyBounds;
    },
    bodyMemoryBytes: config.server.maxBodyMemoryBytes,
    basePath: config.server.basePath,
    separateMetrics: config.server.adminListen && config.metrics.endpoint,
    get corsOrigins() {
      return config.server.corsOrigins;
    },
    maxHeaderBytes: config.server.maxHeaderBytes,
    headersTimeoutMs: config.server.requestTimeouts.headersMs,
    requestTimeoutMs: config.server.requestTimeouts.requestMs,
    isStopping,
    authenticator: options.authenticator,
    admitRequest: options.admitRequest,
    recorder,
    logError: (error, context) => logger.error({ err: error, ...context }, 'request failed'),
  });
  registerHealth(app, {
    log: () => (options.isCurrent() ? storageHealth(log) : 'down'),
    damage: () => log.status().damage,
    streamIndex: () => (log.status().unindexedSegments === 0 ? 'ok' : 'rebuilding'),
    stopping: isStopping,
    engine: () => log.status().engine,
    ...(workers === undefined ? {} : { workers }),
    ...(analytics === undefined ? {} : { analytics: () => analytics.status().health }),
    ...(telemetry === undefined ? {} : { telemetry: () => telemetry.health }),
  });
  let http2: Http2Connections | undefined;
  let stopListening = async () => {};
  return {
    app,
    recorder,
    /**
     * @param received the connections of another server, which listens already
     * @returns its URL, for example `http://127.0.0.1:8080`
     */
    async listen(received?: ReceivedConnections & Partial<PortListener>) {
      await app.ready();
      // Starts the time limits of requests, which belong to a server that listens: before the first connection.
      app.server.emit('listening');
      let most = Number.POSITIVE_INFINITY;
      let open = 0;
      if (config.server.tls !== undefined) {
        // Node's HTTP/2 takes a while to load.
        const { createHttp2 } = await import('../../http/http2.ts');
        http2 = createHttp2({
          handle: (request, response) => app.routing(request, response),
          maxHeaderBytes: config.server.maxHeaderBytes,
          requestTimeoutMs: config.server.requestTimeouts.requestMs,
          idleMs: app.server.keepAliveTimeout,
        });
      }
      const enter = options.setup.into(app.server, http2?.take);
      const take = (socket: Socket) => {
        // Node counts only the connections of a server that listens itself.
        if (open >= most) return void socket.destroy();
        open++;
        socket.once('close', () => open--);
        enter(socket);
      };
      const from: typeof received = received ?? (await openListener(config.server, take, acceptHttp));
      const limit = descriptorLimit();
      if (limit !== undefined) {
        most = mostConnections(limit);
        const warning = warningOfDescriptors(limit, most);
        if (warning !== undefined) logger.warn(warning);
      }
      from.receive(take);
      stopListening = async () => {
        http2?.stop();
        await from.close?.();
      };
      return from.url;
    },
    /** Accepts no new connection and leaves open connections alone. */
    stopListening: () => stopListening(),
    /** Ends connections that wait for nothing: live tails, kept-alive and unused connections. */
    async close() {
      http2?.close();
      app.server.closeAllConnections();
      await app.close();
    },
  };
}

// File descriptors of the process: the connections of clients never take the last ones, which the log needs.

/** Below it the start warns. */
const FEW = 1024;

/** For files that are open for a moment: segments of the log that are read, snapshots, the stream index. */
const RESERVED = 32;

/** The limit of this process; undefined where the system does not show it (other systems than Linux), or without a limit. */
function descriptorLimit(limits = readLimits()): number | undefined {
  const soft = /^Max open files\s+(\d+)/m.exec(limits ?? '')?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/**
 * How many connections of clients may be open. Each may need a second descriptor, for its connection to a provider.
 * @param open descriptors that the process has open without connections
 */
function mostConnections(limit: number, open = openDescriptors()): number {
  return Math.max(1, Math.floor((limit - open - RESERVED) / 2));
}

function warningOfDescriptors(limit: number, connections: number): string | undefined {
  if (limit >= FEW) return undefined;
  return (
    `the process may open only ${limit} files (ulimit -n), fewer than ${FEW}: it accepts at most ${connections} connections ` +
    'at a time and closes further ones. Raise the limit'
  );
}

function readLimits(): string | undefined {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return undefined;
  }
}

function openDescriptors(): number {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return 0;
  }
}
