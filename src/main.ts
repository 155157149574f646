/** The command line's entry. `serve` is the gateway; the other commands read the log and the configuration. */
import { readFileSync } from 'node:fs';
import { runCli } from './cli/program.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

process.exitCode = await runCli(process.argv.slice(2), {
  version,
  env: process.env,
  cwd: process.cwd(),
  providerTypes: async () => (await import('./providers/types.ts')).providerTypes,
  serve: async (flags) => (await import('./serve.ts')).serve(flags),
  analytics: async (flags) => (await import('./analytics.ts')).runAnalytics(flags),
  analyticsProgress: async (config) => (await import('./analytics-progress.ts')).analyticsProgress(config),
  rebuildAnalytics: async (config, options) =>
    (await import('./analytics-rebuild.ts')).rebuildAnalytics(config, options),
  writeParquet: async (events, path) => (await import('./log-parquet.ts')).writeParquet(events, path),
});
