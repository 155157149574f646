/** Routes a request by the virtual models in force, to targets that the caller may use. */
import type { Denial, ModelAccess } from '../access/model-access.ts';
import type { Admission } from '../model-request/admission.ts';
import { callerName } from '../model-request/model-request.ts';
import type {
  ModelDirectory,
  Reach,
  ReachRequest,
  RefusedTarget,
  Route,
  RouteRequest,
  Router,
  Selection,
  Target,
} from '../model-request/routing-types.ts';
import { CREDENTIALS_REFUSED } from '../model-request/upstream-refusals.ts';
import { refusals, UNSUPPORTED_OPERATION } from '../refusal.ts';
import { Balance, type Balanced, type PriceOf } from './balance.ts';
import type { VirtualModelDirectory } from './directory.ts';
import { type Expanded, expand, expandInTurn } from './expand.ts';
import type { RouteFallbacks } from './route-fallbacks.ts';
import { ErrorRates, FAILED_MS, Latencies } from './target-statistics.ts';
import { type FailoverSetting, isFor, type RouteStrategies, type VirtualModel } from './virtual-model.ts';

export interface RouterOptions {
  readonly models: ModelDirectory;
  readonly virtualModels: Pick<VirtualModelDirectory, 'redirects'>;
  readonly access: ModelAccess;
  readonly admission: Pick<Admission, 'hasRoom'>;
  /**
   * Whether a provider is healthy for a caller: as far as is known it can be reached, and the model's circuit breaker
   * lets the caller's calls pass.
   */
  isInOrder(provider: string, model: string, caller: string): boolean;
  readonly priceOf: PriceOf;
  readonly failover: FailoverPolicy;
  readonly strategies: RouteStrategies;
  readonly fallbacks: RouteFallbacks;
  random(): number;
  /** Milliseconds that never run backwards. */
  now(): number;
}

