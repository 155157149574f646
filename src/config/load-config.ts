/** Reads the configuration from every source. Precedence: flags, environment, `.env`, file. */
import { dirname, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Config, configOf } from './config.ts';
import { logProblems, workersProblems } from './log-settings.ts';
import { otelProblems } from './otel-schema.ts';
import { isMapping, type Problem, problemsOf, RawSettings, type Source, valueAt, withoutEmpty } from './problem.ts';
import { misplacedOptions, overlayProviders, resolveProviders, timeoutsByType } from './resolve-providers.ts';
import { type FileSettings, fileSchema, type ProviderTypes } from './schema.ts';
import { semanticCacheProblems } from './semantic-cache-schema.ts';
import { serverProblems } from './server-settings.ts';
import { isSecretAt, leavesOf, type SettingFacts } from './setting.ts';
import {
  type Environment,
  expandVariables,
  type MissingVariable,
  readEnvFile,
  readSecretFile,
  readSecretVariables,
  readSettingsFile,
  type SettingsFile,
  type UnknownReference,
} from './sources.ts';
import { overlayLimits, providersInEnvironment, variableSplitter } from './variables.ts';

export interface ConfigSources {
  /** Parsed command-line flags: `{ logUrl: '…' }` for `--log-url …`. */
  readonly flags: Readonly<Record<string, string | undefined>>;
  readonly env: Environment;
  /** The folder of `.env` and chancery.yaml, against which relative folders are resolved. */
  readonly cwd: string;
  readonly providerTypes: ProviderTypes;
}

export interface ValidConfig {
  readonly ok: true;
  readonly config: Config;
  /** The settings of `config` in the form of chancery.yaml. */
  readonly settings: FileSettings;
  /** The settings before validation, for `chancery config print`. */
  readonly rawSettings: RawSettings;
  /** The files that had any of its settings. */
  readonly files: readonly string[];
  /** Settings that differ from the running ones, which stay in force until a restart. */
  readonly needsRestart: readonly string[];
}

export type LoadedConfig = ValidConfig | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Never throws for wrong settings: all problems are returned together, but none beside a `.env` that cannot be read.
 * @param running settings of a running gateway: those that only a restart changes are then taken from them
 */
