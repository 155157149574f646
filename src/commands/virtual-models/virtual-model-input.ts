/** Converts a virtual model from a request or the configuration to its stored form. Pure. */
import { strategies } from '../../events/catalogue/workflow.ts';
import type { UserPath } from '../../events/event.ts';
import { canonicalSelector } from '../access/selector.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { FailoverSetting, KnownStrategies, RouteConfig, VirtualModel, VirtualTarget } from './virtual-model.ts';

export interface VirtualModelInput {
  readonly source: string;
  /** Alternative to `targets` for a single target. */
  readonly targetModel?: string | undefined;
  readonly targets?: readonly VirtualTarget[] | undefined;
  /** A strategy, `plugin`, `plugin:<name>`, or the name of a route strategy. */
  readonly strategy?: string | undefined;
  readonly strategyPlugin?: string | undefined;
  readonly strategyConfig?: RouteConfig | undefined;
  readonly sessionAffinity?: boolean | undefined;
  readonly failover?: boolean | Partial<FailoverSetting> | undefined;
  readonly userPaths?: readonly UserPath[] | undefined;
  readonly enabled?: boolean | undefined;
  readonly description?: string | undefined;
}

export interface KnownProviders {
  /** Whether there is a provider instance with this name. */
  has(name: string): boolean;
  /** Whether there is a provider instance with this name or type. */
  knows(nameOrType: string): boolean;
}

const MAX_NAME = 256;
const MAX_TARGETS = 64;
const MAX_USER_PATHS = 256;
const MAX_PHRASES = 64;
const MAX_WEIGHT = 1_000_000;
/** Bytes of the configuration of a route strategy. */
const MAX_CONFIG = 16 * 1024;

const DEFAULTS = { strategy: 'round_robin', sessionAffinity: true, failover: { enabled: true } } as const;

/** @returns the virtual model, or a refusal with the invalid field */
export function virtualModelFrom(
  input: VirtualModelInput,
  providers: KnownProviders,
  routeStrategies: KnownStrategies,
): VirtualModel | Refusal {
  const userPaths = [...new Set(input.userPaths ?? [])];
  if (userPaths.length > MAX_USER_PATHS) return tooMany('user_paths', MAX_USER_PATHS);
  const { enabled = true, description } = input;
  const common = { userPaths, enabled, ...(description === undefined || description === '' ? {} : { description }) };
  const targets = targetsOf(input);
  if (targets instanceof Refusal) return targets;
  if (targets.length === 0) return policyFrom(input, common, providers);
  return redirectFrom(input, targets, common, providers, routeStrategies);
}

type Common = Pick<VirtualModel, 'userPaths' | 'enabled' | 'description'>;

function policyFrom(input: VirtualModelInput, common: Common, providers: KnownProviders): VirtualModel | Refusal {
  for (const [field, value] of [
    ['strategy', input.strategy],
    ['strategy_plugin', input.strategyPlugin],
    ['strategy_config', input.strategyConfig],
    ['session_affinity', input.sessionAffinity],
    ['failover', input.failover],
  ] as const) {
    if (value !== undefined) return invalid(field, `'${field}' configures target selection, but there are no targets.`);
  }
  const source = canonicalSelector(input.source, providers.has, 'source');
  if (typeof source !== 'string') return source;
  return { source, targets: [], ...DEFAULTS, ...common };
}

function redirectFrom(
  input: VirtualModelInput,
  targets: readonly VirtualTarget[],
  common: Common,
  providers: KnownProviders,
  routeStrategies: KnownStrategies,
): VirtualModel | Refusal {
  const source = input.source.trim();
  const problem = nameProblem(source);
  if (problem !== undefined) return invalid('source', `'source' ${problem}.`);
  for (const [place, target] of targets.entries()) {
    const refusal = targetProblem(target, place, targets, providers);
    if (refusal !== undefined) return refusal;
  }
  const strategy = strategyOf(input, routeStrategies);
  if (strategy instanceof Refusal) return strategy;
  const failover = failoverOf(input.failover);
  if (failover instanceof Refusal) return failover;
  return { source, targets, ...strategy, sessionAffinity: input.sessionAffinity ?? true, failover, ...common };
}

/** Why a name cannot be used by clients as a model name; undefined when it can. */
function nameProblem(name: string): string | undefined {
  if (name === '' || name.length > MAX_NAME) return `must have from 1 to ${MAX_NAME} characters`;
  if (!name.isWellFormed() || /[\p{Cc}\p{Zl}\p{Zp}]/u.test(name)) return 'must not have control characters';
  if (name.startsWith('/') || name.endsWith('/') || name.includes('*')) {
    return `is '${name}', which selects models; what has targets needs a name, without '*' and without a slash at an end`;
  }
  return undefined;
}

function targetsOf({ targetModel, targets }: VirtualModelInput): readonly VirtualTarget[] | Refusal {
  if (targetModel !== undefined && targets !== undefined) {
    return invalid('target_model', "Give either 'target_model' or 'targets', not both.");
  }
  if (targetModel !== undefined) {
    return targetModel.trim() === '' ? blank('target_model') : [{ model: targetModel.trim() }];
  }
  if (targets === undefined) return [];
  if (targets.length > MAX_TARGETS) return tooMany('targets', MAX_TARGETS);
  const blankAt = targets.findIndex(({ model }) => model.trim() === '');
  if (blankAt !== -1) return blank(`targets.${blankAt}.model`);
  return targets.map(({ provider, model, weight }) => ({
    ...(provider === undefined || provider.trim() === '' ? {} : { provider: provider.trim() }),
    model: model.trim(),
    ...(weight === undefined ? {} : { weight }),
  }));
}

