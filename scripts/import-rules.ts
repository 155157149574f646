/** Checks which folders may import which: the diagram in the contributor's guide, as rules. */
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, posix, sep } from 'node:path';
import { importsOf } from './imports.ts';

interface ImportRule {
  /** Folders of src, or paths of single files, or paths of folders with a slash at the end, that may be imported. */
  readonly all: readonly string[];
  /** Folders of which only types may be imported. */
  readonly types?: readonly string[];
}

/** JSON with exact integers: needed by all code that passes on JSON of clients or providers. */
const json = 'json';

/** Sets of IP networks: of keys, of proxies, and of addresses that providers may not have. And the two ends of a WebSocket. */
const network = 'network';

/** The types of the log's port: names, constants and errors, but no engine and no catalogue. */
const logPort = ['src/events/event.ts', 'src/events/log.ts'];

/**
 * The analytics process runs beside the gateway. It shares the log, the configuration, the tables and the ClickHouse
 * interface with the gateway; it contains no route, no command and no provider. Only the program imports it.
 */
const analytics: ImportRule = {
  all: [
    ...['config', 'events', 'projections', 'src/http/clickhouse/'],
    ...['src/cli/terminal.ts', 'src/wiring/diagnostics.ts', 'src/providers/types.ts'],
  ],
};

/** The reader of files that settings name. */
const boundedFile = 'src/config/bounded-file.ts';

const importRules: Readonly<Record<string, ImportRule>> = {
  [json]: { all: [] },
  [network]: { all: [] },
  events: { all: [] },
  providers: { all: [json, network] },
  config: { all: [network] },
  commands: { all: ['events', 'providers', json, network, 'src/mcp/mcp-server.ts'], types: ['mcp', 'projections'] },
  projections: { all: ['events', json] },
  mcp: { all: ['commands', 'events', 'providers', json, network], types: ['projections'] },
  http: { all: ['commands', 'mcp', 'projections', json, network, ...logPort, boundedFile], types: ['events'] },
  plugins: { all: ['commands', 'events', json] },
  telemetry: {
    all: ['events', 'projections', json, 'src/config/gateway-version.ts', boundedFile],
    types: ['commands', 'config', 'http'],
  },
  cli: { all: ['config', 'events', 'projections', 'plugins', json, 'src/commands/access/key-directory.ts'] },
  analytics,
};

/**
 * The folders in src/commands, lowest first. A file imports only files of its own folder and of the folders listed
 * before it. `.` is src/commands itself.
 */
const commandLayers = [
  '.',
  'gateways',
  'model-request',
  'credentials',
  'chat',
  'embeddings',
  'messages',
  'tagging',
  'pricing',
  'access',
  'keys',
  'users',
  'limits',
  'virtual-models',
  'mcp-servers',
  'guardrails',
  'workflows',
  'admission',
  'audit',
  'views',
  'responses',
  'conversations',
  'guardrails',
  'guardrails/text',
  'guardrails/recognisers',
  'guardrails/types',
  'guardrails/body',
  'guardrails/phases',
  'guardrails/events',
  'auxiliary-calls',
  'exchange/reissuing',
  'exchange',
  'exchange/record',
  'exchange/delivery',
  'exchange/attempts',
  'semantic-cache',
  'exchange/dialects',
  'exchange/dialects/chat',
  'exchange/dialects/passthrough',
  'exchange/dialects/responses',
  'exchange/dialects/messages',
  'exchange/dialects/embeddings',
  'exchange/dialects/forward',
  'realtime',
  'exchange/guarding',
  'exchange/caching',
  'exchange/background',
  'exchange/pipeline',
  'guardrails/replay',
  'provider-objects',
  'deferred',
  'response-lifecycle',
  'files',
  'work-follower',
  'providers',
];

