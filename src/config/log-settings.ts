/** Where the event log is: in files, in memory, or on an engine with a replica in files. */

import { join, resolve } from 'node:path';
import { readBoundedFile } from './bounded-file.ts';
import { engineAddress, engineUrl } from './mask.ts';
import { type Problem, problemsOf, RawSettings } from './problem.ts';
import { type FileSettings, logSection } from './schema.ts';
import { leavesOf, mapping } from './setting.ts';
import { type Environment, readEnvFile } from './sources.ts';

type LogSettings = FileSettings['log'];

/** How an engine (Kafka, EventStoreDB) is reached, in addition to the address. */
interface LogEngineConfig {
  /** Absolute: the folder of the replica, which holds every event of the log. */
  readonly folder: string;
  /** Both are given, or neither. */
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly saslMechanism: LogSettings['sasl_mechanism'];
  /** Undefined: as the address says. */
  readonly tls: boolean | undefined;
  /** Absolute paths of PEM files. */
  readonly tlsCa: string | undefined;
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
}

export interface LogConfig {
  /** Where events are appended. Holds no password. */
  readonly url: string;
  /** Where events are read by other code than the gateway: files of this machine, also when an engine has the log. */
  readonly readUrl: string;
  readonly durability: LogSettings['durability'];
  /** How many bytes of full segments may wait uncompressed until the gateway is idle. */
  readonly archiveBacklogBytes: number;
  /** How long the lease of a gateway lasts without a renewal. Undefined: only one gateway at a time can use the log. */
  readonly leaseMs: number | undefined;
  /** Undefined: the log is in files or in memory. */
  readonly engine: LogEngineConfig | undefined;
}

/** @param workers number of processes of the service that serve requests */
export function logConfig(settings: LogSettings, dataDir: string, cwd: string, workers = 1): LogConfig {
  const { durability, archive_backlog: archiveBacklogBytes, tls, lease } = settings;
  const folder = join(dataDir, 'log');
  const url = settings.url ?? `file:${folder}`;
  const address = engineAddress(url);
  if (address === undefined) {
    const leaseMs = workers > 1 ? lease : undefined;
    return { url, readUrl: url, durability, archiveBacklogBytes, leaseMs, engine: undefined };
  }
  const { user = address.user, password = address.password } = settings;
  const pathOf = (path: string | undefined) => path && resolve(cwd, path);
  return {
    url: address.url,
    readUrl: `file:${folder}`,
    durability,
    archiveBacklogBytes,
    leaseMs: lease,
    engine: {
      folder,
      user,
      password,
      saslMechanism: settings.sasl_mechanism,
      tls: tls.enabled,
      tlsCa: pathOf(tls.ca),
      tlsCert: pathOf(tls.cert),
      tlsKey: pathOf(tls.key),
    },
  };
}

/** Several workers share one log in files. Gateways on an engine share it without that. */
export function workersProblems({ url }: LogSettings, workers: number, raw: RawSettings): Problem[] {
  if (workers === 1 || url === undefined || url.startsWith('file:')) return [];
  const message =
    'several workers need a log in files, and LOG_URL names another one; with Kafka or EventStoreDB, start several ' +
    'gateways with the same LOG_URL and a DATA_DIR each';
  return [raw.problem('server.workers', 'GATEWAY_WORKERS', message)];
}