function targetProblem(
  { provider, model, weight = 1 }: VirtualTarget,
  place: number,
  all: readonly VirtualTarget[],
  providers: KnownProviders,
): Refusal | undefined {
  const field = `targets.${place}`;
  const problem = nameProblem(model);
  if (problem !== undefined) return invalid(`${field}.model`, `'${field}.model' ${problem}.`);
  if (!(weight > 0 && weight <= MAX_WEIGHT)) {
    return invalid(`${field}.weight`, `'${field}.weight' must be more than 0 and at most ${MAX_WEIGHT}.`);
  }
  if (provider !== undefined && !providers.knows(provider)) {
    const message = `'${field}.provider' is '${provider}', which is not a provider.`;
    return refusals.invalidRequest(message, `${field}.provider`, 'unknown_provider');
  }
  if (all.findIndex((one) => one.provider === provider && one.model === model) !== place) {
    return invalid(field, `'${field}' repeats a target; send it once with the combined weight.`);
  }
  return undefined;
}

function strategyOf(
  { strategy = '', strategyPlugin = '', strategyConfig }: VirtualModelInput,
  known: KnownStrategies,
): Pick<VirtualModel, 'strategy' | 'plugin'> | Refusal {
  const short = strategy.startsWith('plugin:') ? strategy.slice('plugin:'.length) : undefined;
  const bare = known.has(strategy) ? strategy : undefined;
  const own = strategies.find((one) => one === strategy);
  if (strategy !== '' && own === undefined && short === undefined && bare === undefined) {
    const choices = [...strategies.filter((one) => one !== 'plugin'), ...known.names().map((one) => `plugin:${one}`)];
    return invalid('strategy', `'strategy' must be one of ${choices.join(', ')}.`);
  }
  const named = short ?? bare;
  if (named !== undefined && strategyPlugin !== '' && strategyPlugin !== named) {
    return invalid('strategy_plugin', `'strategy' names the route strategy '${named}', 'strategy_plugin' another one.`);
  }
  const name = named ?? strategyPlugin;
  if (own !== undefined && own !== 'plugin') {
    if (name !== '') return invalid('strategy_plugin', `'strategy_plugin' needs the strategy 'plugin', not '${own}'.`);
    if (strategyConfig !== undefined) {
      return invalid('strategy_config', `'strategy_config' needs the strategy 'plugin', not '${own}'.`);
    }
    return { strategy: own };
  }
  if (name !== '') return pluginOf(name, strategyConfig, short === undefined ? 'strategy_plugin' : 'strategy', known);
  if (strategyConfig !== undefined) {
    return invalid(
      'strategy_config',
      "'strategy_config' configures a route strategy, but 'strategy_plugin' is missing.",
    );
  }
  if (own === undefined && short === undefined) return { strategy: DEFAULTS.strategy };
  const param = short === undefined ? 'strategy_plugin' : 'strategy';
  return invalid(param, `'${param}' must name a route strategy: ${known.names().join(', ')}.`);
}

function pluginOf(
  name: string,
  config: RouteConfig = {},
  param: string,
  known: KnownStrategies,
): Pick<VirtualModel, 'strategy' | 'plugin'> | Refusal {
  if (name.length > MAX_NAME) return invalid(param, `'${param}' may have at most ${MAX_NAME} characters.`);
  if (JSON.stringify(config).length > MAX_CONFIG) {
    return invalid('strategy_config', `'strategy_config' may have at most ${MAX_CONFIG} characters.`);
  }
  const problem = known.problem({ name, config });
  if (problem?.kind === 'not_loaded') {
    return invalid(param, `${problem.message} Loaded: ${known.names().join(', ') || 'none'}.`);
  }
  if (problem !== undefined) {
    const key = problem.key === undefined ? 'strategy_config' : `strategy_config.${problem.key}`;
    return invalid(key, problem.message);
  }
  return { strategy: 'plugin', plugin: { name, config } };
}

function failoverOf(input: VirtualModelInput['failover']): FailoverSetting | Refusal {
  if (input === undefined) return DEFAULTS.failover;
  if (typeof input === 'boolean') return { enabled: input };
  const { enabled = true, statuses, phrases } = input;
  const outside = statuses?.find((status) => !Number.isInteger(status) || status < 400 || status > 599);
  if (outside !== undefined) {
    return invalid(
      'failover.statuses',
      `'failover.statuses' has ${outside}; only statuses from 400 to 599 are errors.`,
    );
  }
  if (phrases !== undefined && phrases.length > MAX_PHRASES) return tooMany('failover.phrases', MAX_PHRASES);
  if (phrases?.some((phrase) => phrase.replaceAll('*', '').trim() === '' || phrase.length > MAX_NAME)) {
    return invalid('failover.phrases', `Each of 'failover.phrases' must have from 1 to ${MAX_NAME} characters.`);
  }
  return {
    enabled,
    ...(statuses === undefined ? {} : { statuses: [...new Set(statuses)].sort((a, b) => a - b) }),
    ...(phrases === undefined ? {} : { phrases: [...new Set(phrases)] }),
  };
}

function blank(param: string): Refusal {
  return invalid(param, `'${param}' must name a model.`);
}

function tooMany(param: string, limit: number): Refusal {
  return invalid(param, `'${param}' may have at most ${limit} entries.`);
}

function invalid(param: string, message: string): Refusal {
  return refusals.invalidRequest(message, param);
}
