/** `chancery serve`: starts the gateway, prints its address and settings, and stops it in an orderly way. */
import { analyticsProcess } from './analytics/process.ts';
import { print, printError } from './cli/terminal.ts';
import { loadConfig } from './config/load-config.ts';
import { describeProblem } from './config/problem.ts';
import { createDiagnostics } from './diagnostics.ts';
import { type Gateway, startGateway } from './gateway.ts';
import { DASHBOARD_NOT_BUILT } from './http/dashboard/dashboard.ts';
import { loadOrCreateMasterKey } from './master-key.ts';
import { providerTypes } from './providers/types.ts';
import { watchUnexpectedErrors } from './unexpected-errors.ts';

/**
 * One Ctrl-C reaches the whole process group, and npm may forward it as well: signals within this time count as one
 * request.
 */
const SAME_SIGNAL_MS = 500;

/** How long a stop after an unexpected error may take in addition to the grace period of open requests. */
const STOP_MARGIN_MS = 10_000;

/** @returns the exit code, once the gateway has stopped */
export async function serve(flags: Readonly<Record<string, string | undefined>>): Promise<number> {
  const loaded = loadConfig({ flags, env: process.env, cwd: process.cwd(), providerTypes });
  if (!loaded.ok) {
    printError('The configuration has problems; nothing was started.');
    for (const problem of loaded.problems) printError(`  ${describeProblem(problem)}`);
    return 1;
  }
  const { config } = loaded;
  const logger = createDiagnostics({ level: config.logLevel, format: config.logFormat });
  for (const notice of config.notices) logger.warn(notice);

  let masterKey = config.masterKey;
  let created = false;
  if (masterKey === undefined && !config.unsafeOpen) {
    ({ key: masterKey, created } = loadOrCreateMasterKey(config.dataDir));
  }
  const unexpected = watchUnexpectedErrors(logger, config.server.drainSeconds * 1000 + STOP_MARGIN_MS);
  const { first, second } = stopRequests();
  const analytics = analyticsProcess({ config, logger, say: print });
  const gateway = await startGateway(config, masterKey, logger, { analytics }).catch((error: unknown) => {
    printError(`The gateway could not start: ${whyNot(error, config.server)}`);
    logger.debug(error);
    return undefined;
  });
  // Components that did start must not keep the process alive.
  if (gateway === undefined) process.exit(1);

  print(`Chancery listens on ${gateway.url}. Its log is ${config.log.url} (${durability[config.log.durability]}).`);
  if (config.unsafeOpen && config.masterKey === undefined) {
    print('UNSAFE: authentication is disabled because GATEWAY_UNSAFE_OPEN=true.');
  }
  if (gateway.demo) {
    print(
      'No provider is configured. A simulated provider serves demo/…; ' +
        'set LLAMACPP_BASE_URL=http://HOST:PORT/v1, OPENAI_API_KEY=… or another variable to add a real provider.',
    );
  }
  if (gateway.dashboard === 'not built') print(DASHBOARD_NOT_BUILT);
  const dashboard = gateway.dashboard === 'on' ? `${gateway.url}/admin/dashboard` : undefined;
  if (created && masterKey !== undefined) printFirstStart(gateway, masterKey, dashboard);
  else if (dashboard !== undefined) print(`The dashboard is at ${dashboard}`);
  analytics?.start(gateway.recordQuery);

  const reason = await Promise.race([first, unexpected.first]);
  logger.info(`stopping: ${reason}`);
  void second.then(() => process.exit(1));
  // Analytics stops at once: it continues with unsaved events at the next start.
  const analyticsStopped = analytics?.stop();
  try {
    await gateway.stop(reason);
    await analyticsStopped;
    return unexpected.count === 0 ? 0 : 1;
  } catch (error) {
    printError(`All acknowledged events are recorded, but the stop of the gateway could not be recorded: ${error}`);
    return 1;
  } finally {
    // An open channel to the parent process would keep this one alive.
    if (process.connected) process.disconnect();
  }
}

const durability = {
  standard: 'on disk before an answer ends',
  strict: 'on disk before a provider is called',
  relaxed: 'synced every 100 ms: a power cut may lose the last events',
};

function printFirstStart({ url, demo }: Gateway, masterKey: string, dashboard: string | undefined): void {
  const model = demo ? 'demo/simulated-small' : 'PROVIDER/MODEL';
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }] });
  print(
    `\nThis is the first start. The master key, shown only once and stored in the data folder:\n\n  ${masterKey}\n`,
  );
  if (dashboard !== undefined) print(`The dashboard, which needs this key:\n\n  ${dashboard}\n`);
  print(
    `Try it:\n\n  curl ${url}/v1/chat/completions -H 'Authorization: Bearer ${masterKey}' ` +
      `-H 'Content-Type: application/json' -d '${body}'\n`,
  );
}

function whyNot(error: unknown, { host, port }: { host: string; port: number }): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') return `${host}:${port} is in use. Choose another port with --port or PORT.`;
  if (code === 'EACCES' && message.includes('listen'))
    return `the process is not allowed to listen on ${host}:${port}.`;
  return message ?? String(error);
}

interface StopRequests {
  /** Resolves with the reason for the stop. */
  readonly first: Promise<string>;
  /** Resolves at a second stop request, which ends the process immediately. */
  readonly second: Promise<void>;
}

function stopRequests(): StopRequests {
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
