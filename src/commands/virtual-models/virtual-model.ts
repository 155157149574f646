/**
 * A virtual model: under a name of its own it leads to one or several other models. Without targets, it is a policy
 * that states who may use the models of its selector.
 */

import { z } from 'zod';
import { strategies } from '../../events/catalogue/workflow.ts';
import type { UserPath } from '../../events/event.ts';

export { strategies };

/** How one of several targets is chosen. */
type Strategy = (typeof strategies)[number];

export interface VirtualTarget {
  /**
   * A provider's name or type, which pins the model to it. Default: another virtual model, or any provider that
   * serves it.
   */
  readonly provider?: string | undefined;
  readonly model: string;
  /** A positive share relative to the other targets; default 1. */
  readonly weight?: number | undefined;
}

export interface FailoverSetting {
  readonly enabled: boolean;
  /** Replaces the global setting. */
  readonly statuses?: readonly number[] | undefined;
  readonly phrases?: readonly string[] | undefined;
}

export interface VirtualModel {
  /** The name that clients use; for a policy, a canonical selector. */
  readonly source: string;
  /** Empty for a policy. */
  readonly targets: readonly VirtualTarget[];
  readonly strategy: Strategy;
  /** The route strategy; present exactly when `strategy` is `plugin`. */
  readonly plugin?: { readonly name: string; readonly config: RouteConfig } | undefined;
  /** Whether a session stays with its target. */
  readonly sessionAffinity: boolean;
  readonly failover: FailoverSetting;
  /** The paths that may use it, each with all paths below; empty for all callers. */
  readonly userPaths: readonly string[];
  readonly enabled: boolean;
  readonly description?: string | undefined;
}

/** Maximum number of virtual models in a chain. */
export const MAX_DEPTH = 8;

/** Whether it has targets; if not, it is a policy. */
export function isRedirect({ targets }: VirtualModel): boolean {
  return targets.length > 0;
}

/** Whether the paths include a caller at this path. A caller without a path counts as the root. */
export function isFor(userPaths: readonly string[], userPath: UserPath | undefined): boolean {
  if (userPaths.length === 0) return true;
  const path = userPath ?? '/';
  return userPaths.some((one) => one === '/' || path === one || (path.startsWith(one) && path[one.length] === '/'));
}

/** The virtual model that a target may name: never the model itself, whose name then means a provider's model. */
export function chainedName({ source }: VirtualModel, { provider, model }: VirtualTarget): string | undefined {
  return provider === undefined && model !== source ? model : undefined;
}

// A strategy that selects the target of a virtual model which is called first. It gets plain values and returns plain
// values, so that it can run in another process.

/** A field of the editor of virtual models, as `GET /admin/plugins` returns it. */
interface RouteField {
  readonly key: string;
  readonly label: string;
  readonly input: 'text' | 'textarea' | 'number' | 'select';
  readonly required: boolean;
  readonly help?: string;
  readonly placeholder?: string;
  readonly options?: readonly { readonly value: string; readonly label: string }[];
  readonly scope: 'route';
}

export type RouteConfig = Readonly<Record<string, unknown>>;

/** A configuration that was validated and completed, or why it is invalid. */
type ReadRouteConfig =
  | { readonly ok: true; readonly config: RouteConfig }
  | {
      readonly ok: false;
      readonly problem: string;
      /** The key at fault, when it is known. */
      readonly key?: string;
    };

/** What is known about a target when it is selected. */
export interface RouteTarget {
  readonly provider: string;
  readonly model: string;
  readonly weight: number;
  /** US dollars for a million input and a million output tokens; null when the price is unknown. */
  readonly price: number | null;
  /** False only when no target is healthy. */
  readonly healthy: boolean;
  /** Share of failed calls in the last minute, from 0 to 1. Fewer than five calls count as five. */
  readonly errorRate: number;
  /** Expected milliseconds to the first byte; null when it was not measured in the last five minutes. */
  readonly latencyMs: number | null;
}