/** What can be wrong with the address of an engine before it is contacted. */
export function logProblems(settings: LogSettings, raw: RawSettings): Problem[] {
  if (settings.url === undefined || !engineUrl.test(settings.url)) return [];
  const problem = (key: string, variable: string, message: string) => raw.problem(`log.${key}`, variable, message);
  const address = engineAddress(settings.url);
  if (address === undefined) {
    const message =
      'expected hosts with ports, as in kafka://host:9092,host2:9092/topic or esdb://host:2113; in a user or ' +
      'password, characters other than letters and digits are percent-encoded ("%" is "%25"), or both are set with LOG_USER ' +
      'and LOG_PASSWORD';
    return [problem('url', 'LOG_URL', message)];
  }
  const twice = (['user', 'password'] as const).find((key) => isTwice(address[key], settings[key]));
  if (twice !== undefined) {
    return [problem(twice, `LOG_${twice.toUpperCase()}`, `is not the ${twice} in LOG_URL; remove one of them`)];
  }
  const { user = address.user, password = address.password, tls } = settings;
  if (user !== undefined && password === undefined) return [problem('password', 'LOG_PASSWORD', 'a user needs one')];
  if (user === undefined && password !== undefined) return [problem('user', 'LOG_USER', 'a password needs one')];
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    return [problem('tls', 'LOG_TLS_CERT', 'a client certificate needs both cert and key')];
  }
  return [];
}

function isTwice(inAddress: string | undefined, apart: string | undefined): boolean {
  return inAddress !== undefined && apart !== undefined && inAddress !== apart;
}

/** How engines are reached: from the configuration, or from variables for the two sides of `chancery log copy`. */
interface EngineConnectionSettings {
  /** Without user and password. */
  readonly url: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly saslMechanism: LogEngineConfig['saslMechanism'];
  readonly tls: boolean | undefined;
  /** Texts of PEM files. */
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** @throws Error when a PEM file cannot be read */
export function engineAccess(url: string, config: LogEngineConfig): EngineConnectionSettings {
  const { user, password, saslMechanism, tls, tlsCa, tlsCert, tlsKey } = config;
  return { url, user, password, saslMechanism, tls, ca: textOf(tlsCa), cert: textOf(tlsCert), key: textOf(tlsKey) };
}

function textOf(path: string | undefined): string | undefined {
  return path === undefined ? undefined : readBoundedFile(path).toString();
}

interface NamedEngine {
  /** The flag that names it, with its value. */
  readonly flag: string;
  readonly url: string;
  /** Begins the names of its variables instead of `LOG_`. */
  readonly prefix: string;
  readonly env: Environment;
  /** The folder of `.env`, against which relative paths are resolved. */
  readonly cwd: string;
}

const ownPrefix = 'LOG_';

/** Of an engine on the command line: user, password and TLS are in variables of the environment and of `.env`. */
export function namedEngineAccess({
  flag,
  url,
  prefix,
  env,
  cwd,
}: NamedEngine): EngineConnectionSettings | readonly Problem[] {
  const variables = { ...readEnvFile(cwd), ...env };
  const schema = mapping({ log: logSection });
  const raw = new RawSettings({});
  raw.set(['log', 'url'], url, { source: 'flag', variable: flag });
  for (const { path, facts } of leavesOf(schema)) {
    if (facts.env === undefined || facts.flag !== undefined) continue;
    const variable = prefix + facts.env.slice(ownPrefix.length);
    const value = variables[variable];
    if (value !== undefined && value !== '') raw.set(path, value, { source: 'environment', variable });
  }
  // Each object is parsed once: to compile its parser takes longer than to run it.
  const parsed = schema.safeParse(raw.tree, { jitless: true });
  if (!parsed.success) return problemsOf(parsed.error, raw, schema);
  const problems = logProblems(parsed.data.log, raw).map((problem) => withPrefix(problem, prefix));
  const { url: bare, engine } = logConfig(parsed.data.log, cwd, cwd);
  return problems.length > 0 || engine === undefined ? problems : engineAccess(bare, engine);
}

/** Problems name the variables of the configured log where nothing is set. */
function withPrefix({ variable, message, ...problem }: Problem, prefix: string): Problem {
  const renamed = (text: string) => text.replace(/\bLOG_(?=USER|PASSWORD|TLS)/g, prefix);
  return { ...problem, message: renamed(message), ...(variable !== undefined && { variable: renamed(variable) }) };
}
