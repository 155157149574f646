/**
 * Admits requests within the rate limits: those of the caller's user path and of the paths above it, and those of the
 * called provider and model. Requests count when they are admitted, tokens when their number is known. Everything is
 * in memory; `requests-elsewhere.ts` keeps it over a restart.
 */
import { LRUCache } from 'lru-cache';
import { pathsAbove } from '../../events/event.ts';
import type { SavedGauge } from '../../projections/limit-memory-store.ts';
import { rateLimitPeriodLabel } from '../limits/period.ts';
import type { Caller } from '../model-request/model-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { mayNameAmounts } from '../visibility.ts';
import { Gauge, type RateLimitRule } from './sliding-window.ts';

/** The rules in force. */
export interface RateLimitRules {
  /** Changes each time the rules change. */
  readonly changes: number;
  /** By a key that stays the same as long as the rule exists. */
  readonly rules: ReadonlyMap<string, RateLimitRule>;
}

/** The parts of a caller on which limits depend. */
type Limited = Pick<Caller, 'userPath' | 'key' | 'origin'>;

/** The gauges that a request passes. */
export type RequestGauges = readonly Gauge[];

const NONE: RequestGauges = [];
/** Maximum number of user paths whose gauges are cached. */
const MAX_CHAINS = 10_000;

export class RateLimiter {
  readonly #rules: () => RateLimitRules;
  readonly #now: () => number;
  #seen = -1;
  #gauges = new Map<string, Gauge>();
  /** By `<scope>:<subject>`. */
  #bySubject = new Map<string, Gauge[]>();
  readonly #chains = new LRUCache<string, RequestGauges>({ max: MAX_CHAINS });

  /** @param now milliseconds since the epoch */
  constructor(rules: () => RateLimitRules, now: () => number) {
    this.#rules = rules;
    this.#now = now;
  }

  /** Whether there are no rules. */
  get isOpen(): boolean {
    return this.#rules().rules.size === 0;
  }

  /**
   * The gauges of the caller's path and of the paths above it. A guardrail's own call is part of a request that holds
   * its place already: limits of concurrent requests do not count it. @throws Refusal 429 `rate_limit_exceeded`
   */
  admit(caller: Limited, at: number): RequestGauges {
    this.#follow();
    const all = this.#chain(caller.userPath ?? '/');
    const chain = caller.origin === 'plugin' ? all.filter(({ rule }) => rule.periodSeconds > 0) : all;
    const refusal = refusalOf(chain, caller, at);
    if (refusal !== undefined) throw refusal;
    countRequest(chain, at);
    return chain;
  }

  /** Counts a request without duration in the periods of the path and of the paths above it. @throws Refusal 429 */
  pass(caller: Limited, at: number): void {
    this.#follow();
    const periods = this.#chain(caller.userPath ?? '/').filter(({ rule }) => rule.periodSeconds > 0);
    const refusal = refusalOf(periods, caller, at);
    if (refusal !== undefined) throw refusal;
    for (const gauge of periods) gauge.countRequest(at);
  }

  /** The gauges of the provider and of the model. @returns a refusal when one of them has no room */
  enter(target: Target, caller: Limited, at: number): RequestGauges | Refusal {
    this.#follow();
    const gauges = this.#of(target);
    const refusal = refusalOf(gauges, caller, at);
    if (refusal !== undefined) return refusal;
    countRequest(gauges, at);
    return gauges;
  }

  leave(gauges: RequestGauges): void {
    for (const gauge of gauges) gauge.leave();
  }

  /** Removes a request for which no target could be called. @param at when it was admitted */
  revert(gauges: RequestGauges, at: number): void {
    for (const gauge of gauges) gauge.revertRequest(at);
  }

  countTokens(gauges: RequestGauges, tokens: number): void {
    const at = this.#now();
    for (const gauge of gauges) gauge.countTokens(at, tokens);
  }

  hasRoom(target: Target): boolean {
    this.#follow();
    const at = this.#now();
    return this.#of(target).every((gauge) => gauge.msUntilRoom(at) === 0);
  }

  /** The gauges of the path and of the paths above it, without passing them. */
  on(userPath: string): RequestGauges {
    this.#follow();
    return this.#chain(userPath);
  }

  /** The counts of a rule, by the rule's key. */
  gauge(key: string): Gauge | undefined {
    this.#follow();
    return this.#gauges.get(key);
  }

