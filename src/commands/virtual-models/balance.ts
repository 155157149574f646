/** The order in which the targets of a virtual model are called. */

import { LRUCache } from 'lru-cache';
import type { Selection } from '../model-request/routing-types.ts';
import type { Branch } from './expand.ts';
import type { FallbackReason, RouteFallbacks } from './route-fallbacks.ts';
import type { AnswerKind, ErrorRates, Latencies } from './target-statistics.ts';
import type {
  ReadyStrategy,
  RouteQuestion,
  RouteSelection,
  RouteStrategies,
  StrategyPlugin,
  VirtualModel,
  VirtualTarget,
} from './virtual-model.ts';

/** The cost of a model, as a number to compare; undefined when its price is unknown. */
export type PriceOf = (provider: string, model: string) => number | undefined;

interface BalanceOptions {
  readonly priceOf: PriceOf;
  readonly latencies: Latencies;
  readonly errorRates: ErrorRates;
  readonly strategies: RouteStrategies;
  readonly fallbacks: RouteFallbacks;
  /** From 0, inclusive, to 1, exclusive. */
  random(): number;
}

export interface Balanced {
  readonly selector: string;
  readonly userPath: string | undefined;
  readonly labels: readonly string[] | undefined;
  readonly sessionId: string | undefined;
  readonly kind: AnswerKind;
  /** Called for each virtual model whose target a route strategy should select. */
  selected(selection: Selection): void;
}

/** Share of requests for which the adaptive strategy tries a target other than the fastest, since latencies change. */
const EXPLORATION_SHARE = 0.1;

export class Balance {
  readonly #options: BalanceOptions;
  /** Keyed by the virtual model object: a changed virtual model starts again. */
  readonly #turns = new WeakMap<VirtualModel, RoundRobin<VirtualTarget>>();
  readonly #sessions = new SessionTargets();

  constructor(options: BalanceOptions) {
    this.#options = options;
  }

  /**
   * The order in case everything before fails: no turn is used up, and no route strategy is called.
   * @param branches at least two
   */
  arrange(model: VirtualModel, branches: readonly Branch[], request: Balanced): readonly Branch[] {
    const among = readyAmong(branches);
    return withUnready(branches, this.#inOrder(model, among, request, false));
  }

  /**
   * The chosen branch, which is really called first, before the others in the order of the strategy; branches without
   * a ready candidate come last. Waits only for a route strategy that returns a promise, at most 250 ms.
   * @param branches at least two
   */
  choose(
    model: VirtualModel,
    branches: readonly Branch[],
    request: Balanced,
  ): readonly Branch[] | Promise<readonly Branch[]> {
    const among = readyAmong(branches);
    if (model.plugin === undefined || among.length < 2) {
      return withUnready(branches, this.#inOrder(model, among, request, true));
    }
    const arranged = this.#byPlugin(model, model.plugin, among, request);
    if (arranged instanceof Promise) return arranged.then((one) => withUnready(branches, one));
    return withUnready(branches, arranged);
  }

  /** A target that failed is not kept for its session: the next request gets a new selection. */
  firstFailed(selections: readonly Selection[], sessionId: string | undefined): void {
    if (sessionId === undefined) return;
    for (const { virtualModel } of selections) this.#sessions.forget(virtualModel, sessionId);
  }

  #byPlugin(
    model: VirtualModel,
    plugin: StrategyPlugin,
    among: readonly Branch[],
    request: Balanced,
  ): readonly Branch[] | Promise<readonly Branch[]> {
    const session = model.sessionAffinity ? request.sessionId : undefined;
    const kept = session === undefined ? undefined : this.#sessions.of(model, session);
    const keptAt = kept === undefined ? -1 : among.findIndex(({ target }) => target === kept);
    const note = (place: number, by: Selection['by'], reason?: string) => {
      const target = selectorOf(among[place]);
      const facts = { virtualModel: model.source, strategy: plugin.name, by, target };
      request.selected(reason === undefined ? facts : { ...facts, reason });
      return withFirst(among, place);
    };
    if (keptAt !== -1) return note(keptAt, 'session');
    const arranged = (selected: Selected): readonly Branch[] => {
      if ('fallback' in selected) {
        const place = this.#session(model, among, request) ?? this.#turn(model, among);
        return note(place, 'fallback', selected.fallback);
      }
      const target = among[selected.place]?.target;
      if (session !== undefined && target !== undefined) this.#sessions.keep(model, session, target);
      return note(selected.place, 'strategy', selected.reason);
    };
    const selected = selectTarget(model, plugin, () => this.#question(model, among, request), this.#options);
    return selected instanceof Promise ? selected.then(arranged) : arranged(selected);
  }

  #question(model: VirtualModel, among: readonly Branch[], request: Balanced): RouteQuestion {
    const { selector, userPath = null, labels = [], sessionId = null, kind } = request;
    const { latencies, errorRates } = this.#options;
    const targets = among.map((branch) => {
      const target = branch.candidates[0]?.target;
      return {
        provider: target?.provider.name ?? '',
        model: target?.model ?? branch.target.model,
        weight: branch.target.weight ?? 1,
        price: this.#price(branch) ?? null,
        healthy: isReady(branch),
        errorRate: target === undefined ? 0 : errorRates.of(target),
        latencyMs: (target && latencies.recent(target, kind)) ?? null,
      };
    });
    const stream = kind === 'stream';
    return { selector, virtualModel: model.source, userPath, labels, sessionId, stream, targets };
  }

  #inOrder(model: VirtualModel, among: readonly Branch[], request: Balanced, isTurn: boolean): readonly Branch[] {
    if (among.length < 2) return among;
    switch (model.strategy) {
      case 'failover':
      case 'plugin':
        return among;
      case 'cost':
        return sortedBy(among, (branch) => this.#price(branch));
      case 'round_robin':
        return withFirst(among, this.#session(model, among, request) ?? (isTurn ? this.#turn(model, among) : 0));
      case 'adaptive': {
        const sorted = sortedBy(among, (branch) => this.#expected(branch, request));
        const own = this.#session(model, among, request);
        const chosen = own === undefined && isTurn ? this.#quick(model, among, request) : among[own ?? -1];
        return chosen === undefined ? sorted : [chosen, ...sorted.filter((one) => one !== chosen)];
      }
    }
  }

  /** The index of the session's branch; undefined for a request without a session. */
  #session(model: VirtualModel, among: readonly Branch[], { sessionId }: Balanced): number | undefined {
    if (!model.sessionAffinity || sessionId === undefined) return undefined;
    return placeOf(
      sessionId,
      among.map(({ target }) => ({ key: keyOf(target), weight: target.weight ?? 1 })),
    );
  }

  #turn(model: VirtualModel, among: readonly Branch[]): number {
    let turns = this.#turns.get(model);
    if (turns === undefined) {
      turns = new RoundRobin();
      this.#turns.set(model, turns);
    }
    return turns.next(among.map(({ target }) => ({ entry: target, weight: target.weight ?? 1 })));
  }

  /**
   * Sometimes a random branch to measure; while no latency is known, the next one in turn. Undefined means the
   * fastest.
   */
  #quick(model: VirtualModel, among: readonly Branch[], request: Balanced): Branch | undefined {
    const unknown = among.filter((branch) => this.#expected(branch, request) === undefined);
    if (unknown.length === among.length) return among[this.#turn(model, among)];
    const { random } = this.#options;
    if (random() >= EXPLORATION_SHARE) return undefined;
    const tried = unknown.length === 0 ? among : unknown;
    return tried[Math.floor(random() * tried.length)];
  }

  #expected({ candidates }: Branch, { kind }: Balanced): number | undefined {
    const [first] = candidates;
    return first && this.#options.latencies.expected(first.target, kind);
  }

  #price({ candidates }: Branch): number | undefined {
    const [first] = candidates;
    return first && this.#options.priceOf(first.target.provider.name, first.target.model);
  }
}

