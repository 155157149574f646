/** Requests to stop the program: signals, and the end of the process that started it. */

/**
 * One Ctrl-C reaches the whole process group, and npm may forward it as well: signals within this time count as one
 * request.
 */
const SAME_SIGNAL_MS = 500;

export interface StopRequests {
  /** Resolves with the reason for the stop. */
  readonly first: Promise<string>;
  /** Resolves at a second stop request, which ends the process immediately. */
  readonly second: Promise<void>;
}

export function stopRequests(): StopRequests {
  const first = Promise.withResolvers<string>();
  const second = Promise.withResolvers<void>();
  let stopRequestedAt: number | undefined;
  const stop = (reason: string) => {
    if (stopRequestedAt === undefined) {
      stopRequestedAt = performance.now();
      first.resolve(reason);
    } else if (performance.now() - stopRequestedAt >= SAME_SIGNAL_MS) {
      second.resolve();
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stop(signal));
  // The wrapper of `npm start` keeps this channel open while it is alive.
  if (process.connected) process.once('disconnect', () => stop('its parent process has ended'));
  return { first: first.promise, second: second.promise };
}