  /**
   * Takes places for a request that another gateway has admitted, also where there is no room.
   * @param at when it counts in the periods; undefined when it is counted there
   * @returns its places, to be left at its end
   */
  enterElsewhere(
    { userPath, isAuxiliary, target }: { userPath?: string; isAuxiliary?: boolean; target?: Names },
    at: number | undefined,
  ): RequestGauges {
    this.#follow();
    const all = target === undefined ? this.#chain(userPath ?? '/') : this.#named(target.provider, target.model);
    const gauges = isAuxiliary === true ? all.filter(({ rule }) => rule.periodSeconds > 0) : all;
    for (const gauge of gauges) {
      if (at === undefined) gauge.occupy();
      else gauge.enter(at);
    }
    return gauges;
  }

  /** Counts a request or tokens from before the restart. */
  recount(what: {
    readonly at: number;
    readonly userPath?: string;
    readonly target?: Names;
    readonly tokens?: number;
  }) {
    this.#follow();
    const { at, userPath, target, tokens } = what;
    const above = userPath === undefined ? NONE : this.#chain(userPath);
    const targetGauges = target === undefined ? NONE : this.#named(target.provider, target.model);
    for (const gauges of [above, targetGauges]) {
      for (const gauge of gauges) {
        if (tokens === undefined) gauge.countRequest(at);
        else gauge.countTokens(at, tokens);
      }
    }
  }

  save(): SavedGauge[] {
    this.#follow();
    return [...this.#gauges].map(([key, gauge]) => gauge.save(key));
  }

  restore(saved: readonly SavedGauge[]): void {
    this.#follow();
    for (const one of saved) this.#gauges.get(one.key)?.restore(one);
  }

  #follow(): void {
    const { changes, rules } = this.#rules();
    if (changes === this.#seen) return;
    this.#seen = changes;
    const before = this.#gauges;
    this.#gauges = new Map();
    for (const [key, rule] of rules) {
      const gauge = before.get(key) ?? new Gauge(rule);
      gauge.follow(rule);
      this.#gauges.set(key, gauge);
    }
    this.#bySubject = Map.groupBy(this.#gauges.values(), ({ rule }) => `${rule.scope}:${rule.subject}`);
    this.#chains.clear();
  }

  #chain(userPath: string): RequestGauges {
    let chain = this.#chains.get(userPath);
    if (chain === undefined) {
      chain = pathsAbove(userPath).flatMap((path) => this.#bySubject.get(`user_path:${path}`) ?? NONE);
      this.#chains.set(userPath, chain);
    }
    return chain;
  }

  #of({ provider, model }: Target): RequestGauges {
    return this.#named(provider.name, model);
  }

  #named(provider: string, model: string): RequestGauges {
    const ofProvider = this.#bySubject.get(`provider:${provider}`);
    const exactly = this.#bySubject.get(`model:${provider}/${model}`);
    const byModel = this.#bySubject.get(`model:${model}`);
    if (ofProvider === undefined && exactly === undefined && byModel === undefined) return NONE;
    return [...(ofProvider ?? NONE), ...(exactly ?? NONE), ...(byModel ?? NONE)];
  }
}

interface Names {
  readonly provider: string;
  readonly model: string;
}

/** The refusal of the full gauge that takes longest to have room again; undefined when all have room. */
function refusalOf(gauges: RequestGauges, caller: Limited, at: number): Refusal | undefined {
  let full: Gauge | undefined;
  let longest = 0;
  for (const gauge of gauges) {
    const wait = gauge.msUntilRoom(at);
    if (wait > longest) {
      full = gauge;
      longest = wait;
    }
  }
  if (full === undefined) return undefined;
  const message = messageOf(full.rule, mayNameAmounts(caller, full.rule));
  return refusals.rateLimitExceeded(message, Math.ceil(longest / 1000));
}

function countRequest(gauges: RequestGauges, at: number): void {
  for (const gauge of gauges) gauge.enter(at);
}

const SCOPES = { user_path: 'user path', provider: 'provider', model: 'model' };

function messageOf(
  { scope, subject, periodSeconds, maxRequests, maxTokens }: RateLimitRule,
  namesAmounts: boolean,
): string {
  const subjectReached = `The rate limit of the ${SCOPES[scope]} '${subject}' is reached`;
  if (!namesAmounts) return `${subjectReached}.`;
  if (periodSeconds === 0) return `${subjectReached}: ${maxRequests} requests at the same time.`;
  const limits = [
    ...(maxRequests === null ? [] : [`${maxRequests} requests`]),
    ...(maxTokens === null ? [] : [`${maxTokens} tokens`]),
  ];
  return `${subjectReached}: ${limits.join(' and ')} per ${rateLimitPeriodLabel(periodSeconds)}.`;
}
