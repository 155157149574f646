/** Wiring of virtual models: resolution of names, access policies, and routing. */
import type { ModelAccess, VisibleModels } from '../commands/access/model-access.ts';
import type { Resilience } from '../commands/exchange/pipeline/dependencies.ts';
import { VirtualModelChanges } from '../commands/virtual-models/decider.ts';
import { declaredVirtualModels, problemAround, VirtualModelDirectory } from '../commands/virtual-models/directory.ts';
import { type Entry, withVirtualModels } from '../commands/virtual-models/expand.ts';
import { RouteFallbacks } from '../commands/virtual-models/route-fallbacks.ts';
import { createRouter, defaultPhrases, type RouterOptions } from '../commands/virtual-models/router.ts';
import { cheapestHealthy, RouteStrategies, type VirtualModel } from '../commands/virtual-models/virtual-model.ts';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import type { AsOf } from '../http/admin/as-of.ts';
import { type RowFacts, registerVirtualModels } from '../http/admin/models/virtual-models.ts';
import type { Routes } from '../http/api/route-schema.ts';
import { parseUserPath } from '../http/request-head.ts';
import type { SavedObjects } from '../projections/administered.ts';
import type { RunningProjection } from '../projections/runner.ts';
import type { Registry } from '../providers/registry.ts';

export interface VirtualModelsOptions {
  readonly config: Config;
  readonly log: EventLog;
  readonly view: RunningProjection<SavedObjects<VirtualModel>>;
  readonly registry: Registry;
  readonly routeStrategies: RouteStrategies;
  readonly warn: (message: string) => void;
}

/** The router's dependencies beside the virtual models. */
export interface RouterParts extends Pick<RouterOptions, 'access' | 'admission' | 'priceOf' | 'random'> {
  /** By provider name. */
  resilience(): ReadonlyMap<string, Resilience>;
}

export type VirtualModels = ReturnType<typeof createVirtualModels>;

/** The strategies that need no plugin. */
export function builtInRouteStrategies(): RouteStrategies {
  return new RouteStrategies([cheapestHealthy]);
}

/** @throws Error when the configuration declares an invalid virtual model */
export function createVirtualModels({ config, log, view, registry, routeStrategies, warn }: VirtualModelsOptions) {
  const isProvider = (name: string) => registry.providers.some((provider) => provider.name === name);
  const providers = { has: isProvider, knows: (nameOrType: string) => registry.knows(nameOrType) };
  const { enabledByDefault } = config.models;
  function declaredIn({ virtualModels, providers: declaredProviders }: Config): VirtualModelDirectory {
    const isDeclared = (name: string) => declaredProviders.some((provider) => provider.name === name);
    const policies = virtualModels.map(({ userPaths, ...one }) => ({
      ...one,
      userPaths: userPaths?.map((path) => parseUserPath(path, 'user_paths')),
    }));
    const known = {
      has: (name: string) => isDeclared(name) || isProvider(name),
      knows: (nameOrType: string) =>
        registry.knows(nameOrType) ||
        declaredProviders.some(({ name, type }) => name === nameOrType || type === nameOrType),
    };
    const declared = declaredVirtualModels(policies, known, routeStrategies, warn);
    const directory = new VirtualModelDirectory({ stored: view, declared, enabledByDefault });
    refuseCycles(directory, declared);
    return directory;
  }
  const directory = declaredIn(config);
  const { declared } = directory;
  const facts: RowFacts = {
    declared,
    enabledByDefault,
    isProvider,
    resolve: (model, provider) => registry.resolve(model, provider),
    strategyProblem: (plugin) => routeStrategies.problem(plugin)?.message,
  };
  const fallbacks = new RouteFallbacks();
  const changes = new VirtualModelChanges({
    log,
    directory,
    serves: (model) => registry.resolve(model, undefined) !== undefined,
    whenProcessed: (position) => view.whenProcessed(position),
  });
  const { phrases = defaultPhrases, ...failover } = config.failover;
  return {
    directory,
    policies: directory.policies,
    /** The strategies that virtual models can use; plugins add theirs. */
    routeStrategies,
    /** Selections that route strategies could not make. */
    fallbacks,
    /** @returns a function that replaces the declared virtual models by those of `next`. @throws Error that names an invalid one */
    prepareReload(next: Config): () => void {
      const { declared: replacing } = declaredIn(next);
      return () => directory.inForce.redeclare(replacing);
    },
    /** Inputs of the rows beside the stored virtual models; also for an `as_of` list. */
    facts,
    router: ({ access, admission, priceOf, resilience, random }: RouterParts) =>
      createRouter({
        models: registry,
        virtualModels: directory,
        access,
        admission,
        priceOf,
        random,
        strategies: routeStrategies,
        fallbacks,
        now: () => performance.now(),
        failover: { ...failover, phrases },
        isInOrder(provider, model, caller) {
          if (resilience().get(provider)?.breakers.refuses(model, caller) === true) return false;
          return registry.status().find(({ name }) => name === provider)?.state !== 'unavailable';
        },
      }),
    /** The models that a caller sees, including virtual models. */
    listed: (models: VisibleModels<Entry>, access: ModelAccess) =>
      withVirtualModels(models, {
        virtualModels: directory,
        access,
        resolve: facts.resolve,
        onlyVirtual: config.models.listOnlyVirtual,
        declaredAt: Math.floor(Date.now() / 1000),
      }),
    register: (admin: Routes, asOf: AsOf) =>
      registerVirtualModels(admin, { view, changes, providers, routeStrategies, facts, asOf }),
  };
}

/**
 * Refuses cycles that the configuration's virtual models form with those that administrators saved.
 * @throws Error that names the virtual models of the cycle
 */
function refuseCycles({ all }: VirtualModelDirectory, declared: ReadonlyMap<string, VirtualModel>): void {
  for (const source of declared.keys()) {
    const problem = problemAround(source, all);
    if (problem?.kind !== 'cycle') continue;
    const path = problem.path.join(' → ');
    const saved = problem.path.filter((name) => !declared.has(name)).join(', ');
    throw new Error(`virtual_models: '${source}' cannot be resolved: ${path}. Saved by an administrator: ${saved}`);
  }
}
