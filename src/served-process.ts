/** What a process that serves a configuration begins with: diagnostics, the master key, and what ends it. */
import type { Config } from './config/config.ts';
import { createDiagnostics } from './diagnostics.ts';
import { loadOrCreateMasterKey } from './master-key.ts';
import { stopRequests } from './stop-requests.ts';
import { watchUnexpectedErrors } from './unexpected-errors.ts';

/** How long a stop after an unexpected error may take in addition to the grace period of open requests. */
const STOP_MARGIN_MS = 10_000;

export type ServedProcess = ReturnType<typeof beginServing>;

/** Creates the master key at the first start without a configured one. */
export function beginServing(config: Config) {
  const logger = createDiagnostics({ level: config.logLevel, format: config.logFormat });
  for (const notice of config.notices) logger.warn(notice);
  let masterKey = config.masterKey;
  let created = false;
  if (masterKey === undefined && !config.unsafeOpen) {
    ({ key: masterKey, created } = loadOrCreateMasterKey(config.dataDir));
  }
  const unexpected = watchUnexpectedErrors(logger, config.server.drainSeconds * 1000 + STOP_MARGIN_MS);
  return { config, logger, masterKey, created, unexpected, stopRequested: stopRequests() };
}
