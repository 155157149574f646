/**
 * Subjects that several files test in whole processes, each from another side: a start of a gateway, an engine, an
 * analytics process or a page costs more than the test. A run has some files of each, drawn by its seed; all of them are in
 * `npm run test:long`, and a file that is named on the command line always runs.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createChance } from '../crash/random.ts';
import { coveringPart } from './seed.ts';

interface Subject {
  readonly of: string;
  /** How many of the files a run has. */
  readonly drawn: number;
  /** Below `test/`, without `.test.ts`. */
  readonly files: readonly string[];
}

const within = (folder: string, ...names: string[]) => names.map((name) => `${folder}/${name}`);

export const subjects: readonly Subject[] = [
  {
    of: 'gateways whose log is on an engine that is slow, down, shared or killed',
    drawn: 1,
    files: [
      ...within('e2e', 'several-gateways', 'engine-outcomes', 'slow-broker', 'engine-stop', 'engine-outage'),
      'crash/engines',
    ],
  },
  {
    of: 'MCP servers',
    drawn: 2,
    files: [...within('mcp', 'real-servers', 'conformance'), 'e2e/mcp', 'http/mcp-catalog'],
  },
  { of: 'workers of one gateway', drawn: 1, files: within('e2e', 'workers', 'workers-absent') },
  {
    of: 'kills under load',
    drawn: 2,
    files: [
      ...within('crash', 'crash', 'older-copies', 'drivers'),
      ...within('e2e', 'killed-spending', 'realtime-killed'),
    ],
  },
  {
    of: 'a log that was copied, moved, damaged or backed up',
    drawn: 3,
    files: [
      ...within('e2e', 'log-copy', 'log-older', 'log-damaged', 'log-missing', 'log-moved', 'log-backup'),
      ...within('cli', 'log-copy', 'log-backup', 'log-accept-loss'),
      ...within('events', 'log-backup', 'log-moved', 'log-restore'),
    ],
  },
  {
    of: 'restarts',
    drawn: 2,
    files: [
      ...within('e2e', 'views', 'admin-restart', 'background-restart', 'plugins-restart', 'responses-mcp-restart'),
      ...within('http', 'limits-restart', 'resumed-background-responses'),
      'clients/agent-loop-restart',
    ],
  },
  {
    of: 'the process of a gateway',
    drawn: 3,
    files: within('e2e', 'start', 'stop', 'log-unavailable', 'content-read-memory', 'debugger', 'file-descriptors'),
  },
  {
    of: 'the analytics process, and what it writes',
    drawn: 2,
    files: [
      ...within('e2e', 'analytics', 'analytics-handover', 'analytics-sandbox', 'usage-report'),
      ...within('analytics', 'process', 'projector', 'rebuild', 'writer-fence', 'exactly-once', 'table-changes'),
    ],
  },
  {
    of: 'reports of analytics',
    drawn: 2,
    files: [
      ...within('analytics', 'audit-filters', 'audit-reports', 'overview', 'audit-chain', 'questions', 'tool-calls'),
      'http/usage-reports',
    ],
  },
  {
    of: 'attacks on analytics',
    drawn: 2,
    files: within('analytics/attacks', 'allowed', 'attacks', 'fuzz', 'memory', 'reported-attacks', 'system-tables'),
  },
  // With one of two contracts: of a log, or of a shared log.
  {
    of: 'the contract of a log on the server of an engine',
    drawn: 1,
    files: within('contract', 'kafka', 'eventstore'),
  },
  {
    of: 'the engine for EventStoreDB on a server',
    drawn: 1,
    files: within('events/eventstore', 'eventstore-faults', 'eventstore-engine', 'eventstore-access', 'assemble-calls'),
  },
  {
    of: 'the checks of the crash tests',
    drawn: 1,
    files: within(
      'crash',
      'checks',
      'check-log-failures',
      'check-cached',
      'check-guarded',
      'check-background-and-repeated',
    ),
  },
  {
    of: 'attacks on logs and limits',
    drawn: 2,
    files: within(
      'attacks',
      ...[
        'log-damage',
        'log-misplaced',
        'foreign-files',
        'request-growth',
        'growth',
        'body-dimensions',
        'budget-bursts',
      ],
    ),
  },
  { of: 'simulated gateways', drawn: 1, files: within('gateways/simulation', 'faults', 'histories') },
  {
    of: 'commands of the command line',
    drawn: 1,
    files: [...within('cli', 'plugin-commands', 'log-file', 'program'), 'e2e/log-cli'],
  },
  {
    of: 'the processes of the benchmark',
    drawn: 2,
    files: within('bench', 'servers', 'inside', 'load', 'signals', 'stream-index'),
  },
  {
    of: 'the engine for Kafka on a broker',
    drawn: 2,
    files: within(
      'events/kafka',
      'kafka-engine',
      'kafka-places',
      'kafka-close',
      'kafka-tls',
      'kafka-access',
      'kafka-rejoin',
    ),
  },
  {
    of: 'several gateways in one process',
    drawn: 2,
    files: within(
      'gateways',
      'one-view',
      'objects',
      'admin-changes',
      'declared',
      'rate-limits',
      'reserved-amounts',
      'mcp-authorizations',
    ),
  },
  {
    of: 'plugins in a process of their own',
    drawn: 1,
    files: [...within('plugins', 'host', 'restrictions'), 'http/plugins', 'e2e/example-plugins'],
  },
  {
    of: 'installation and builds',
    drawn: 1,
    files: within('bootstrap', 'dashboard-build', 'install', 'api-types', 'run', 'bundle', 'package'),
  },
  { of: 'brokers and containers', drawn: 1, files: within('infra', 'kafka', 'kafka-command', 'containers') },
  {
    of: 'clients in Python',
    drawn: 1,
    files: within(
      'clients',
      'python-openai',
      'python-anthropic',
      'python-agents',
      'python-langchain',
      'python-pydantic-ai',
    ),
  },
  {
    of: 'clients through guardrails and the cache',
    drawn: 2,
    files: [
      ...within('clients/guarded', 'libraries', 'openai-collected', 'agent-loop'),
      ...within('clients/cached', 'libraries', 'agent-loops'),
    ],
  },
  {
    of: 'pages for keys, users and budgets',
    drawn: 2,
    files: within('browser', 'keys', 'budgets', 'scoped-admin', 'questions-keys', 'questions-budgets'),
  },
  {
    of: 'pages for models, workflows and the cache',
    drawn: 1,
    files: within(
      'browser',
      'models',
      'workflows',
      'cache',
      'plugins',
      'mcp',
      'questions-models',
      'questions-workflows',
    ),
  },
  {
    of: 'pages for exchanges',
    drawn: 1,
    files: within('browser', 'audit', 'exchange', 'content', 'sessions', 'live', 'reconnect'),
  },
  {
    of: 'pages for figures and history',
    drawn: 2,
    files: within('browser', 'overview', 'usage', 'sql', 'questions', 'history-page', 'log', 'history'),
  },
  {
    of: 'pages whose requests fail or whose data is hostile',
    drawn: 2,
    files: within('browser', 'malformed-answers', 'lost-answers', 'conflicts', 'hostile', 'hostile-names'),
  },
  {
    of: 'the frame of the dashboard',
    drawn: 2,
    files: within(
      'browser',
      ...[
        'legible-values',
        'layout-shift',
        'palette',
        'skip',
        'settings',
        'prefix',
        'blocked-storage',
        'health',
        'csp',
      ],
    ),
  },
  {
    of: 'telemetry at a collector',
    drawn: 3,
    files: within('telemetry', 'failing-collector', 'processes', 'ways', 'traces', 'contents', 'metrics'),
  },
  {
    of: 'responses over WebSockets',
    drawn: 2,
    files: [
      ...within('http', 'response-sockets', 'response-socket-memory', 'native-response-sockets'),
      'e2e/response-sockets',
    ],
  },
  { of: 'listeners', drawn: 2, files: [...within('http', 'tls', 'listeners'), 'e2e/listeners'] },
  // It takes 40 s, and nothing runs beside it. `browser/live` has what Live shows.
  { of: 'Live at 1,000 events per second', drawn: 0, files: ['browser/live-load'] },
];

/**
 * Files of `root`'s tests that a run with this seed does not have, as paths from `root`.
 * @throws Error when a file of a subject does not exist
 */
export function filesLeftOut(root: string, seed: number): string[] {
  return subjects.flatMap(({ of, drawn, files }, at) => {
    const paths = files.map((file) => `test/${file}.test.ts`);
    const missing = paths.filter((path) => !existsSync(join(root, path)));
    if (missing.length > 0) throw new Error(`drawn-files.ts has files of "${of}" that do not exist: ${missing}`);
    const kept = coveringPart(paths, () => ['any'], drawn, createChance(seed + at));
    return paths.filter((path) => !kept.includes(path));
  });
}
