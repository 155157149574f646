/**
 * LiteLLM's config.yaml: deployments become providers, and groups of deployments with their fallbacks virtual models
 * (docs.litellm.ai, "Config.yaml" and "Router settings").
 */
import { z } from 'zod';
import { isCount, type Moved, type MovedObject, movedRates } from './moved-objects.ts';

/** LiteLLM's name of a provider, before the slash of a model, to the type here. */
const types: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    'openai azure anthropic gemini groq xai deepseek openrouter mistral ollama vllm'
      .split(' ')
      .map((one) => [one, one]),
  ),
  'text-completion-openai': 'openai',
  custom_openai: 'openai',
  ollama_chat: 'ollama',
  hosted_vllm: 'vllm',
  lm_studio: 'llamacpp',
  llamafile: 'llamacpp',
};

/** Names without a provider that LiteLLM knows. */
const known: readonly (readonly [RegExp, string])[] = [
  [/^(gpt-|chatgpt-|o\d|text-embedding-|dall-e|whisper-|tts-)/, 'openai'],
  [/^claude-/, 'anthropic'],
];

const strategies: Readonly<Record<string, readonly [strategy: string, difference?: string]>> = {
  'simple-shuffle': ['round_robin'],
  'cost-based-routing': ['cost'],
  'latency-based-routing': ['adaptive'],
  'least-busy': ['adaptive', 'the strategy adaptive decides by latency and errors'],
  'usage-based-routing': ['round_robin', 'rate limits of models skip what is exhausted'],
  'usage-based-routing-v2': ['round_robin', 'rate limits of models skip what is exhausted'],
};

const count = z.number().nullish();
const text = z.string().nullish();
const limits = { rpm: count, tpm: count, max_parallel_requests: count };
const parameters = z.looseObject({
  model: z.string(),
  api_base: text,
  api_key: text,
  api_version: text,
  custom_llm_provider: text,
  weight: count,
  ...limits,
});
const deployment = z.looseObject({
  model_name: z.string(),
  litellm_params: parameters,
  model_info: z.looseObject({ access_groups: z.array(z.string()).nullish() }).nullish(),
  ...limits,
});
const fallbacks = z.array(z.record(z.string(), z.array(z.unknown()))).nullish();
const routing = z.looseObject({ fallbacks, default_fallbacks: z.array(z.string()).nullish() });
const alias = z.union([z.string(), z.looseObject({ model: z.string() })]);
const config = z.looseObject({
  model_list: z.array(deployment).nullish(),
  litellm_settings: routing.nullish(),
  router_settings: routing
    .extend({ routing_strategy: text, model_group_alias: z.record(z.string(), alias).nullish() })
    .nullish(),
  general_settings: z.looseObject({}).nullish(),
  environment_variables: z.record(z.string(), z.unknown()).nullish(),
});

type Deployment = z.infer<typeof deployment>;
type Target = { readonly provider?: string; readonly model: string; readonly weight?: number };

interface Provider {
  readonly name: string;
  readonly type: string;
  readonly baseUrl: string | undefined;
  readonly apiVersion: string | undefined;
  readonly keys: Set<string>;
  readonly models: Set<string>;
}

export interface LitellmModels extends Moved {
  /** For chancery.yaml: providers whose keys stay in variables. */
  readonly yaml: Readonly<Record<string, object>>;
  /** The selectors of what a list of models of a key, a user or a team allows; empty for an empty list. */
  selectorsOf(names: readonly string[]): readonly string[];
}

interface Given {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether providers with keys in variables are for a file. */
  readonly toFile: boolean;
  /** Whether the database is read too. */
  readonly hasDatabase: boolean;
}