export function loadConfig({ flags, env, cwd, providerTypes }: ConfigSources, running?: FileSettings): LoadedConfig {
  const schema = fileSchema(providerTypes);
  const leaves = leavesOf(schema);
  let envFile: Environment;
  try {
    envFile = readEnvFile(cwd);
  } catch (error) {
    return { ok: false, problems: [{ path: '', source: '.env', message: (error as Error).message }] };
  }
  const given: Environment = { ...envFile, ...env };
  const secrets = readSecretVariables(given, cwd, secretVariables(schema, leaves, providerTypes));
  const { variables, fileVariables } = secrets;
  const sourceOf = (variable: string): Source =>
    env[fileVariables.get(variable) ?? variable] === undefined ? '.env' : 'environment';

  const configPath = flags['config'] ?? (variables['CHANCERY_CONFIG'] || undefined);
  const configPathFrom = flags['config'] === undefined ? 'CHANCERY_CONFIG' : '--config';
  const file = readSettingsFile(cwd, configPath, configPath === undefined ? undefined : configPathFrom);
  const fileFolder = file.path === undefined ? cwd : dirname(file.path);
  const fileContents: string[] = [];
  const { value, missing, unknown } = expandVariables(file.settings, variables, isUntyped, (path) => {
    const content = readSecretFile(resolve(fileFolder, path));
    fileContents.push(content);
    return content;
  });

  const keepsEmpty = new Set(leaves.filter(({ facts }) => facts.emptyIsNone).map(({ path }) => path.join('.')));
  const tree = withoutEmpty(value, (path) => keepsEmpty.has(path.join('.')));
  const raw = new RawSettings(isMapping(tree) ? tree : {}, fileVariables, fileContents);

  for (const { path, facts } of leaves) {
    const fromFlag = facts.flag === undefined ? undefined : flags[facts.flag];
    const variable = variableOf(facts, variables);
    const fromEnv = variable === undefined ? undefined : variables[variable];
    if (facts.flag !== undefined && fromFlag !== undefined) {
      raw.set(path, fromFlag, { source: 'flag', variable: flagName(facts.flag) });
    } else if (variable !== undefined && fromEnv !== undefined && (fromEnv !== '' || facts.emptyIsNone)) {
      const given = facts.json === true ? parsedOrText(fromEnv) : fromEnv;
      const origin = { source: sourceOf(variable), variable };
      const { rowsBy } = facts;
      if (rowsBy !== undefined && Array.isArray(given)) raw.addRows(path, given, (row) => row[rowsBy], origin);
      else raw.set(path, given, origin);
    }
  }
  const inEnvironment = providersInEnvironment(variables, providerTypes);
  const notices = [...inEnvironment.notices, ...overlayProviders(raw, inEnvironment.providers, sourceOf)];

  overlayNumberedHeaders(raw, variables, sourceOf);
  overlayLimits(raw, variables, sourceOf);

  // Each object is parsed once: to compile its parser takes longer than to run it.
  const parsed = schema.safeParse(raw.tree, { jitless: true });
  const problems: Problem[] = [
    ...file.problems,
    ...secrets.problems,
    ...unsetVariables(missing, raw),
    ...unknownReferences(unknown, raw, file),
    ...misplacedOptions(raw, providerTypes),
  ];
  if (!parsed.success) problems.push(...problemsOf(parsed.error, raw, schema));
  if (!parsed.success || problems.length > 0) return { ok: false, problems };

  const files = [
    ...(Object.keys(envFile).length === 0 ? [] : [join(cwd, '.env')]),
    ...(file.path === undefined || Object.keys(file.settings).length === 0 ? [] : [file.path]),
  ];
  const complete = (settings: FileSettings, needsRestart: readonly string[]): LoadedConfig => {
    const { log, server, cache, analytics, budgets, usage, otel } = settings;
    const faults = [
      logProblems(log, raw),
      workersProblems(log, server.workers, raw),
      serverProblems(server, raw),
      analystWhoWrites(analytics, raw),
      lifetimeOverMaximum(cache, raw),
      semanticCacheProblems(cache.semantic, raw),
      otelProblems(otel, cwd, raw),
    ].find((found) => found.length > 0);
    if (faults !== undefined) return { ok: false, problems: faults };

    const resolved = resolveProviders(settings, providerTypes, inEnvironment.providers, missing, raw, cwd);
    if (resolved.problems.length > 0) return { ok: false, problems: resolved.problems };
    const all = [...notices, ...resolved.notices];
    if (settings.admin.ui_enabled && !settings.admin.endpoints_enabled) {
      all.push('the dashboard is off because it requires the admin endpoints (ADMIN_ENDPOINTS_ENABLED)');
    }
    if (cache.semantic.enabled && !cache.response.enabled) {
      all.push('the semantic cache is off because it requires the response cache (RESPONSE_CACHE_ENABLED)');
    }
    if (budgets.enabled && !usage.enabled) {
      all.push('budgets are off because they require usage tracking (USAGE_ENABLED)');
    }
    const timeouts = timeoutsByType(settings, providerTypes);
    return {
      ok: true,
      config: configOf(settings, resolved.providers, { timeoutsByType: timeouts, notices: all, cwd, fileFolder }),
      settings,
      rawSettings: raw,
      files,
      needsRestart,
    };
  };
  const whole = complete(parsed.data, []);
  if (!whole.ok || running === undefined) return whole;

  const inForce = structuredClone(running);
  const needsRestart: string[] = [];
  for (const { path, facts } of [...leaves, { path: ['providers'], facts: { live: true } }]) {
    const value = valueAt(parsed.data, path);
    if (isDeepStrictEqual(value, valueAt(running, path))) continue;
    if (facts.live === true) Reflect.set(Object(valueAt(inForce, path.slice(0, -1))), path.at(-1) ?? '', value);
    else needsRestart.push(path.join('.'));
  }
  return complete(inForce, needsRestart);
}

/** @returns a function that returns whether a variable sets a secret. A variable that is a setting itself names no file of one. */
function secretVariables(
  schema: ReturnType<typeof fileSchema>,
  leaves: ReturnType<typeof leavesOf>,
  types: ProviderTypes,
): (variable: string) => boolean {
  const split = variableSplitter(types);
  const all = new Set(leaves.map(({ facts }) => facts.env));
  const secret = new Set(
    leaves.filter(({ facts }) => facts.secret).flatMap(({ facts: { env, aliases = [] } }) => [env, ...aliases]),
  );
  return (variable) => {
    if (all.has(`${variable}_FILE`)) return false;
    const ofProvider = split(variable);
    return (
      secret.has(variable) || (ofProvider !== undefined && isSecretAt(schema, ['providers', '', ofProvider.member]))
    );
  };
}

/** The variable of a setting that is set, or the first of its names. */
function variableOf({ env, aliases = [] }: SettingFacts, variables: Environment): string | undefined {
  const isSet = (name: string) => variables[name] !== undefined && variables[name] !== '';
  if (env === undefined || isSet(env)) return env;
  return aliases.find(isSet) ?? env;
}

/** The default time to live is in force for every request, so it may not exceed the maximum. */
function lifetimeOverMaximum({ response }: FileSettings['cache'], raw: RawSettings): Problem[] {
  const { ttl_seconds: seconds, max_ttl_seconds: maximum } = response;
  if (seconds <= maximum) return [];
  const message = `expected at most max_ttl_seconds (${maximum}), got ${seconds}`;
  return [raw.problem('cache.response.ttl_seconds', 'RESPONSE_CACHE_TTL', message)];
}

