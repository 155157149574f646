/** Routes a request by the virtual models in force, to targets that the caller may use. */
import type { Denial, ModelAccess } from '../access/model-access.ts';
import type { Admission } from '../model-request/admission.ts';
import {
  type ModelDirectory,
  oneTarget,
  type Reach,
  type ReachRequest,
  type Route,
  type RouteRequest,
  type Router,
} from '../model-request/routing-types.ts';
import type { Target } from '../model-request/target.ts';
import { refusals } from '../refusal.ts';
import { Balance, type PriceOf } from './balance.ts';
import type { VirtualModelDirectory } from './directory.ts';
import { type Expanded, expand } from './expand.ts';
import { type FailoverPolicy, FailoverRules } from './failover-rules.ts';
import { FAILED_MS, Latencies } from './latencies.ts';
import { isFor, type VirtualModel } from './virtual-model.ts';

export interface RouterOptions {
  readonly models: ModelDirectory;
  readonly virtualModels: Pick<VirtualModelDirectory, 'redirects'>;
  readonly access: ModelAccess;
  readonly admission: Pick<Admission, 'hasRoom'>;
  /** Whether a provider is healthy: as far as is known it can be reached, and its circuit breaker lets calls pass. */
  isInOrder(provider: string): boolean;
  readonly priceOf: PriceOf;
  readonly failover: FailoverPolicy;
  random(): number;
}

export function createRouter(options: RouterOptions): Router & Reach {
  const { models, virtualModels, access, admission, failover } = options;
  const latencies = new Latencies();
  const balance = new Balance({ priceOf: options.priceOf, latencies, random: options.random });
  const rules = new WeakMap<VirtualModel, FailoverRules>();

  /** The virtual model that a selector names. A request that names a provider always means a model of that provider. */
  function redirected({ selector, provider }: ReachRequest): VirtualModel | undefined {
    if (provider !== undefined) return undefined;
    const { redirects } = virtualModels;
    return redirects.size === 0 ? undefined : redirects.get(selector);
  }

  function isReady(target: Target): boolean {
    const { provider, model } = target;
    return options.isInOrder(provider.name) && provider.pausedMs(model) === 0 && admission.hasRoom(target);
  }

  function permitted(target: Target, { selector, caller }: ReachRequest): Target {
    const denial = access.denial(caller, target.provider.name, target.model);
    if (denial !== undefined) throw refusals.modelAccessDenied(selector, denial);
    return target;
  }

  function direct(request: ReachRequest): Target | Promise<Target> {
    const { selector, provider } = request;
    if (provider !== undefined && !models.knows(provider)) throw refusals.unknownProvider(provider);
    const known = models.resolve(selector, provider);
    if (known !== undefined) return permitted(known, request);
    return models.resolveOrRefresh(selector, provider).then((found) => {
      if (found === undefined) throw refusals.modelNotFound(selector);
      return permitted(found, request);
    });
  }

  /** @param balanced the request for which targets are chosen; undefined when they are only listed */
  function expanded(
    model: VirtualModel,
    { caller }: ReachRequest,
    why: { denial: Denial | undefined },
    balanced?: RouteRequest,
  ): Expanded {
    const request = balanced && {
      sessionId: balanced.sessionId,
      kind: balanced.stream ? ('stream' as const) : ('whole' as const),
    };
    return expand(model, {
      redirect: (source) => virtualModels.redirects.get(source),
      resolve: (name, provider) => models.resolve(name, provider),
      mayPass: (one) => isForCaller(one, caller),
      mayUse({ provider, model }) {
        const denial = access.denial(caller, provider.name, model);
        why.denial ??= denial;
        return denial === undefined;
      },
      ...(request === undefined
        ? {}
        : {
            isReady: (target) => isReady(target),
            arrange: (one, branches, isTurn) => balance.arrange(one, branches, request, isTurn),
          }),
    });
  }

  /** @throws Refusal when it has no candidate, or none for this caller */
  function led(model: VirtualModel, request: ReachRequest, balanced?: RouteRequest): Expanded | Promise<Expanded> {
    const { selector, caller } = request;
    if (!isForCaller(model, caller)) throw refusals.modelAccessDenied(selector);
    const why: { denial: Denial | undefined } = { denial: undefined };
    const found = expanded(model, request, why, balanced);
    if (found.candidates.length > 0) return found;
    if (found.unknown.length === 0) throw noCandidate(found, selector, why);
    // The known lists may be older than the models.
    const refreshes = found.unknown.map((target) => models.resolveOrRefresh(target.model, target.provider));
    return Promise.all(refreshes).then(() => {
      const again = expanded(model, request, why, balanced);
      if (again.candidates.length === 0) throw noCandidate(again, selector, why);
      return again;
    });
  }

  function noCandidate({ denied }: Expanded, selector: string, { denial }: { denial: Denial | undefined }) {
    return denied ? refusals.modelAccessDenied(selector, denial) : refusals.modelNotFound(selector);
  }

  function rulesOf(model: VirtualModel): FailoverRules {
    let found = rules.get(model);
    if (found === undefined) {
      found = new FailoverRules(failover, model.failover);
      rules.set(model, found);
    }
    return found;
  }

  function routeOf(model: VirtualModel, { candidates }: Expanded, { stream }: RouteRequest): Route {
    const own = rulesOf(model);
    const limit = !own.enabled ? 1 : failover.maxModels === 0 ? candidates.length : failover.maxModels;
    const allowedCandidates = candidates.slice(0, limit);
    const through = [model.source, ...(allowedCandidates[0]?.through ?? [])];
    const kind = stream ? 'stream' : 'whole';
    return {
      candidates: allowedCandidates.map(({ target }) => target),
      ready: allowedCandidates.filter(({ ready }) => ready).length,
      through,
      failsOver: (outcome) => own.covers(outcome),
      observed: (target, refused, waitedMs, firstByteMs) => {
        if (refused !== undefined) {
          if (own.covers(refused)) latencies.observe(target, kind, Math.max(FAILED_MS, waitedMs));
          return;
        }
        const expected = latencies.expected(target, kind) ?? waitedMs;
        // When the client left, the measured time is only a lower bound.
        if (firstByteMs !== undefined || waitedMs > expected) latencies.observe(target, kind, firstByteMs ?? waitedMs);
      },
    };
  }

  return {
    route(request) {
      const model = redirected(request);
      if (model === undefined) {
        const target = direct(request);
        return target instanceof Promise ? target.then(oneTarget) : oneTarget(target);
      }
      const found = led(model, request, request);
      return found instanceof Promise
        ? found.then((one) => routeOf(model, one, request))
        : routeOf(model, found, request);
    },
    reach(request) {
      const model = redirected(request);
      if (model === undefined) {
        const target = direct(request);
        return target instanceof Promise ? target.then((one) => [one]) : [target];
      }
      const found = led(model, request);
      return found instanceof Promise ? found.then(targetsOf) : targetsOf(found);
    },
  };
}

function isForCaller({ userPaths }: VirtualModel, { origin, userPath }: ReachRequest['caller']): boolean {
  return origin === 'plugin' || isFor(userPaths, userPath);
}

function targetsOf({ candidates }: Expanded): readonly Target[] {
  return candidates.map(({ target }) => target);
}