export interface RouteQuestion {
  /** The model as the client wrote it. */
  readonly selector: string;
  /** The virtual model whose target is selected. */
  readonly virtualModel: string;
  readonly userPath: string | null;
  readonly labels: readonly string[];
  readonly sessionId: string | null;
  readonly stream: boolean;
  /** At least two, in the declared order: the healthy ones, or all of them when none is healthy. */
  readonly targets: readonly RouteTarget[];
}

export interface RouteSelection {
  /** The place in `targets` of the target to call first. */
  readonly index: number;
  /** One line that explains the selection; recorded with the request, at most 200 characters. */
  readonly reason?: string;
}

export interface RouteStrategy {
  /** Letters, digits, `_`, `-` and `.`. */
  readonly name: string;
  readonly label: string;
  readonly description: string;
  readonly routeFields: readonly RouteField[];
  /** The plugin that it comes from. Undefined: built in. */
  readonly source?: string;
  readConfig(config: RouteConfig): ReadRouteConfig;
  /**
   * A selection that takes more than 250 ms, throws, or has an unknown index is replaced by weighted round robin.
   * A strategy that returns no promise adds no wait to the request.
   * @param config as `readConfig` returned it
   * @param signal aborted when the selection is no longer needed
   */
  select(config: RouteConfig, question: RouteQuestion, signal: AbortSignal): RouteSelection | Promise<RouteSelection>;
}

// The route strategies that virtual models can use now. Plugins may add and remove theirs at any time.

/** The strategy and its settings in the definition of a virtual model. */
export interface StrategyPlugin {
  readonly name: string;
  readonly config: RouteConfig;
}

/** Why a virtual model cannot use its strategy now. */
interface StrategyProblem {
  readonly kind: 'not_loaded' | 'invalid_config';
  readonly message: string;
  /** The key of the configuration at fault, when it is known. */
  readonly key?: string;
}

export interface ReadyStrategy {
  readonly strategy: RouteStrategy;
  readonly config: RouteConfig;
}

/** Strategies by name, to validate definitions. */
export interface KnownStrategies {
  has(name: string): boolean;
  names(): readonly string[];
  problem(plugin: StrategyPlugin): StrategyProblem | undefined;
}

export class RouteStrategies implements KnownStrategies {
  readonly #byName = new Map<string, RouteStrategy>();
  /** Configurations that were read with the strategy that is loaded now. */
  #ready = new WeakMap<VirtualModel, ReadyStrategy | StrategyProblem>();

  constructor(builtIn: readonly RouteStrategy[] = []) {
    for (const one of builtIn) this.add(one);
  }

