/** Handles errors that no other code handles: logs them with their causes, and stops the gateway. */
import { inspect } from 'node:util';
import pino, { type Logger } from 'pino';

export interface UnexpectedErrors {
  /** Resolves with a description of the first error. */
  readonly first: Promise<string>;
  /** Number of unexpected errors. */
  readonly count: number;
}

/**
 * Logs every unhandled rejection and uncaught exception at level `fatal`, with its stack and its causes. After the
 * first one the state of the process may be wrong, so `first` resolves, for an orderly stop; if the process has not
 * ended `withinMs` later, it exits with code 1.
 */
export function watchUnexpectedErrors(logger: Logger, withinMs: number): UnexpectedErrors {
  const first = Promise.withResolvers<string>();
  let count = 0;
  const withStacks = logger.child({}, { serializers: { err: pino.stdSerializers.err } });
  const report = (what: string) => (reason: unknown) => {
    // before calls that may fail themselves
    if (count++ === 0) setTimeout(() => process.exit(1), withinMs).unref();
    first.resolve(what);
    withStacks.fatal({ err: errorOf(reason) }, what);
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
