/** The event log of this gateway: opened, and its state for health checks, metrics and the operator. */
import { mkdirSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { engineAccess } from '../../config/log-settings.ts';
import { LogIncomplete } from '../../events/embedded/log-errors.ts';
import type { Position } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { directoryOf, openLog } from '../../events/open-log.ts';
import type { LogFigures } from '../../http/metrics.ts';
import { seenByViews } from '../../projections/seen-by-views.ts';
import { refuseMissingLog, removeViewsOfMissingReplica } from './missing-log.ts';

export type GatewayLog = EventLog;

/** Of the opening of a log that is not only this process's. */
export interface LogOpening {
  /** Of the process that has the log open; undefined: this one opens it. */
  readonly socketPath?: string | undefined;
  /** Ends it. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (position: Position) => void;
  readonly onDelay?: (reason: string, cause: 'engine' | 'replica') => void;
}

/**
 * Creates the data folder if it is missing.
 * @throws Error when the log cannot be opened, is damaged or is missing; the reason of the signal
 */
export async function openGatewayLog(
  { dataDir, log }: Config,
  logger: Logger,
  opening: LogOpening = {},
): Promise<GatewayLog> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const warn = (message: string, error: unknown) => logger.warn({ err: error }, message);
  const { socketPath, ...further } = opening;
  if (socketPath !== undefined) {
    const { openSharedLog } = await import('../../events/shared/open-shared-log.ts');
    return openSharedLog({ socketPath, dir: directoryOf(log.url), warn, signal: further.signal });
  }
  if (log.engine === undefined) {
    refuseMissingLog({ dataDir, url: log.url });
    const options = { durability: log.durability, warn, verify: true };
    if (!log.url.startsWith('file:')) return openLog(log.url, options);
    const dir = directoryOf(log.url);
    const { seen, otherBranch } = await seenByViews(dataDir, dir);
    if (otherBranch !== undefined) throw new LogIncomplete(dir, [otherBranch]);
    return openLog(log.url, seen === undefined ? options : { ...options, seen });
  }
  removeViewsOfMissingReplica({ dataDir, folder: log.engine.folder });
  // Loads the client of the engine.
  const { openReplicatedLog } = await import('../../events/open-replicated-log.ts');
  return openReplicatedLog({ ...engineAccess(log.url, log.engine), dir: log.engine.folder, warn, ...further });
}

/** `degraded`: events are written, but the log has a problem; see `degraded` of its status. */
export function storageHealth(log: Pick<GatewayLog, 'status'>): 'ok' | 'degraded' | 'down' {
  const { state, degraded } = log.status();
  if (state !== 'ok') return 'down';
  return degraded === undefined ? 'ok' : 'degraded';
}

export async function logFigures(log: GatewayLog): Promise<LogFigures> {
  const { state, unsyncedBytes, degraded, failedRotations, engine } = log.status();
  return {
    available: state === 'ok',
    head: await log.head(),
    unsyncedBytes,
    degraded: degraded !== undefined,
    failedRotations,
    engine,
  };
}