/** @param content of the file, parsed. @throws z.ZodError for another structure */
export function litellmModels(content: unknown, { env, toFile, hasDatabase }: Given): LitellmModels {
  const settings = config.parse(content ?? {});
  const notTaken: string[] = [];
  const objects: MovedObject[] = [];
  const providers = new Map<string, Provider>();
  /** By the name that clients use. */
  const groups = new Map<string, Target[]>();
  const access = new Map<string, Set<string>>();
  const variables: Readonly<Record<string, unknown>> = { ...settings.environment_variables, ...env };
  const valueIn = (given: string) => {
    const name = variableIn(given);
    const value = name === undefined ? given : variables[name];
    return value === undefined || value === null || value === '' ? undefined : String(value);
  };

  for (const one of settings.model_list ?? []) take(one);
  moveGroups();
  moveProviders();
  noteSettings();
  const yaml = Object.fromEntries(
    [...providers.values()].filter(isForFile).map((one) => [one.name, settingsOf(one, inYaml, escaped)]),
  );
  return { objects, notTaken, yaml, selectorsOf };

  function take({ model_name: group, litellm_params: given, model_info: info, ...own }: Deployment): void {
    const provider = providerOf(given);
    if (provider === undefined) {
      notTaken.push(`model ${group}: there is no provider type for ${given.model}`);
      return;
    }
    const model = modelOf(given);
    for (const name of info?.access_groups ?? []) access.set(name, (access.get(name) ?? new Set()).add(group));
    const unused = Object.keys(given).filter((name) => !(name in parameters.shape));
    if (unused.length > 0) notTaken.push(`model ${group} (${given.model}): no equivalent of ${unused.join(', ')}`);
    if (model.includes('*') || group.includes('*')) {
      provider.models.add('*');
      if (group !== `${provider.name}/*`) {
        notTaken.push(`model ${group}: patterns have no equivalent; its models are ${provider.name}/<model>`);
      }
      return;
    }
    provider.models.add(model);
    const targets = groups.get(group) ?? [];
    groups.set(group, targets);
    const { weight, rpm = own.rpm, tpm = own.tpm, max_parallel_requests: concurrent } = given;
    const share = weight ?? rpm ?? tpm;
    if (targets.some((one) => one.provider === provider.name && one.model === model)) {
      notTaken.push(`model ${group}: a further deployment of ${given.model} at ${provider.name} adds its key only`);
      return;
    }
    targets.push({ provider: provider.name, model, ...(isCount(share) && { weight: share }) });
    const of = { scope: 'model', subject: `${provider.name}/${model}` };
    // In several groups it is one model.
    const isNew = ({ id }: MovedObject) => !objects.some((one) => one.id === id);
    objects.push(...movedRates(of, rpm, tpm, concurrent, [provider.name]).filter(isNew));
  }

  function providerOf(given: Deployment['litellm_params']): Provider | undefined {
    const slash = given.model.indexOf('/');
    const named = given.custom_llm_provider ?? (slash === -1 ? undefined : given.model.slice(0, slash));
    const name = named ?? known.find(([pattern]) => pattern.test(given.model))?.[1];
    const listed = name === undefined ? undefined : types[name];
    if (listed === undefined) return undefined;
    const { api_base: baseUrl, api_version: apiVersion, api_key: key } = given;
    // A server of one's own with OpenAI's API needs no key.
    const type = listed === 'openai' && baseUrl && !key ? 'llamacpp' : listed;
    const id = [type, baseUrl, apiVersion].join(' ');
    let provider = providers.get(id);
    if (provider === undefined) {
      const isFirst = [...providers.values()].every((one) => one.type !== type);
      const common = { type, baseUrl: baseUrl ?? undefined, apiVersion: apiVersion ?? undefined };
      provider = {
        ...common,
        name: isFirst ? type : nameOf(type, baseUrl, apiVersion),
        keys: new Set(),
        models: new Set(),
      };
      providers.set(id, provider);
    }
    if (key) provider.keys.add(key);
    return provider;
  }

  function nameOf(type: string, ...differences: (string | null | undefined)[]): string {
    const words = differences.flatMap((one) => (one ? (valueIn(one) ?? variableIn(one) ?? '') : []));
    const name = words
      .join('-')
      .toLowerCase()
      .replace(/^https?:\/\//, '')
      .replace(/[^a-z0-9]+/g, '-');
    return `${type}-${name.replace(/^-|-$/g, '') || 'default'}`;
  }

  /** A group with fallbacks calls its own deployments first. Fallbacks are deployments, so that no circle is made. */
  function moveGroups(): void {
    const { router_settings: router, litellm_settings: library } = settings;
    const routing = router?.routing_strategy ?? 'simple-shuffle';
    const [strategy, difference] = strategies[routing] ?? ['round_robin', 'no equivalent; it is round_robin'];
    if (difference !== undefined) notTaken.push(`router_settings.routing_strategy ${routing}: ${difference}`);
    const next = new Map<string, readonly unknown[]>();
    for (const rule of [...(library?.fallbacks ?? []), ...(router?.fallbacks ?? [])]) {
      for (const [name, models] of Object.entries(rule)) next.set(name, models);
    }
    const others = router?.default_fallbacks ?? library?.default_fallbacks ?? [];
    const nested = new Set<string>();
    const single = (name: string): Target | undefined => {
      const targets = groups.get(name);
      if (targets === undefined || targets.length < 2) return targets?.[0];
      nested.add(name);
      return { model: `${name}-deployments` };
    };
    const moved: MovedObject[] = [];
    for (const [name, targets] of groups) {
      const models = next.get(name) ?? next.get('*') ?? others;
      const then = models
        .filter((model) => model !== name)
        .flatMap((model) => {
          const target = single(String(model));
          if (target !== undefined) return [target];
          notTaken.push(
            `fallback of ${name}: ${typeof model === 'string' ? model : 'with parameters'} is not in model_list`,
          );
          return [];
        });
      const first = then.length === 0 ? undefined : single(name);
      const chain =
        first === undefined
          ? targets
          : [first, ...then.filter((one) => one.model !== first.model || one.provider !== first.provider)];
      const isItself = chain.length === 1 && name === `${chain[0]?.provider}/${chain[0]?.model}`;
      if (!isItself) moved.push(virtual(name, chain, first === undefined ? strategy : 'failover'));
    }
    for (const name of nested) objects.push(virtual(`${name}-deployments`, groups.get(name) ?? [], strategy));
    for (const [name, of] of Object.entries(router?.model_group_alias ?? {})) {
      const model = typeof of === 'string' ? of : of.model;
      const providers = (groups.get(model) ?? []).flatMap(({ provider }) => provider ?? []);
      if (groups.has(model)) moved.push({ ...virtual(name, [{ model }], strategy), providers });
      else notTaken.push(`router_settings.model_group_alias ${name}: ${model} is not in model_list`);
    }
    objects.push(...moved);
  }

  function virtual(source: string, targets: readonly Target[], strategy: string): MovedObject {
    const providers = targets.flatMap(({ provider }) => provider ?? []);
    return { kind: 'virtual model', id: source, members: { targets, strategy }, more: { source }, providers };
  }

  function isForFile({ keys, baseUrl, apiVersion }: Provider): boolean {
    if (!toFile || keys.size === 0 || [...keys].some((key) => variableIn(key) === undefined)) return false;
    const named = [baseUrl, apiVersion, ...keys].flatMap((one) => (one && variableIn(one)) ?? []);
    return named.every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  }

  function moveProviders(): void {
    for (const provider of providers.values()) {
      if (isForFile(provider)) continue;
      const { name, keys, baseUrl, apiVersion } = provider;
      const missing = [baseUrl, apiVersion, ...keys].flatMap((one) =>
        one && valueIn(one) === undefined ? (variableIn(one) ?? []) : [],
      );
      if (missing.length > 0) {
        notTaken.push(
          `provider ${name}: ${missing.join(', ')} not set; set them, or give --output for a part of chancery.yaml`,
        );
        continue;
      }
      const { base_url, api_keys, ...members } = settingsOf(
        provider,
        (given) => valueIn(given) ?? '',
        (name) => name,
      );
      // An address may have a password or a token: it is not shown then.
      const address = base_url === undefined || /[@?]/.test(base_url) ? {} : { base_url };
      objects.push({
        kind: 'provider',
        id: name,
        members: { ...members, ...address },
        more: { name, api_keys, ...(base_url !== undefined && { base_url }) },
      });
    }
  }

  function settingsOf(
    { type, baseUrl, apiVersion, keys, models }: Provider,
    of: (given: string) => string,
    ofName: (name: string) => string,
  ) {
    return {
      type,
      ...(baseUrl !== undefined && { base_url: of(baseUrl) }),
      ...(apiVersion !== undefined && { api_version: of(apiVersion) }),
      ...(keys.size > 0 && { api_keys: [...keys].map(of) }),
      // LiteLLM serves no model that is not in its list.
      ...(!models.has('*') && { models: [...models].sort().map(ofName), models_mode: 'allowlist' }),
    };
  }

  function noteSettings(): void {
    const taken = ['fallbacks', 'default_fallbacks', 'routing_strategy', 'model_group_alias'];
    if (hasDatabase) taken.push('database_url');
    const cures: Readonly<Record<string, string>> = {
      master_key: 'keep it as GATEWAY_MASTER_KEY',
      database_url: 'give it as --database-url',
      num_retries: 'set RETRY_MAX_RETRIES',
      request_timeout: 'set HTTP_TIMEOUT',
      timeout: 'set HTTP_TIMEOUT',
      stream_timeout: 'set HTTP_STREAM_IDLE_TIMEOUT',
      cache: 'set RESPONSE_CACHE_ENABLED',
    };
    for (const section of ['router_settings', 'litellm_settings', 'general_settings'] as const) {
      for (const name of Object.keys(settings[section] ?? {}).filter((one) => !taken.includes(one))) {
        notTaken.push(`${section}.${name}: ${cures[name] ?? 'no equivalent'}`);
      }
    }
    const sections = Object.keys(settings).filter((name) => !(name in config.shape));
    for (const name of sections) notTaken.push(`${name}: no equivalent`);
  }

  /** A selector allows models of providers, so a name here stands for the deployments of its group. */
  function selectorsOf(names: readonly string[]): readonly string[] {
    const all = new Set<string>();
    for (const name of names) {
      if (name === 'all-team-models') continue;
      if (name === 'all-proxy-models' || name === '*') return ['/'];
      const groupsNamed = access.get(name) ?? [name];
      for (const group of groupsNamed) for (const selector of selectorsOfGroup(group)) all.add(selector);
    }
    return [...all].sort();
  }

  function selectorsOfGroup(group: string): readonly string[] {
    const alias = settings.router_settings?.model_group_alias?.[group];
    const targets = groups.get(alias === undefined ? group : typeof alias === 'string' ? alias : alias.model);
    if (targets !== undefined) return targets.map(({ provider, model }) => `${provider}/${model}`);
    const provider = [...providers.values()].find(({ name }) => group === `${name}/*`);
    // Allows nothing: an empty list would allow everything.
    return [provider === undefined ? group.replace(/[^\x21-\x7e]|[/*]/g, '-') : `${provider.name}/`];
  }
}

function modelOf({ model, custom_llm_provider: named }: Deployment['litellm_params']): string {
  const slash = model.indexOf('/');
  const prefix = model.slice(0, Math.max(slash, 0));
  return slash !== -1 && (named === undefined || named === null || prefix === named) ? model.slice(slash + 1) : model;
}

/** The variable in `os.environ/NAME`. */
function variableIn(given: string): string | undefined {
  return /^os\.environ\/(.+)$/s.exec(given)?.[1];
}

function inYaml(given: string): string {
  const name = variableIn(given);
  return name === undefined ? escaped(given) : `\${${name}}`;
}

/** Text that chancery.yaml reads as it is. */
function escaped(text: string): string {
  return text.replaceAll('${', () => `$\${`);
}
