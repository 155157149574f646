/**
 * A signal ends this process by way of its `exit` handlers, which stop every server, keep no processor awake any more and
 * remove data folders. Without that a signal leaves all of them behind.
 */
import { constants } from 'node:os';

export function endWithSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  }
}