function analystWhoWrites({ clickhouse }: FileSettings['analytics'], raw: RawSettings): Problem[] {
  const { url, user, analyst_user } = clickhouse;
  if (url === undefined || analyst_user !== user) return [];
  const message = 'expected a read-only user, got the writing user (CLICKHOUSE_USER)';
  return [raw.problem('analytics.clickhouse.analyst_user', 'CLICKHOUSE_ANALYST_USER', message)];
}

/** Text that is no JSON stays text; the validation then refuses it. */
function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** References to unset variables, except in providers' credentials and addresses: these only leave the provider out. */
function unsetVariables(missing: readonly MissingVariable[], raw: RawSettings): Problem[] {
  return missing
    .filter(({ path }) => !isProviderCredential(path) && raw.origin(path).source === 'file')
    .map(
      ({ path, variable }): Problem => ({
        path: path.join('.'),
        variable,
        source: 'file',
        message: `\${${variable}} is not set; set it, or write \${${variable}:-default}`,
      }),
    );
}

/** References of unknown forms, which would be used as they are, as a key for example; and files that cannot be used. */
function unknownReferences(unknown: readonly UnknownReference[], raw: RawSettings, file: SettingsFile): Problem[] {
  return unknown
    .filter(({ path }) => raw.origin(path).source === 'file')
    .map(({ path, text, why }): Problem => {
      const place = file.placeOf?.(path, text) ?? 'an unknown place';
      const problem =
        why === undefined
          ? 'names no variable; write ${NAME} or ${NAME:-default}, ${file:/path} for a file, or $${ for a literal ${'
          : `has no value: ${why}`;
      const message = `the reference at ${place} of ${file.path} ${problem}`;
      return { path: path.join('.'), source: 'file', message };
    });
}

function isProviderCredential([section, , member]: readonly string[]): boolean {
  return section === 'providers' && (member === 'api_key' || member === 'api_keys' || member === 'base_url');
}

/** `….models.<n>.metadata.…`, `guardrails.rules.<n>.config.…`, `plugins.load.<n>.config.…`: values of no declared type. */
function isUntyped([section, list, , third, fourth]: readonly string[]): boolean {
  if (section === 'guardrails') return list === 'rules' && third === 'config';
  if (section === 'plugins') return list === 'load' && third === 'config';
  return section === 'providers' && fourth === 'metadata';
}

/** `--log-url` for `logUrl`. */
function flagName(flag: string): string {
  return `--${flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Rules about request headers in numbered variables: `TAGGING_HEADER_1`, `SESSION_HEADER_2`, and so on. */
interface Numbered {
  readonly path: readonly [string, string];
  /** The part of the name before the number. */
  readonly prefix: string;
  /** The possible parts after the number, each with the member of the rule that it sets. */
  readonly members: Readonly<Record<string, string>>;
}

const families: readonly Numbered[] = [
  {
    path: ['tagging', 'headers'],
    prefix: 'TAGGING_HEADER_',
    members: { PREFIX: 'prefix', DELIMITER: 'delimiter', DONOTPASS: 'do_not_pass' },
  },
  { path: ['session', 'headers'], prefix: 'SESSION_HEADER_', members: { TRANSFORM: 'transform' } },
];

/**
 * Adds the rules of the environment after those of the file, in the order of their numbers. A rule replaces a rule of
 * the file for the same header.
 */
function overlayNumberedHeaders(raw: RawSettings, env: Environment, sourceOf: (variable: string) => Source): void {
  for (const { path, prefix, members } of families) {
    const numbers = Object.keys(env)
      .filter((name) => name.startsWith(prefix) && /^[1-9]\d{0,3}$/.test(name.slice(prefix.length)))
      .filter((name) => (env[name] ?? '').trim() !== '')
      .map((name) => Number(name.slice(prefix.length)))
      .sort((a, b) => a - b);
    const [first] = numbers;
    if (first === undefined) continue;
    const rules = numbers.map((number) => ruleOf(`${prefix}${number}`, members, env));
    const variable = `${prefix}${first}`;
    const origin = { source: sourceOf(variable), variable };
    raw.addRows(path, rules, ({ header }) => String(header).toLowerCase(), origin);
  }
}

function ruleOf(
  variable: string,
  members: Readonly<Record<string, string>>,
  env: Environment,
): Record<string, string | undefined> {
  const rule: Record<string, string | undefined> = { header: env[variable]?.trim() };
  for (const [suffix, member] of Object.entries(members)) {
    const value = env[`${variable}_${suffix}`];
    if (value !== undefined && value !== '') rule[member] = value;
  }
  return rule;
}
