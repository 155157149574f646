/** Entry point of the command line. `serve` is the gateway; the other commands read the log and the configuration. */
import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';

// A second wall beside `--disable-sigusr1`: without a listener the signal opens a debugger, also for plugins.
process.on('SIGUSR1', () => {});
// A reload. Before `serve` reads the configuration there is none to read again.
const isService = process.argv[2] === 'serve';
if (isService) process.on('SIGHUP', () => {});

// Loaded after the listeners: it takes a noticeable time.
const { runCli } = await import('./cli/program.ts');
const { printError } = await import('./cli/terminal.ts');

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const exitCode = runCli(process.argv.slice(2), {
  version,
  env: process.env,
  cwd: process.cwd(),
  providerTypes: async () => (await import('./providers/types.ts')).providerTypes,
  guardrailSecrets: async () => (await import('./wiring/guardrail-types.ts')).guardrailSecrets,
  serve: async (flags) => (await import('./serve.ts')).serve(flags),
  analytics: async (flags) => (await import('./analytics/standalone.ts')).runAnalytics(flags),
  setUpAnalyst: async (config, options) => (await import('./analytics/setup.ts')).setUpAnalyst(config, options),
  replayGuardrails: async (config, log, options) =>
    (await import('./wiring/local-guardrail-replay.ts')).replayGuardrails(config, log, options),
  masterKey: async (config) =>
    config.masterKey ?? (await import('./config/master-key.ts')).createdMasterKey(config.dataDir),
  examine: async (examined) => (await import('./wiring/doctor.ts')).examine(examined),
  announcedPosition: async (config) => (await import('./analytics/announced-position.ts')).announcedPosition(config),
  rebuildAnalytics: async (config, options) =>
    (await import('./analytics/rebuild.ts')).rebuildAnalytics(config, options),
  writeParquet: async (events, path) => (await import('./analytics/log-parquet.ts')).writeParquet(events, path),
});

process.exitCode = await exitCode.catch((error: unknown) => {
  // The output of Node for an uncaught error.
  printError(inspect(error));
  return process.exit(1);
});

// Until the process has ended its listeners stay: at a usual end, Node removes them while it still receives signals.
if (isService) process.once('beforeExit', () => process.exit());