/** An import in src/commands that is allowed against the order for now. */
export interface TemporaryException {
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

const temporaryExceptions: readonly TemporaryException[] = [];

/** What the program (the files directly in src and in src/wiring) may use from outside src. */
const demo = 'infra/simulated-provider/';

/**
 * The files that open connections to other machines, and why they may. All others use `createTransport`, which takes the
 * proxies: with a call of their own they would forget them. The log's engines and databases belong to the installation and
 * are reached directly (docs/adr/archive/0134).
 */
const opensConnections: Readonly<Record<string, string>> = {
  'src/providers/transport.ts': 'connections to providers and to all other servers, which it sends through the proxies',
  'src/providers/proxies.ts': 'connections to proxies',
  'src/providers/upstream-sockets.ts': 'speaks on connections of createTransport',
  'src/events/kafka/kafka-clients.ts': 'engine of the log',
  'src/events/eventstore/eventstore-connection.ts': 'engine of the log',
  'src/events/eventstore/eventstore-engine.ts': 'engine of the log',
  'src/events/shared/primary-link.ts': 'socket between the processes of one gateway',
  'src/projections/analytics/sql-query.ts': 'ClickHouse',
  'src/projections/analytics/analytics-db.ts': 'ClickHouse',
  'src/analytics/writing-access.ts': 'ClickHouse',
  'src/commands/semantic-cache/pgvector-store.ts': 'PostgreSQL',
  'src/commands/guardrails/types/presidio.ts': 'calls the `fetch` that it is given, which uses createTransport',
  'src/http/listener.ts': 'finds out whether a process listens at a Unix socket of this machine',
  'src/providers/session-socket.ts': 'WebSockets of providers, on connections that transport.ts opens',
  'src/http/mcp/session-relay.ts': 'socket between the processes of one gateway',
  'src/http/open-sockets.ts': 'accepts the WebSockets of clients',
  'src/telemetry/collector.ts': 'hands the proxy to the agent of its exporter',
  'src/wiring/doctor.ts': 'finds out whether ClickHouse and the proxies can be reached',
  'src/cli/admin-api.ts': 'calls a gateway whose address is on the command line',
  'src/cli/migrate/litellm-database.ts': 'PostgreSQL of LiteLLM, whose address is on the command line',
};

/** Packages that connect to other machines. */
const connecting =
  /^(undici|socks|kafkajs|@eventstore\/db-client|@clickhouse\/client|pg|axios|got|ky|node-fetch|ws|@opentelemetry\/(exporter-|otlp-\w+-exporter-base|otlp-exporter-base\/).*)$/;
/** Imports of functions of Node that do. */
const connectingImport =
  /import\s*\{[^}]*\b(?:request|get|connect|createConnection|Agent|globalAgent)\b[^}]*\}\s*from\s*'node:(?:https?|http2|net|tls)'/;

const emptyNames = ['utils', 'util', 'helpers', 'helper', 'common', 'misc', 'manager', 'service', 'index'];

interface Edge {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
}

/** Folders beside src in which no import cycle is allowed either. */
const besideSrc = ['dashboard/src', 'infra', 'scripts', 'bench', 'test/support'];

/**
 * Every violation of the house rules in `root`/src and in the dashboard, and the import cycles in the folders beside src,
 * one sentence each.
 */
export function houseRuleViolations(root: string, exceptions = temporaryExceptions): string[] {
  const files = sourcesIn(root, 'src');
  const edges = files.flatMap((file) => edgesOf(root, file));
  const edgesBesideSrc = besideSrc.flatMap((folder) => sourcesIn(root, folder)).flatMap((file) => edgesOf(root, file));
  const inexact = files.filter((file) => parsesInexactly(file, readFileSync(join(root, file), 'utf8')));
  return [
    ...edges.flatMap(forbiddenArrow),
    ...files.flatMap(unlistedFolder),
    ...edges.flatMap((edge) => upwardImport(edge, exceptions)),
    ...endedExceptions(files, edges, exceptions),
    ...cycles([...edges, ...edgesBesideSrc]),
    ...files.flatMap(emptyName),
    ...dashboardViolations(root),
    ...files.flatMap((file) => ownConnections(file, readFileSync(join(root, file), 'utf8'))),
    ...files
      .filter((file) => readsPeers(file, readFileSync(join(root, file), 'utf8')))
      .map((file) => `${file} reads the address of a connection: use addressOf of src/http/client-address.ts`),
    ...inexact.map((file) => `${file} calls JSON.parse, which rounds integers past 2^53: use parseExactly`),
  ];
}

/**
 * The dashboard is a program of its own, which knows the gateway only by its API. It is built without the generated
 * files, so only their types may be imported.
 */
function dashboardViolations(root: string): string[] {
  const files = sourcesIn(root, 'dashboard/src');
  const wrong = files
    .flatMap((file) => edgesOf(root, file))
    .flatMap(({ from, to, typeOnly }) => {
      if (to.startsWith('dashboard/src/') || (to.startsWith('dashboard/generated/') && typeOnly)) return [];
      const mayOnly = 'the dashboard may import its own sources and types of dashboard/generated';
      return [`${from} imports ${to}: ${mayOnly}`];
    });
  return [...wrong, ...files.flatMap(emptyName)];
}

function sourcesIn(root: string, folder: string): string[] {
  return globSync(`${folder}/**/*.{ts,tsx,mts,js,mjs}`, { cwd: root, exclude: ['**/node_modules/**'] })
    .map((file) => file.split(sep).join('/'))
    .sort();
}