/** The ready branches; all of them when none is ready. */
function readyAmong(branches: readonly Branch[]): readonly Branch[] {
  const ready = branches.filter(isReady);
  return ready.length === 0 ? branches : ready;
}

function withUnready(branches: readonly Branch[], arranged: readonly Branch[]): readonly Branch[] {
  if (arranged.length === branches.length) return arranged;
  return [...arranged, ...branches.filter((one) => !isReady(one))];
}

function isReady({ candidates }: Branch): boolean {
  return candidates[0]?.ready === true;
}

function keyOf({ provider = '', model }: VirtualTarget): string {
  return `${provider}/${model}`;
}

function withFirst(among: readonly Branch[], place: number): readonly Branch[] {
  const chosen = among[place];
  return place === 0 || chosen === undefined ? among : [chosen, ...among.filter((one) => one !== chosen)];
}

/** Ascending, unknown values last; stable for equal values. */
function sortedBy(among: readonly Branch[], by: (branch: Branch) => number | undefined): readonly Branch[] {
  return among
    .map((branch) => ({ branch, value: by(branch) ?? Number.POSITIVE_INFINITY }))
    .sort((a, b) => (a.value === b.value ? 0 : a.value - b.value))
    .map(({ branch }) => branch);
}

// Lets the route strategy of a virtual model select a target, within a time limit.

/** Milliseconds after which a selection is late. */
const SELECTION_LIMIT_MS = 250;
const MAX_REASON = 200;

/** A place among the branches, or why there is none. */
type Selected = { readonly place: number; readonly reason: string | undefined } | { readonly fallback: FallbackReason };

interface SelectOptions {
  readonly strategies: RouteStrategies;
  readonly fallbacks: RouteFallbacks;
}

