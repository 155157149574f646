/** The event log of this gateway: opened, and its state for health checks, metrics and the operator. */
import { existsSync, mkdirSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { engineAccess } from '../../config/log-settings.ts';
import { nodeDisk } from '../../events/embedded/disk.ts';
import { identityFile } from '../../events/embedded/identity.ts';
import { LogIncomplete } from '../../events/embedded/log-errors.ts';
import { segmentsIn } from '../../events/embedded/segment.ts';
import type { Position } from '../../events/event.ts';
import { type EventLog, LogUnavailable } from '../../events/log.ts';
import { directoryOf, openLog } from '../../events/open-log.ts';
import type { LogFigures } from '../../http/metrics.ts';
import { seenByViews } from '../../projections/seen-by-views.ts';
import { removeViews, viewsFile } from '../../projections/view-store.ts';

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
    const { SharedLog } = await import('../../events/shared/shared-log.ts');
    return SharedLog.open({ socketPath, dir: directoryOf(log.url), warn, signal: further.signal });
  }
  if (log.engine === undefined) {
    refuseMissingLog({ dataDir, url: log.url });
    const { durability, archiveBacklogBytes } = log;
    const options = { durability, archiveBacklogBytes, warn, verify: true };
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
  const { state, unsyncedBytes, uncompressedBytes, degraded, failedRotations, engine } = log.status();
  return {
    available: state === 'ok',
    head: await log.head(),
    unsyncedBytes,
    uncompressedBytes,
    degraded: degraded !== undefined,
    failedRotations,
    engine,
  };
}

// A data folder whose log is missing is no new one: a volume may not be mounted.

/**
 * To be called before a log in files is opened for writing. A replica may be missing: it is made again from its engine.
 * @throws Error when there is no log, although the data folder has projections that were built from one
 */
export function refuseMissingLog({ dataDir, url }: { readonly dataDir: string; readonly url: string }): void {
  if (!url.startsWith('file:')) return;
  const dir = directoryOf(url);
  const views = viewsFile(dataDir);
  if (!existsSync(views) || hasLog(dir)) return;
  throw new Error(
    `there is no event log in ${dir}, but ${views} was built from one. Make sure that its volume is mounted, or restore ` +
      `a backup; to begin a new, empty log, remove ${views}`,
  );
}

/**
 * To be called before a replica is opened. One that is made anew may differ from the one before, which was moved away because
 * it did not have what its engine has: projections that were built from that one are removed.
 */
export function removeViewsOfMissingReplica(parts: { readonly dataDir: string; readonly folder: string }): void {
  if (!hasLog(parts.folder)) removeViews(parts.dataDir);
}

/** Whether there is a part of one, of which the opening finds out whether it is complete. */
function hasLog(dir: string): boolean {
  if (!existsSync(dir)) return false;
  const names = nodeDisk.list(dir);
  return names.includes(identityFile) || segmentsIn(names).size > 0;
}

// Errors of background work in the gateway's own log: why the event log cannot be written is one line, not one per failure.

/**
 * Reports each change of the log's state.
 * @returns reports an error; a `LogUnavailable` as one line, and only when its reason is not the latest that was reported
 */
export function errorReporter(
  logger: Pick<Logger, 'error' | 'info'>,
  log: Pick<EventLog, 'onStatusChange'>,
): (error: unknown) => void {
  let reported: string | undefined;
  const report = (error: unknown) => {
    if (!(error instanceof LogUnavailable)) return logger.error(error);
    if (error.message !== reported) logger.error(error.message);
    reported = error.message;
  };
  log.onStatusChange(({ state, reason = 'unknown reason' }) => {
    if (state === 'unavailable') return report(new LogUnavailable(reason, 'none'));
    reported = undefined;
    logger.info('the event log can be written again');
  });
  return report;
}
