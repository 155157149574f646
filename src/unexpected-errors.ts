/** What happens to an error that no code handles: it is logged with its cause, and the gateway stops. */
import { inspect } from 'node:util';
import type { Logger } from 'pino';

export interface UnexpectedErrors {
  /** Resolves with what has happened, at the first of them. */
  readonly first: Promise<string>;
  /** How many there have been. */
  readonly count: number;
}

/**
 * Logs every unhandled rejection and uncaught exception at level `fatal`, with its stack and its causes. After the
 * first one the state of the process is not known to be right, so `first` resolves, for an orderly stop; if the process
 * has not ended `withinMs` later, it is ended with exit code 1.
 */
export function watchUnexpectedErrors(logger: Logger, withinMs: number): UnexpectedErrors {
  const first = Promise.withResolvers<string>();
  let count = 0;
  const report = (what: string) => (reason: unknown) => {
    // before anything that may fail in its turn
    if (count++ === 0) setTimeout(() => process.exit(1), withinMs).unref();
    first.resolve(what);
    logger.fatal({ err: errorOf(reason) }, what);
  };
  process.on('uncaughtException', report('an exception was not caught'));
  process.on('unhandledRejection', report('a rejected promise was not handled'));
  return {
    first: first.promise,
    get count() {
      return count;
    },
  };
}

function errorOf(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(inspect(reason));
}
