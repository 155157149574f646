/** The event log of this gateway: opened, and its state for health checks, metrics and the operator. */
import { mkdirSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { openLog } from '../../events/open-log.ts';
import type { LogFigures } from '../../http/metrics.ts';

export type GatewayLog = Awaited<ReturnType<typeof openLog>>;

/** Creates the data folder if it is missing. @throws Error when the log cannot be opened or is damaged */
export async function openGatewayLog({ dataDir, log }: Config, logger: Logger): Promise<GatewayLog> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  return openLog(log.url, {
    durability: log.durability,
    warn: (message, error) => logger.warn({ err: error }, message),
  });
}

/** `degraded`: events are written, and full segments are not replaced, indexed or compressed. */
export function storageHealth(log: GatewayLog): 'ok' | 'degraded' | 'down' {
  const { state, degraded } = log.status();
  if (state !== 'ok') return 'down';
  return degraded === undefined ? 'ok' : 'degraded';
}

export async function logFigures(log: GatewayLog): Promise<LogFigures> {
  const { state, unsyncedBytes, degraded, failedRotations } = log.status();
  return {
    available: state === 'ok',
    head: await log.head(),
    unsyncedBytes,
    degraded: degraded !== undefined,
    failedRotations,
  };
}
