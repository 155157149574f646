/**
 * A signal ends this process through its `exit` handlers, which stop every server and the processes that keep
 * processors awake, and remove data folders. Without them a signal would leave all of these behind.
 */
import { constants } from 'node:os';

export function endWithSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  }
}
