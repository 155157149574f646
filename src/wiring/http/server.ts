/** The HTTP server of the gateway, with its health checks and without other routes. */
import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { mintEventId } from '../../events/event-id.ts';
import { registerHealth } from '../../http/health.ts';
import type { Metrics } from '../../http/metrics.ts';
import { createRequestRecorder } from '../../http/request-recorder.ts';
import { createServer, type ServerOptions } from '../../http/server.ts';
import type { AnalyticsQueries } from '../analytics/reports.ts';
import { type GatewayLog, storageHealth } from '../log/event-log.ts';
import type { ModelRequests } from '../model-requests.ts';
import { bodyLimits } from '../size-limits.ts';

export interface GatewayServerOptions extends Pick<ServerOptions, 'authenticator' | 'admitRequest' | 'isStopping'> {
  readonly config: Config;
  readonly log: GatewayLog;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly requests: Pick<ModelRequests, 'refused' | 'exchanges'>;
  /** Undefined while analytics is off. */
  readonly analytics: AnalyticsQueries | undefined;
}

export function createGatewayServer(options: GatewayServerOptions) {
  const { config, log, logger, metrics, requests, analytics, isStopping } = options;
  const { host, port } = config.server;
  const recorder = createRequestRecorder({
    log,
    refused: requests.refused,
    metrics,
    newId: mintEventId,
    modelRequestOf: (request) => requests.exchanges.modelRequestOf(request),
  });
  const app = createServer({
    bodyLimits: bodyLimits(config, log),
    bodyMemoryBytes: config.server.maxBodyMemoryBytes,
    corsOrigins: config.server.corsOrigins,
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
    log: () => storageHealth(log),
    streamIndex: () => (log.status().unindexedSegments === 0 ? 'ok' : 'rebuilding'),
    stopping: isStopping,
    ...(analytics === undefined ? {} : { analytics: () => analytics.status().health }),
  });
  return {
    app,
    recorder,
    /** @returns its URL, for example `http://127.0.0.1:8080` */
    async listen() {
      await app.listen({ host, port });
      return `http://${host.includes(':') ? `[${host}]` : host}:${portOf(app.server) ?? port}`;
    },
    /**
     * Accepts no new connection and leaves open connections alone. An HTTP server's own `close` also ends connections
     * on which the client has not received the whole answer yet.
     */
    stopListening: () => void NetServer.prototype.close.call(app.server),
    /** Ends connections that wait for nothing: live tails, kept-alive and unused connections. */
    async close() {
      app.server.closeAllConnections();
      await app.close();
    },
  };
}

function portOf(server: Server): number | undefined {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : undefined;
}