/** Whether a file in a folder that passes on JSON of clients or providers parses it with rounded integers. */
function parsesInexactly(file: string, source: string): boolean {
  const folder = folderOf(file);
  if (folder !== 'providers' && folder !== 'commands') return false;
  return /\bJSON\.parse\b(?!\(JSON\.stringify\()/.test(source);
}

/** Behind a proxy the peer of a connection is not the client. */
function readsPeers(file: string, source: string): boolean {
  const mayRead = ['src/http/client-address.ts', 'src/http/connection-setup.ts'];
  return /\bremoteAddress\b|'x-forwarded-for'/.test(source) && !mayRead.includes(file);
}

/** A file that opens connections and is not listed, or the other way around. */
function ownConnections(file: string, source: string): string[] {
  const opens =
    connectingImport.test(source) ||
    /(?:await|return|void|=>?|[(,?:])\s*fetch\(/.test(source) ||
    importsOf(source).some(({ specifier, typeOnly }) => !typeOnly && connecting.test(specifier));
  const isListed = file in opensConnections;
  if (opens === isListed) return [];
  return isListed
    ? [`${file} opens no connections: remove it from opensConnections in scripts/import-rules.ts`]
    : [`${file} opens connections without the proxies: use createTransport of src/providers/transport.ts`];
}

function edgesOf(root: string, from: string): Edge[] {
  return importsOf(readFileSync(join(root, from), 'utf8'))
    .filter(({ specifier }) => specifier.startsWith('.'))
    .map(({ specifier, typeOnly }) => ({ from, to: posix.join(posix.dirname(from), specifier), typeOnly }));
}

function forbiddenArrow({ from, to, typeOnly }: Edge): string[] {
  const here = folderOf(from);
  const there = folderOf(to);
  if (there === undefined) {
    return here === program && to.startsWith(demo) ? [] : [`${from} imports ${to}, which is outside src`];
  }
  if (here === there || here === program) return [];
  const allowed = importRules[here ?? ''];
  const isNamed = (path: string) => path === to || (path.endsWith('/') && to.startsWith(path));
  if (allowed?.all.some(isNamed)) return [];
  if (there === program) return [`${from} imports ${to}: only the program itself may`];
  if (allowed === undefined) return [`${from} is in no folder that the rules in scripts/import-rules.ts know`];
  if (allowed.all.includes(there) || (typeOnly && allowed.types?.includes(there))) return [];
  const whatMay = [...allowed.all, ...(allowed.types ?? []).map((folder) => `types of ${folder}`)].join(', ');
  return [`${from} imports ${to}: ${here} may import ${whatMay || 'nobody'}`];
}

/** `exchange/record` for `src/commands/exchange/record/spending.ts`; undefined for a file outside src/commands. */
function commandFolderOf(file: string): string | undefined {
  const path = posix.relative('src/commands', file);
  return path.startsWith('../') ? undefined : posix.dirname(path);
}

function unlistedFolder(file: string): string[] {
  const folder = commandFolderOf(file);
  if (folder === undefined || commandLayers.includes(folder)) return [];
  return [`${file}: commandLayers in scripts/import-rules.ts does not list the folder ${folder}`];
}

function upwardImport({ from, to }: Edge, exceptions: readonly TemporaryException[]): string[] {
  const here = commandFolderOf(from);
  const there = commandFolderOf(to);
  if (here === undefined || there === undefined) return [];
  if (exceptions.some((one) => one.from === from && one.to === to)) return [];
  // A folder that is not listed is reported separately.
  if (!commandLayers.includes(here) || commandLayers.indexOf(there) <= commandLayers.indexOf(here)) return [];
  return [`${from} imports ${to}: in commandLayers in scripts/import-rules.ts, ${there} comes after ${here}`];
}

/** An exception whose import is gone must be removed. */
function endedExceptions(
  files: readonly string[],
  edges: readonly Edge[],
  exceptions: readonly TemporaryException[],
): string[] {
  return exceptions
    .filter(({ from, to }) => files.includes(from) && !edges.some((edge) => edge.from === from && edge.to === to))
    .map(({ from, to }) => `${from} no longer imports ${to}: remove the exception from scripts/import-rules.ts`);
}

const program = 'src';
/** The larger pieces of the program, a file each. */
const wiring = 'wiring';

/** `events` for `src/events/log.ts`, `program` for a file directly in src or in its wiring, undefined for the rest. */
function folderOf(file: string): string | undefined {
  const [src, folder, ...rest] = file.split('/');
  if (src !== 'src') return undefined;
  return rest.length > 0 && folder !== wiring ? folder : program;
}

/** Each cycle once, as the path around it. */
function cycles(edges: readonly Edge[]): string[] {
  const next = Map.groupBy(edges, (edge) => edge.from);
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    const start = path.indexOf(file);
    if (start !== -1) found.push(`import cycle: ${[...path.slice(start), file].join(' → ')}`);
    if (start !== -1 || done.has(file)) return;
    for (const { to } of next.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  };
  for (const file of next.keys()) visit(file, []);
  return found;
}

function emptyName(file: string): string[] {
  const names = [basename(file).replace(/\.[a-z]+$/, ''), basename(dirname(file))];
  return names
    .filter((name) => emptyNames.includes(name))
    .map((name) => `${file}: "${name}" does not say what it holds`);
}