export function createRouter(options: RouterOptions): Router & Reach {
  const { models, virtualModels, access, admission, failover } = options;
  const latencies = new Latencies(options.now);
  const errorRates = new ErrorRates(options.now);
  const balance = new Balance({ ...options, latencies, errorRates });
  const rules = new WeakMap<VirtualModel, FailoverRules>();

  function isReady(target: Target, caller: string): boolean {
    const { provider, model } = target;
    return (
      options.isInOrder(provider.name, model, caller) && provider.pausedMs(model) === 0 && admission.hasRoom(target)
    );
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
    balanced: Balanced | undefined,
  ): Expanded | Promise<Expanded> {
    const name = callerName(caller);
    const expanding = {
      redirect: (source: string) => virtualModels.redirects.get(source),
      resolve: (name: string, provider: string | undefined) => models.resolve(name, provider),
      mayPass: (one: VirtualModel) => isForCaller(one, caller),
      mayUse({ provider, model }: Target) {
        const denial = access.denial(caller, provider.name, model);
        why.denial ??= denial;
        return denial === undefined;
      },
    };
    if (balanced === undefined) return expand(model, expanding);
    return expandInTurn(model, {
      ...expanding,
      isReady: (target) => isReady(target, name),
      arrange: (one, branches) => balance.arrange(one, branches, balanced),
      choose: (one, branches) => balance.choose(one, branches, balanced),
    });
  }

  /** @throws Refusal when it has no candidate, or none for this caller */
  function led(model: VirtualModel, request: ReachRequest, balanced?: Balanced): Expanded | Promise<Expanded> {
    const { selector, caller } = request;
    if (!isForCaller(model, caller)) throw refusals.modelAccessDenied(selector);
    const why: { denial: Denial | undefined } = { denial: undefined };
    const usable = (found: Expanded): Expanded => {
      if (found.candidates.length === 0) throw noCandidate(found, selector, why);
      return found;
    };
    const usableOrRefreshed = (found: Expanded): Expanded | Promise<Expanded> => {
      if (found.candidates.length > 0 || found.unknown.length === 0) return usable(found);
      // The known lists may be older than the models.
      const refreshes = found.unknown.map((target) => models.resolveOrRefresh(target.model, target.provider));
      return Promise.all(refreshes).then(async () => usable(await expanded(model, request, why, balanced)));
    };
    const found = expanded(model, request, why, balanced);
    return found instanceof Promise ? found.then(usableOrRefreshed) : usableOrRefreshed(found);
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

  function routeOf(
    model: VirtualModel,
    { candidates }: Expanded,
    { kind, sessionId }: Balanced,
    selections: readonly Selection[],
  ): Route {
    const own = rulesOf(model);
    const limit = !own.enabled ? 1 : failover.maxModels === 0 ? candidates.length : failover.maxModels;
    const allowedCandidates = candidates.slice(0, limit);
    const through = [model.source, ...(allowedCandidates[0]?.through ?? [])];
    return {
      candidates: allowedCandidates.map(({ target }) => target),
      ready: allowedCandidates.filter(({ ready }) => ready).length,
      through,
      ...(selections.length === 0 ? {} : { selections }),
      // A provider without this operation says nothing about the others.
      failsOver: (outcome) => own.covers(outcome) || outcome.refusal.code === UNSUPPORTED_OPERATION,
      observed: (target, refused, waitedMs, firstByteMs) => {
        const isFailure = refused !== undefined && own.covers(refused);
        errorRates.note(target, isFailure);
        if (refused !== undefined) {
          if (isFailure) {
            latencies.observe(target, kind, Math.max(FAILED_MS, waitedMs));
            if (target === allowedCandidates[0]?.target) balance.firstFailed(selections, sessionId);
          }
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
      // A request that names a provider always means a model of that provider.
      const model = request.provider === undefined ? virtualModels.redirects.get(request.selector) : undefined;
      if (model === undefined) {
        const target = direct(request);
        return target instanceof Promise ? target.then(oneTarget) : oneTarget(target);
      }
      const selections: Selection[] = [];
      const balanced = balancedBy(request, (selection) => selections.push(selection));
      const found = led(model, request, balanced);
      return found instanceof Promise
        ? found.then((one) => routeOf(model, one, balanced, selections))
        : routeOf(model, found, balanced, selections);
    },
    reach(request) {
      const model = request.provider === undefined ? virtualModels.redirects.get(request.selector) : undefined;
      if (model === undefined) {
        const target = direct(request);
        return target instanceof Promise ? target.then((one) => [one]) : [target];
      }
      const found = led(model, request);
      return found instanceof Promise ? found.then(targetsOf) : targetsOf(found);
    },
  };
}

/** A route with a single candidate. */
export function oneTarget(target: Target): Route {
  return { candidates: [target], ready: 1, through: [], failsOver: never };
}

function never(): boolean {
  return false;
}

function balancedBy(request: RouteRequest, selected: Balanced['selected']): Balanced {
  const { selector, caller, labels, sessionId, stream } = request;
  return { selector, userPath: caller.userPath, labels, sessionId, kind: stream ? 'stream' : 'whole', selected };
}

function isForCaller({ userPaths }: VirtualModel, { origin, userPath }: ReachRequest['caller']): boolean {
  return origin === 'plugin' || isFor(userPaths, userPath);
}

function targetsOf({ candidates }: Expanded): readonly Target[] {
  return candidates.map(({ target }) => target);
}

/** After which failures of one model another is called. Pure. */
interface FailoverPolicy {
  readonly enabled: boolean;
  /** Maximum number of models called for one request; 0 for all. */
  readonly maxModels: number;
  readonly statuses: readonly number[];
  /** Phrases of an error message, ignoring case; `*` stands for any text between two parts. */
  readonly phrases: readonly string[];
}

/**
 * Errors that another model may not have, although the status says that the request is at fault: the model does not
 * exist (any more), the conversation exceeds its context, or the credit at its provider is used up.
 */
export const defaultPhrases: readonly string[] = [
  'model_not_found',
  'model*not found',
  'model*does not exist',
  'model*not supported',
  'model*unsupported',
  'model*unavailable',
  'model*not available',
  'model*deprecated',
  'model*retired',
  'model*decommissioned',
  'model*disabled',
  'model*overloaded',
  'upstream*failed',
  'upstream*unavailable',
  'upstream*timed out',
  'context_length',
  'context length',
  'context window',
  'prompt is too long',
  'exceed*context size',
  'insufficient_quota',
  'exceeded*quota',
  'quota exceeded',
  'credit balance',
];

/** The rules of one virtual model: its own, completed by the global ones. */
export class FailoverRules {
  readonly enabled: boolean;
  readonly #statuses: ReadonlySet<number>;
  readonly #phrases: readonly (readonly string[])[];

  constructor(all: FailoverPolicy, own: FailoverSetting) {
    this.enabled = all.enabled && own.enabled;
    this.#statuses = new Set(own.statuses ?? all.statuses);
    this.#phrases = (own.phrases ?? all.phrases).map((phrase) =>
      phrase
        .toLowerCase()
        .split('*')
        .map((part) => part.trim())
        .filter((part) => part !== ''),
    );
  }

  /**
   * Failover always follows when a provider gave no answer or refused the gateway's credential, except when its
   * answer was too large.
   */
  covers({ status, failure, refusal }: RefusedTarget): boolean {
    if (status === undefined) return failure !== 'too_large';
    if (refusal.code === CREDENTIALS_REFUSED) return true;
    if (this.#statuses.has(status)) return true;
    if (this.#phrases.length === 0) return false;
    const errorText = `${refusal.code ?? ''} ${refusal.message}`.toLowerCase();
    return this.#phrases.some((parts) => has(errorText, parts));
  }
}

/** Whether the text contains the parts, one after another. */
function has(errorText: string, parts: readonly string[]): boolean {
  let from = 0;
  for (const part of parts) {
    const at = errorText.indexOf(part, from);
    if (at === -1) return false;
    from = at + part.length;
  }
  return true;
}
