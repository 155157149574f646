/** How engines are reached: from the configuration, or from variables for the two sides of `chancery log copy`. */
import { readFileSync } from 'node:fs';
import { type LogEngineConfig, logConfig, logProblems } from './log-settings.ts';
import { type Problem, problemsOf } from './problem.ts';
import { RawSettings } from './raw-settings.ts';
import { logSection } from './schema.ts';
import { leavesOf } from './schema-walk.ts';
import { mapping } from './setting.ts';
import { type Environment, readEnvFile } from './sources.ts';

export interface EngineConnectionSettings {
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
  return path === undefined ? undefined : readFileSync(path, 'utf8');
}

export interface NamedEngine {
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
  const parsed = schema.safeParse(raw.tree);
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
