/** `chancery analytics`: the analytics process without a gateway, for a machine that shares the folder of the log. */
import { print, printError } from '../cli/terminal.ts';
import { loadConfig } from '../config/load-config.ts';
import { describeProblem } from '../config/problem.ts';
import { providerTypes } from '../providers/types.ts';
import { createDiagnostics } from '../wiring/diagnostics.ts';
import { OFF_FOR_GOOD } from './messages.ts';
import { analyticsProcess } from './process.ts';

/** @returns the exit code, once it has stopped. It is not restarted: the caller handles its end. */
export async function runAnalytics(flags: Readonly<Record<string, string | undefined>>): Promise<number> {
  const loaded = loadConfig({ flags, env: process.env, cwd: process.cwd(), providerTypes });
  if (!loaded.ok) {
    printError('The configuration has problems; nothing was started.');
    for (const problem of loaded.problems) printError(`  ${describeProblem(problem)}`);
    return 1;
  }
  const { config } = loaded;
  const ended = Promise.withResolvers<number>();
  const analytics = analyticsProcess({
    // `ANALYTICS_ENABLED` says whether a gateway starts one.
    config: { ...config, analytics: { ...config.analytics, enabled: true } },
    logger: createDiagnostics({ level: config.logLevel, format: config.logFormat }).child({ part: 'analytics' }),
    say: print,
    onEnd: ended.resolve,
  });
  if (analytics === undefined) return OFF_FOR_GOOD;
  const stop = () => void analytics.stop().then(() => ended.resolve(0), ended.reject);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, stop);
  analytics.start();
  return ended.promise;
}
