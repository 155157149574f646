/** The order in which the targets of a virtual model are called. */
import type { Branch } from './expand.ts';
import type { AnswerKind, Latencies } from './latencies.ts';
import { placeOf } from './rendezvous.ts';
import { RoundRobin } from './round-robin.ts';
import type { VirtualModel, VirtualTarget } from './virtual-model.ts';

/** The cost of a model, as a number to compare; undefined when its price is unknown. */
export type PriceOf = (provider: string, model: string) => number | undefined;

export interface BalanceOptions {
  readonly priceOf: PriceOf;
  readonly latencies: Latencies;
  /** From 0, inclusive, to 1, exclusive. */
  random(): number;
}

export interface Balanced {
  readonly sessionId: string | undefined;
  readonly kind: AnswerKind;
}

/** Share of requests for which the adaptive strategy tries a target other than the fastest, since latencies change. */
const EXPLORATION_SHARE = 0.1;

export class Balance {
  readonly #options: BalanceOptions;
  /** Keyed by the virtual model object: a changed virtual model starts again. */
  readonly #turns = new WeakMap<VirtualModel, RoundRobin<VirtualTarget>>();

  constructor(options: BalanceOptions) {
    this.#options = options;
  }

  /**
   * The chosen branch first, the others in the order of the strategy; branches without a ready candidate come last.
   * @param branches at least two
   * @param isTurn whether the first branch is really called first, which uses up its turn
   */
  arrange(model: VirtualModel, branches: readonly Branch[], request: Balanced, isTurn: boolean): readonly Branch[] {
    const ready = branches.filter(isReady);
    const among = ready.length === 0 ? branches : ready;
    const arranged = this.#inOrder(model, among, request, isTurn);
    return among.length === branches.length ? arranged : [...arranged, ...branches.filter((one) => !isReady(one))];
  }

  #inOrder(model: VirtualModel, among: readonly Branch[], request: Balanced, isTurn: boolean): readonly Branch[] {
    if (among.length < 2) return among;
    switch (model.strategy) {
      case 'failover':
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
