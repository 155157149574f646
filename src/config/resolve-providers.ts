/** Decides which of the configured providers are registered, and with which settings. */

import { X509Certificate } from 'node:crypto';
import { resolve } from 'node:path';
import { readBoundedFile } from './bounded-file.ts';
import { isMapping, type Problem, type RawSettings, type Source } from './problem.ts';
import type { FileSettings, ProviderTypeFacts, ProviderTypes } from './schema.ts';
import type { MissingVariable } from './sources.ts';
import { hasOnlyConnectionOptions, type ProviderVariables, timeoutOptions, variablePrefix } from './variables.ts';

interface ConfiguredModel {
  readonly id: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface ProviderConfig {
  /** The instance, for example `llamacpp-gpu`. */
  readonly name: string;
  readonly type: string;
  /** Without a trailing slash. */
  readonly baseUrl: string;
  /** Empty for a keyless type without a key. */
  readonly apiKeys: readonly string[];
  readonly models: readonly ConfiguredModel[];
  readonly modelsMode: 'fallback' | 'allowlist' | 'merge';
  readonly resilience: ResilienceConfig;
  readonly timeouts: ProviderTimeouts;
  /** The type's further options, for example `apiVersion`. */
  readonly options: Readonly<Record<string, string>>;
  /** Instead of the proxies for all; `none`: no proxy. */
  readonly proxyUrl: string | undefined;
  readonly tls: TlsTexts | undefined;
  /** Sent with every request; lower-case names. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** `environment` when a variable sets any part of it. */
  readonly source: 'environment' | 'file';
}

/**
 * Overrides providers of the file with those of the environment. An environment provider overrides the members of the
 * file provider of the same name one by one, and its keys all together. The timeouts of a type's own variables
 * (`LLAMACPP_TIMEOUT`) are also those of its other instances that have none.
 */
export function overlayProviders(
  raw: RawSettings,
  fromEnvironment: readonly ProviderVariables[],
  sourceOf: (variable: string) => Source,
): string[] {
  const notices: string[] = [];
  for (const provider of fromEnvironment) {
    const path = ['providers', provider.name];
    const inFile = raw.get(path);
    if (inFile === undefined && hasOnlyConnectionOptions(provider)) {
      // The timeouts of a type are those of its other instances.
      const isUsed = (option: string) => provider.name === provider.type && timeoutOptions.includes(option);
      const [ignored] = Object.entries(provider.options).filter(([option]) => !isUsed(option));
      if (ignored !== undefined) {
        notices.push(`${ignored[1].variable} is ignored: there is no provider ${provider.name}`);
      }
      continue;
    }
    if (isMapping(inFile) && inFile['type'] !== undefined && inFile['type'] !== provider.type) {
      raw.delete(path);
      notices.push(
        `provider ${provider.name} is taken from ${variablePrefix(provider.name)}_* in the environment, and the provider of ` +
          `type ${String(inFile['type'])} in the file is ignored; give it another name`,
      );
    }
    raw.set([...path, 'type'], provider.type, { source: 'environment' });
    for (const [option, from] of Object.entries({
      base_url: provider.baseUrl,
      models: provider.models,
      ...provider.options,
    })) {
      if (from !== undefined) {
        raw.set([...path, option], from.value, { source: sourceOf(from.variable), variable: from.variable });
      }
    }
    const [firstKey] = provider.apiKeys;
    if (firstKey === undefined) continue;
    raw.delete([...path, 'api_key']);
    const keys = provider.apiKeys.map(({ value }) => value);
    raw.set([...path, 'api_keys'], keys, { source: sourceOf(firstKey.variable), variable: firstKey.variable });
  }
  for (const { name, type, options } of fromEnvironment) {
    if (name === type) shareTimeouts(raw, type, options, sourceOf);
  }
  return notices;
}

function shareTimeouts(
  raw: RawSettings,
  type: string,
  options: ProviderVariables['options'],
  sourceOf: (variable: string) => Source,
): void {
  const providers = raw.get(['providers']);
  for (const [name, providerInput] of Object.entries(isMapping(providers) ? providers : {})) {
    if (!isMapping(providerInput) || providerInput['type'] !== type) continue;
    for (const option of timeoutOptions) {
      const from = options[option];
      if (from === undefined || providerInput[option] !== undefined) continue;
      raw.set(['providers', name, option], from.value, { source: sourceOf(from.variable), variable: from.variable });
    }
  }
}

/** Options of one type in a provider of another type. */
export function misplacedOptions(raw: RawSettings, types: ProviderTypes): Problem[] {
  const providers = raw.get(['providers']);
  const options = Object.values(types).flatMap(({ extra = {} }) =>
    Object.keys(extra).map((name) => name.toLowerCase()),
  );
  return Object.entries(isMapping(providers) ? providers : {}).flatMap(([name, providerInput]) => {
    const type = isMapping(providerInput) ? String(providerInput['type']) : '';
    const own = Object.keys(types[type]?.extra ?? {}).map((option) => option.toLowerCase());
    const unknown = options.filter(
      (option) => !own.includes(option) && raw.get(['providers', name, option]) !== undefined,
    );
    if (types[type] === undefined) return [];
    return [...new Set(unknown)].map((option) => ({
      ...raw.origin(['providers', name, option]),
      path: `providers.${name}.${option}`,
      message: `providers of type ${type} have no such option`,
    }));
  });
}

interface ResolvedProviders {
  readonly providers: readonly ProviderConfig[];
  /** A provider that was left out, the reason, and the setting that would add it. */
  readonly notices: readonly string[];
  /** Of the files that they name. */
  readonly problems: readonly Problem[];
}

/** Applies the rules of registration to validated settings. @param cwd against which relative paths are resolved */
export function resolveProviders(
  settings: FileSettings,
  types: ProviderTypes,
  fromEnvironment: readonly ProviderVariables[],
  missing: readonly MissingVariable[],
  raw: RawSettings,
  cwd: string,
): ResolvedProviders {
  const providers: ProviderConfig[] = [];
  const notices: string[] = [];
  const problems: Problem[] = [];
  for (const [name, providerInput] of Object.entries(settings.providers)) {
    const facts = types[providerInput.type];
    if (facts === undefined) continue;
    const variables = fromEnvironment.find((provider) => provider.name === name);
    const apiKeys = [providerInput.api_key, ...(providerInput.api_keys ?? [])].filter((key) => key !== undefined);
    const lacking = missingMember(providerInput, facts, apiKeys, unresolved(name, 'base_url', missing));
    if (lacking !== undefined) {
      const inFile = unresolved(name, lacking.member, missing);
      const cure = inFile ?? (variables && `${variablePrefix(name)}_${lacking.field}`);
      const place = cure ?? `providers.${name}.${lacking.member}`;
      notices.push(`provider ${name} is left out: it has no ${lacking.what}; set ${place}`);
      continue;
    }
    const baseUrl = providerInput.base_url ?? facts.defaultBaseUrl ?? '';
    const found = (member: string, message: string) => {
      const path = ['providers', name, member];
      problems.push({ ...raw.origin(path), path: path.join('.'), message });
    };
    providers.push({
      name,
      type: providerInput.type,
      baseUrl,
      apiKeys: [...new Set(apiKeys)],
      models: modelsOf(providerInput.models ?? []),
      modelsMode: providerInput.models_mode ?? settings.registry.models_mode,
      resilience: resilienceOf(settings.resilience, providerInput.resilience),
      timeouts: timeoutsOf(name, providerInput, settings, raw, types),
      options: optionsOf(providerInput, facts),
      proxyUrl: providerInput.proxy_url,
      tls: tlsOf(providerInput, baseUrl, cwd, found),
      headers: providerInput.headers,
      source: variables === undefined ? 'file' : 'environment',
    });
  }
  return { providers, notices, problems };
}

type ProviderInput = FileSettings['providers'][string];

function missingMember(
  providerInput: ProviderInput,
  facts: ProviderTypeFacts,
  apiKeys: readonly string[],
  unresolvedBaseUrl: string | undefined,
) {
  if (!facts.keyless && apiKeys.length === 0) return { what: 'API key', member: 'api_key', field: 'API_KEY' };
  const usual = facts.requiresBaseUrl || unresolvedBaseUrl !== undefined ? undefined : facts.defaultBaseUrl;
  if ((providerInput.base_url ?? usual) !== undefined) return undefined;
  return { what: 'base URL', member: 'base_url', field: 'BASE_URL' };
}

/** The unset variable that a member of a file provider refers to. */
function unresolved(name: string, member: string, missing: readonly MissingVariable[]): string | undefined {
  const prefix = `providers.${name}.${member}`;
  return missing.find(({ path }) => `${path.join('.')}.`.startsWith(prefix))?.variable;
}

function modelsOf(models: readonly (string | ConfiguredModel)[]): ConfiguredModel[] {
  const byId = new Map<string, ConfiguredModel>();
  for (const model of models) {
    const one = typeof model === 'string' ? { id: model } : model;
    byId.set(one.id, one);
  }
  return [...byId.values()];
}

function optionsOf(providerInput: ProviderInput, facts: ProviderTypeFacts): Record<string, string> {
  const found = Object.entries(facts.extra ?? {}).map(([field, option]) => {
    return [option, Reflect.get(providerInput, field.toLowerCase())] as const;
  });
  return Object.fromEntries(found.flatMap(([option, value]) => (value === undefined ? [] : [[option, String(value)]])));
}

/** Texts of PEM files. */
interface TlsTexts {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** Reads the PEM files of a provider. Undefined when it has none. @param found receives what is wrong with a setting */
function tlsOf(
  { ca_file: caFile, client_cert_file: certFile, client_key_file: keyFile }: ProviderInput,
  baseUrl: string,
  cwd: string,
  found: (member: string, message: string) => void,
): TlsTexts | undefined {
  if (caFile === undefined && certFile === undefined && keyFile === undefined) return undefined;
  const read = (member: string, file: string | undefined, problem: string, parse: (text: string) => unknown) => {
    if (file === undefined) return undefined;
    let text: string;
    try {
      text = readBoundedFile(resolve(cwd, file)).toString();
    } catch (error) {
      found(member, `the file ${file} cannot be read: ${(error as Error).message}`);
      return undefined;
    }
    try {
      parse(text);
      return text;
    } catch {
      // An error of OpenSSL could contain the text.
      found(member, `the file ${file} ${problem}`);
      return undefined;
    }
  };
  // Loaded where it is used: it takes 30 ms of each start.
  const { createSecureContext } = process.getBuiltinModule('node:tls');
  const certificate = (text: string) => new X509Certificate(text);
  const ca = read('ca_file', caFile, 'has no certificate in PEM', certificate);
  const cert = read('client_cert_file', certFile, 'has no certificate in PEM', certificate);
  const key = read('client_key_file', keyFile, 'is not the key of client_cert_file in PEM', (text) =>
    cert === undefined ? undefined : createSecureContext({ cert, key: text }),
  );
  if (certFile === undefined && keyFile !== undefined) found('client_key_file', 'needs client_cert_file');
  if (keyFile === undefined && certFile !== undefined) found('client_cert_file', 'needs client_key_file');
  if (!baseUrl.startsWith('https:')) {
    found(caFile === undefined ? 'client_cert_file' : 'ca_file', 'needs a base_url that begins with https://');
  }
  return { ...(ca === undefined ? {} : { ca }), ...(cert === undefined || key === undefined ? {} : { cert, key }) };
}

/** A time, and the setting that it comes from: a variable, or a path in chancery.yaml. */
interface TimeLimit {
  readonly ms: number;
  readonly setting: string;
}

export interface ProviderTimeouts {
  /** To the headers of the answer. */
  readonly headers: TimeLimit;
  /** Of an answer that is no stream, from its headers to its end. */
  readonly answer: TimeLimit;
  /** Between two pieces of a stream. */
  readonly idle: TimeLimit;
}

/** A model on a CPU may read a long prompt for many minutes before its first word. */
const LOCAL_MS = 3_600_000;

const forAll = {
  headers: { member: 'response_header_timeout', setting: 'HTTP_RESPONSE_HEADER_TIMEOUT', usualMs: 600_000 },
  answer: { member: 'timeout', setting: 'HTTP_TIMEOUT', usualMs: 600_000 },
  idle: { member: 'stream_idle_timeout', setting: 'HTTP_STREAM_IDLE_TIMEOUT', usualMs: 300_000 },
} as const;

type Kind = keyof typeof forAll;
type Own = Pick<FileSettings['providers'][string], 'timeout' | 'stream_idle_timeout'>;

/** Of a provider in the configuration. */
function timeoutsOf(
  name: string,
  providerInput: Own & { readonly type: string },
  { http }: FileSettings,
  raw: RawSettings,
  types: ProviderTypes,
): ProviderTimeouts {
  const isLocal = types[providerInput.type]?.isLocal === true;
  const limit = (kind: Kind, member: keyof Own): TimeLimit => {
    const { variable = settingOf(name, providerInput.type, member) } = raw.origin(['providers', name, member]);
    const own = providerInput[member];
    if (own !== undefined) return { ms: own, setting: variable };
    const shared = limitForAll(kind, http, isLocal);
    return isLocal && http[forAll[kind].member] === undefined ? { ...shared, setting: variable } : shared;
  };
  return {
    headers: limit('headers', 'timeout'),
    answer: limit('answer', 'timeout'),
    idle: limit('idle', 'stream_idle_timeout'),
  };
}

/** By type, of providers created at run time: they have no settings of their own. */
export function timeoutsByType({ http }: FileSettings, types: ProviderTypes): Record<string, ProviderTimeouts> {
  return Object.fromEntries(
    Object.entries(types).map(([type, { isLocal = false }]) => {
      const limit = (kind: Kind): TimeLimit => limitForAll(kind, http, isLocal);
      return [type, { headers: limit('headers'), answer: limit('answer'), idle: limit('idle') }];
    }),
  );
}

function limitForAll(kind: Kind, http: FileSettings['http'], isLocal: boolean): TimeLimit {
  const { member, setting, usualMs } = forAll[kind];
  return { ms: http[member] ?? (isLocal ? LOCAL_MS : usualMs), setting };
}

/** The variable of a provider whose name fits into one; otherwise its place in chancery.yaml. */
function settingOf(name: string, type: string, member: string): string {
  const isVariable = (name === type || name.startsWith(`${type}-`)) && /^[a-z0-9-]+$/.test(name);
  return isVariable ? `${variablePrefix(name)}_${member.toUpperCase()}` : `providers.${name}.${member}`;
}

type OwnResilience = NonNullable<FileSettings['providers'][string]['resilience']>;

type ResilienceConfig = Readonly<ReturnType<typeof resilienceOf>>;

/** The settings for all, overridden by a provider's own. Statuses are ascending. */
export function resilienceOf(all: FileSettings['resilience'], own: OwnResilience = {}) {
  const retry = { ...all.retry, ...own.retry };
  const breaker = { ...all.circuit_breaker, ...own.circuit_breaker };
  return {
    retry: {
      /** Further attempts after the first. */
      maxRetries: retry.max_retries,
      initialBackoffMs: retry.initial_backoff,
      maxBackoffMs: retry.max_backoff,
      factor: retry.backoff_factor,
      /** Share of the wait that is random, 0 to 1. */
      jitter: retry.jitter_factor,
      onStatuses: retry.on_statuses,
    },
    circuitBreaker: {
      enabled: breaker.enabled,
      failureThreshold: breaker.failure_threshold,
      successThreshold: breaker.success_threshold,
      openMs: breaker.timeout,
      failureOnStatuses: breaker.failure_on_statuses,
    },
  };
}