/** A promise only when the strategy returns one; never throws and never rejects. Fallbacks are counted. */
function selectTarget(
  model: VirtualModel,
  plugin: StrategyPlugin,
  question: () => RouteQuestion,
  { strategies, fallbacks }: SelectOptions,
): Selected | Promise<Selected> {
  const counted = (selected: Selected): Selected => {
    if ('fallback' in selected) fallbacks.note(plugin.name, selected.fallback);
    return selected;
  };
  const ready = strategies.of(model, plugin);
  if ('kind' in ready) return counted({ fallback: ready.kind });
  const selected = askStrategy(ready, question());
  return selected instanceof Promise ? selected.then(counted) : counted(selected);
}

function askStrategy({ strategy, config }: ReadyStrategy, question: RouteQuestion): Selected | Promise<Selected> {
  const ending = new AbortController();
  const count = question.targets.length;
  try {
    const selection = strategy.select(config, question, ending.signal);
    return selection instanceof Promise ? inTime(selection, count, ending) : checked(selection, count);
  } catch {
    return { fallback: 'failed' };
  }
}

function inTime(selection: Promise<RouteSelection>, count: number, ending: AbortController): Promise<Selected> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ fallback: 'late' });
      ending.abort();
    }, SELECTION_LIMIT_MS);
    const end = (selected: Selected) => {
      clearTimeout(timer);
      resolve(selected);
    };
    selection.then(
      (one) => end(checked(one, count)),
      () => end({ fallback: 'failed' }),
    );
  });
}

/** Plugins are not trusted to return the declared type. */
function checked(selection: RouteSelection | null | undefined, count: number): Selected {
  const { index, reason } = selection ?? {};
  if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= count) {
    return { fallback: 'unknown_target' };
  }
  return { place: index, reason: typeof reason === 'string' ? reason.slice(0, MAX_REASON) : undefined };
}

/** `<provider>/<model>` of the model that a branch calls first. */
function selectorOf(branch: Branch | undefined): string {
  const first = branch?.candidates[0]?.target;
  return first === undefined ? '' : `${first.provider.name}/${first.model}`;
}

/** The targets that route strategies selected for sessions. In memory, bounded: the least recently used is dropped. `max` would allocate them at once. */
const MAX_SESSIONS = 10_000;

class SessionTargets {
  readonly #targets = new LRUCache<string, VirtualTarget>({ maxSize: MAX_SESSIONS, sizeCalculation: () => 1 });

  /** Another object than any target of the virtual model, when that was changed since. */
  of({ source }: VirtualModel, sessionId: string): VirtualTarget | undefined {
    return this.#targets.get(sessionKey(source, sessionId));
  }

  keep({ source }: VirtualModel, sessionId: string, target: VirtualTarget): void {
    this.#targets.set(sessionKey(source, sessionId), target);
  }

  /** The next request of the session gets a new selection. */
  forget(source: string, sessionId: string): void {
    this.#targets.delete(sessionKey(source, sessionId));
  }
}

function sessionKey(source: string, sessionId: string): string {
  return `${source}\0${sessionId}`;
}

// Assigns sessions to places by weighted rendezvous hashing (highest random weight): a session keeps its place as
// long as the place exists, places get sessions by their weights, and when one is removed only its own sessions move.

/** @param among never empty, in any order @returns the index in the list */
export function placeOf(session: string, among: readonly { readonly key: string; readonly weight: number }[]): number {
  let chosen = 0;
  let highest = Number.NEGATIVE_INFINITY;
  for (const [place, { key, weight }] of among.entries()) {
    const score = -weight / Math.log(fraction(`${session}\0${key}`));
    if (score > highest) {
      highest = score;
      chosen = place;
    }
  }
  return chosen;
}

/** The text's hash as a number strictly between 0 and 1: FNV-1a, followed by the final mix of MurmurHash3. */
function fraction(text: string): number {
  let hash = 0x811c9dc5;
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (((hash ^ (hash >>> 16)) >>> 0) + 0.5) / 2 ** 32;
}

/**
 * Turns by weight, distributed as evenly as possible (the "smooth weighted round robin" of nginx): each time, every
 * entry gains its weight; the entry with the most is chosen, and loses the sum of all gains. Over as many turns as
 * the sum of the weights, each entry is chosen exactly as often as its weight.
 */
export class RoundRobin<Entry> {
  readonly #weightSum = new Map<Entry, number>();

  /**
   * @param among never empty; an entry that is left out this time neither gains nor loses
   * @returns the index of the chosen entry
   */
  next(among: readonly { readonly entry: Entry; readonly weight: number }[]): number {
    let total = 0;
    let chosen = 0;
    let most = Number.NEGATIVE_INFINITY;
    for (const [place, { entry, weight }] of among.entries()) {
      const weightSum = (this.#weightSum.get(entry) ?? 0) + weight;
      this.#weightSum.set(entry, weightSum);
      total += weight;
      if (weightSum > most) {
        most = weightSum;
        chosen = place;
      }
    }
    const winner = among[chosen]?.entry;
    if (winner !== undefined) this.#weightSum.set(winner, most - total);
    return chosen;
  }
}
