/** `chancery serve`: reads the configuration and starts the gateway, in this process or as several workers. */
import { printError } from './cli/terminal.ts';
import { loadConfig } from './config/load-config.ts';
import { describeProblem } from './config/problem.ts';
import { RunningConfiguration } from './config/reload.ts';
import { certificateWarnings, fileProblems } from './config/server-settings.ts';
import { providerTypes } from './providers/types.ts';
import { endSoon } from './wiring/end-of-process.ts';
import { beginServing } from './wiring/served-process.ts';

/** @returns the exit code, once the gateway has stopped */
export async function serve(flags: Readonly<Record<string, string | undefined>>): Promise<number> {
  const sources = { flags, env: process.env, cwd: process.cwd(), providerTypes };
  const loaded = loadConfig(sources);
  const problems = loaded.ok ? fileProblems(loaded.config.server, loaded.rawSettings) : loaded.problems;
  if (!loaded.ok || problems.length > 0) {
    printError('The configuration has problems; nothing was started.');
    for (const problem of problems) printError(`  ${describeProblem(problem)}`);
    return 1;
  }
  const served = beginServing(new RunningConfiguration(sources, loaded));
  for (const warning of certificateWarnings(served.config.server.tls)) served.logger.warn(warning);
  try {
    const exitCode =
      served.config.server.workers === 1
        ? await (await import('./wiring/serve-alone.ts')).serveAlone(served)
        : await (await import('./wiring/workers/serve-with-workers.ts')).serveWithWorkers(served);
    endSoon(exitCode, (message) => served.logger.warn(message));
    return exitCode;
  } finally {
    // An open channel to the parent process would keep this one alive. Its end is no second request to stop.
    process.removeAllListeners('disconnect');
    if (process.connected) process.disconnect();
  }
}
