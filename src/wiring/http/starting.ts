/** The answers of a gateway whose log is on an engine, from its start until it can serve requests. */
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { listenWhileStarting, type StartingServer, type StartingState } from '../../http/starting-server.ts';
import type { LogOpening } from '../log/event-log.ts';

export interface Starting extends StartingServer {
  readonly opening: LogOpening;
  /** The log is open; what remains is short. */
  logIsOpen(): void;
}

/**
 * Undefined for a log in files, which opens without waiting.
 * @throws EADDRINUSE and other errors of listening
 */
export async function answerWhileStarting({ log, server }: Config, logger: Logger): Promise<Starting | undefined> {
  const { host, port, maxHeaderBytes } = server;
  if (log.engine === undefined) return undefined;
  let state: StartingState = { reason: 'log: opening' };
  const starting = await listenWhileStarting({ host, port, maxHeaderBytes, state: () => state });
  logger.info(`answers on port ${starting.port} with 503 until the log is open`);
  return {
    ...starting,
    opening: {
      onProgress: (position) => {
        if (state.reason !== 'starting') state = { reason: 'log: catching up', position };
      },
      onDelay: (_, cause) => {
        state = { reason: cause === 'engine' ? 'engine unreachable' : 'disk: the replica cannot be written' };
      },
    },
    logIsOpen: () => {
      state = { reason: 'starting' };
    },
  };
}
