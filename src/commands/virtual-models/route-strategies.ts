/** The route strategies that virtual models can use now. Plugins may add and remove theirs at any time. */
import type { RouteConfig, RouteStrategy } from './route-strategy.ts';
import type { VirtualModel } from './virtual-model.ts';

/** The strategy and its settings in the definition of a virtual model. */
export interface StrategyPlugin {
  readonly name: string;
  readonly config: RouteConfig;
}

/** Why a virtual model cannot use its strategy now. */
export interface StrategyProblem {
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