  /** @throws Error when a strategy of this name exists */
  add(strategy: RouteStrategy): void {
    if (this.#byName.has(strategy.name)) throw new Error(`a route strategy named '${strategy.name}' exists already`);
    this.#byName.set(strategy.name, strategy);
    this.#ready = new WeakMap();
  }

  /** Virtual models that use it fall back to weighted round robin from the next request on. */
  remove(name: string): void {
    if (this.#byName.delete(name)) this.#ready = new WeakMap();
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** Sorted. */
  names(): readonly string[] {
    return [...this.#byName.keys()].sort();
  }

  list(): readonly RouteStrategy[] {
    return this.names().flatMap((name) => this.#byName.get(name) ?? []);
  }

  problem(plugin: StrategyPlugin): StrategyProblem | undefined {
    const ready = this.#read(plugin);
    return 'kind' in ready ? ready : undefined;
  }

  /** The strategy of a virtual model with its configuration, which is read once. */
  of(model: VirtualModel, plugin: StrategyPlugin): ReadyStrategy | StrategyProblem {
    const known = this.#ready.get(model);
    if (known !== undefined) return known;
    const ready = this.#read(plugin);
    this.#ready.set(model, ready);
    return ready;
  }

  #read({ name, config }: StrategyPlugin): ReadyStrategy | StrategyProblem {
    const strategy = this.#byName.get(name);
    if (strategy === undefined) {
      return { kind: 'not_loaded', message: `No route strategy named '${name}' is loaded.` };
    }
    const read = strategy.readConfig(config);
    if (read.ok) return { strategy, config: read.config };
    const message = `The configuration of the route strategy '${name}' is invalid: ${read.problem}`;
    return { kind: 'invalid_config', message, ...(read.key === undefined ? {} : { key: read.key }) };
  }
}

/**
 * The built-in route strategy `cheapest_healthy`: the cheapest or the fastest target among those whose recent error
 * rate is acceptable. Deterministic: equal facts lead to an equal selection.
 */
const settings = z.strictObject({
  prefer: z.enum(['cheapest', 'fastest']).default('cheapest'),
  max_error_rate: z.number().min(0).max(1).default(0.2),
});

export const cheapestHealthy: RouteStrategy = {
  name: 'cheapest_healthy',
  label: 'Cheapest healthy target',
  description:
    'Selects the cheapest (or fastest) target whose share of failed calls in the last minute is at most max_error_rate.',
  routeFields: [
    {
      key: 'prefer',
      label: 'Prefer',
      input: 'select',
      required: false,
      options: [
        { value: 'cheapest', label: 'the cheapest target' },
        { value: 'fastest', label: 'the fastest target' },
      ],
      scope: 'route',
    },
    {
      key: 'max_error_rate',
      label: 'Maximum error rate',
      input: 'number',
      required: false,
      help: 'From 0 to 1. Targets with more failed calls in the last minute are selected only when all have more.',
      placeholder: '0.2',
      scope: 'route',
    },
  ],
  readConfig(config) {
    const read = settings.safeParse(config);
    if (read.success) return { ok: true, config: read.data };
    const [issue] = read.error.issues;
    const key = issue?.path[0] ?? (issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined);
    const problem = key === undefined ? 'it must be an object.' : `'${String(key)}': ${issue?.message}`;
    return { ok: false, problem, ...(typeof key === 'string' ? { key } : {}) };
  },
  select,
};

function select(config: RouteConfig, { targets }: RouteQuestion): RouteSelection {
  const { prefer, max_error_rate: max } = settings.parse(config);
  const isAcceptable = ({ errorRate }: RouteTarget) => errorRate <= max;
  const acceptable = targets.some(isAcceptable);
  const compare = prefer === 'cheapest' ? byPrice : byLatency;
  let best: { target: RouteTarget; index: number } | undefined;
  for (const [index, target] of targets.entries()) {
    if (acceptable && !isAcceptable(target)) continue;
    const difference =
      best === undefined
        ? -1
        : (acceptable ? 0 : target.errorRate - best.target.errorRate) || compare(target, best.target);
    if (difference < 0) best = { target, index };
  }
  const among = acceptable ? `with an error rate of at most ${max}` : `with the lowest error rate, all above ${max}`;
  return { index: best?.index ?? 0, reason: `${prefer} target ${among}` };
}

/** Unknown prices last; of equal prices the shorter latency first. */
function byPrice(one: RouteTarget, other: RouteTarget): number {
  return (
    ascending(one.price ?? Number.POSITIVE_INFINITY, other.price ?? Number.POSITIVE_INFINITY) || byKnown(one, other)
  );
}

/** Targets that were not measured recently first, so that each is measured; of equal latencies the cheaper first. */
function byLatency(one: RouteTarget, other: RouteTarget): number {
  return (
    ascending(one.latencyMs ?? 0, other.latencyMs ?? 0) ||
    ascending(one.price ?? Number.POSITIVE_INFINITY, other.price ?? Number.POSITIVE_INFINITY)
  );
}

function byKnown(one: RouteTarget, other: RouteTarget): number {
  return ascending(one.latencyMs ?? Number.POSITIVE_INFINITY, other.latencyMs ?? Number.POSITIVE_INFINITY);
}

function ascending(one: number, other: number): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
