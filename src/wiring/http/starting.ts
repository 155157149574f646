/** The answers of a gateway from its start until it can serve requests, and how far it is. */
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { parsePosition } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { ConnectionSetup } from '../../http/connection-setup.ts';
import type { Address } from '../../http/listener.ts';
import { listenWhileStarting, type StartingServer, type StartingState } from '../../http/starting-server.ts';
import type { ProjectionRunner } from '../../projections/runner.ts';
import type { LogOpening } from '../log/event-log.ts';

export interface Starting {
  readonly opening: LogOpening;
  /** The log is open, and the read models read it. When that takes longer than a second, it is reported. */
  readsLog(log: Pick<EventLog, 'status'>, projections: Pick<ProjectionRunner, 'status'>): void;
  /** Ends the reports. Resolves with the server that has the port, if there is one. @throws EADDRINUSE and other errors of listening */
  server(): Promise<StartingServer | undefined>;
  close(): void;
}

interface StartingConfig {
  readonly log: Pick<Config['log'], 'engine'>;
  readonly server: Address & Pick<Config['server'], 'maxHeaderBytes'>;
}

const REPORT_MS = 1_000;
/** Reports between two lines of output. */
const LINE_EVERY = 5;

/**
 * Listens at once when the log is on an engine; with a log in files, which opens without waiting, when the read models need
 * more than a second.
 * @throws EADDRINUSE and other errors of listening
 */
export async function answerWhileStarting(
  config: StartingConfig,
  logger: Logger,
  setup?: ConnectionSetup,
): Promise<Starting> {
  const { engine } = config.log;
  let state: StartingState = { reason: 'log: opening' };
  let listening: Promise<StartingServer> | undefined;
  let reports: NodeJS.Timeout | undefined;
  async function listen(until: string): Promise<StartingServer> {
    const starting = await listenWhileStarting({ ...config.server, setup, state: () => state });
    logger.info(`answers on port ${starting.listener.port} with 503 until ${until}`);
    return starting;
  }
  if (engine !== undefined) {
    listening = listen('the log is open');
    await listening;
  }
  return {
    opening: {
      onProgress: (position) => {
        if (state.reason !== 'starting') state = { reason: 'log: catching up', position };
      },
      onDelay: (_, cause) => {
        state = { reason: cause === 'engine' ? 'engine unreachable' : 'disk: the replica cannot be written' };
      },
    },
    readsLog(log, projections) {
      state = { reason: 'starting' };
      let count = 0;
      reports = setInterval(() => {
        const behind = projections.status().filter(({ phase }) => phase === 'catching-up');
        const position = behind
          .map((one) => one.position)
          .toSorted()
          .at(-1);
        state = position === undefined ? { reason: 'starting' } : { reason: 'read models: catching up', position };
        if (position === undefined) return;
        listening ??= listen('the read models have read the log');
        listening.catch(() => {});
        if (count++ % LINE_EVERY > 0) return;
        const { head } = log.status();
        const share = Math.floor((100 * parsePosition(position)) / parsePosition(head));
        logger.info(`${behind.length} read models read the log: at position ${position} of ${head} (${share} %)`);
      }, REPORT_MS);
      reports.unref();
    },
    server() {
      clearInterval(reports);
      return Promise.resolve(listening);
    },
    close() {
      clearInterval(reports);
      listening?.then((starting) => starting.close()).catch(() => {});
    },
  };
}
