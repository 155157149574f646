/**
 * `npm run test:engine -- <kafka | eventstore> [--gateways 2] [--all] [files or folders]`: tests of whole gateways with their
 * logs on that engine, one log for each data folder (`test/support/test-log.ts`). Without files: those of `few`; with
 * `--all` those of `chosen`. With `--gateways`, the requests of tests in one process alternate between so many gateways on
 * the log (`fewOfClients`, `ofClients`).
 * `npm run test:engine -- files --workers 2`: they alternate between so many workers on a log in files.
 */
import { spawnSync } from 'node:child_process';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { testLogEngines } from '../test/support/test-log.ts';

const root = resolve(import.meta.dirname, '..');

/** What users rely on: their SDKs, restarts, stopping, idempotency, background, budgets, live tail, analytics. */
const chosen = [
  'test/e2e/test-log.test.ts',
  'test/clients/openai',
  'test/clients/ai-sdk',
  'test/clients/anthropic.test.ts',
  'test/clients/agents.test.ts',
  'test/clients/langchain.test.ts',
  'test/clients/conversations.test.ts',
  'test/clients/interrupted-streams.test.ts',
  'test/clients/agent-loop-restart.test.ts',
  'test/e2e/stop.test.ts',
  'test/e2e/admin-restart.test.ts',
  'test/e2e/background-restart.test.ts',
  'test/e2e/analytics.test.ts',
  'test/e2e/views.test.ts',
  'test/http/idempotency',
  'test/http/background.test.ts',
  'test/http/resumed-background-responses.test.ts',
  'test/http/budgets.test.ts',
  'test/http/limits-restart.test.ts',
  'test/http/live-logs.test.ts',
  'test/http/live-scope.test.ts',
];

/** What of it depends on the engine most. What the log itself promises is in `test/contract`. */
const few = [
  'test/e2e/test-log.test.ts',
  'test/e2e/admin-restart.test.ts',
  'test/e2e/views.test.ts',
  'test/clients/agent-loop-restart.test.ts',
  'test/http/idempotency.test.ts',
  'test/http/limits-restart.test.ts',
];

/** Objects that one gateway stored and another one reads, changes or follows. */
const fewOfClients = [
  'test/clients/openai.test.ts',
  'test/clients/openai-background.test.ts',
  'test/clients/openai-lifecycle.test.ts',
  'test/clients/openai-websocket.test.ts',
  'test/clients/conversations.test.ts',
  'test/http/background.test.ts',
  'test/http/idempotency.test.ts',
];

/** What clients do through several gateways: create on one; retrieve, chain, cancel, follow and repeat on another one. */
const ofClients = [
  'test/clients/openai',
  'test/clients/ai-sdk',
  'test/clients/anthropic.test.ts',
  'test/clients/agents.test.ts',
  'test/clients/langchain.test.ts',
  'test/clients/conversations.test.ts',
  'test/http/background.test.ts',
  'test/http/idempotency.test.ts',
  'test/http/realtime-secrets.test.ts',
];

/** What differs between gateways on an engine and workers is the log, so fewer suites than `ofClients`. */
const ofWorkers = [
  'test/clients/openai',
  'test/clients/ai-sdk-responses.test.ts',
  'test/clients/conversations.test.ts',
  'test/http/background.test.ts',
  'test/http/idempotency.test.ts',
  'test/http/realtime-secrets.test.ts',
];

/** Files that start gateways but cannot pass on an engine, and why. */
const excluded: Readonly<Record<string, string>> = {
  'test/e2e/log-unavailable.test.ts': 'fills the disk of an embedded log; test/contract has the failures of engines',
  'test/e2e/log-backup.test.ts':
    'starts a second data folder with a copy of the first, whose log is not that of the second folder here',
};

/** Each start and stop of a gateway opens and ends a log on the engine, which takes seconds on a machine with other work. */
const timeLimits = ['--testTimeout=60000', '--hookTimeout=120000'];

function main(args: readonly string[]): number {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      gateways: { type: 'string', default: '1' },
      workers: { type: 'string', default: '1' },
      all: { type: 'boolean', default: false },
    },
  });
  const [engine = '', ...files] = positionals;
  const { gateways, workers, all } = values;
  const isFiles = engine === 'files' && gateways === '1' && /^[2-9]$/.test(workers);
  const isEngine = testLogEngines.some((name) => name === engine) && workers === '1' && /^[1-9]$/.test(gateways);
  if (!isFiles && !isEngine) {
    console.error(
      `usage: npm run test:engine -- <${testLogEngines.join(' | ')}> [--gateways 2] [--all] [files or folders]`,
    );
    console.error('       npm run test:engine -- files --workers 2 [--all] [files or folders]');
    return 2;
  }
  const wanted = files.map((file) => relative(root, resolve(file)));
  for (const [file, reason] of Object.entries(excluded)) {
    if (wanted.some((one) => file.startsWith(one))) console.log(`not run: ${file}: ${reason}`);
  }
  const left = wanted.filter((file) => excluded[file] === undefined);
  if (wanted.length > 0 && left.length === 0) return 0;
  const exclusions = Object.keys(excluded).flatMap((file) => ['--exclude', file]);
  const vitest = [
    join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--project',
    'gateway',
    '--project',
    'isolated',
    ...timeLimits,
  ];
  const usual = all
    ? isFiles
      ? ofWorkers
      : gateways === '1'
        ? chosen
        : ofClients
    : gateways === '1' && !isFiles
      ? few
      : fewOfClients;
  const { status } = spawnSync(process.execPath, [...vitest, ...exclusions, ...(left.length > 0 ? left : usual)], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, TEST_LOG_ENGINE: isFiles ? '' : engine, TEST_GATEWAYS: gateways, TEST_WORKERS: workers },
  });
  return status ?? 1;
}

process.exitCode = main(process.argv.slice(2));
