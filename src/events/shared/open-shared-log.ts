/** Opens the log that another process on this machine, the primary, has open and serves. */
import { SharedLog, type SharedLogOptions } from './shared-log.ts';

/** Resolves when the primary has answered. @throws the reason of the signal */
export function openSharedLog(options: SharedLogOptions): Promise<SharedLog> {
  return SharedLog.open(options);
}
