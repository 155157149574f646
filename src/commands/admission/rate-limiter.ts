/**
 * Admits requests within the rate limits: those of the caller's user path and of the paths above it, and those of the
 * called provider and model. Requests count when they are admitted, tokens when their number is known. Everything is
 * in memory; `requests-elsewhere.ts` keeps it over a restart.
 */
import { LRUCache } from 'lru-cache';
import { pathsAbove } from '../../events/event.ts';
import type { SavedCounts } from '../../projections/limit-memory-store.ts';
import { rateLimitPeriodLabel } from '../limits/period.ts';
import type { Caller } from '../model-request/model-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { mayNameAmounts } from '../visibility.ts';
import { type RateLimitRule, RuleCounts } from './sliding-window.ts';

/** The rules in force. */
export interface RateLimitRules {
  /** Changes each time the rules change. */
  readonly changes: number;
  /** By a key that stays the same as long as the rule exists. */
  readonly rules: ReadonlyMap<string, RateLimitRule>;
}

/** The parts of a caller on which limits depend. */
type Limited = Pick<Caller, 'userPath' | 'key' | 'origin'>;

/** The counts that a request passes. */
export type RequestCounts = readonly RuleCounts[];

const NONE: RequestCounts = [];
/** Maximum number of user paths whose rules are cached. `max` would allocate them at once. */
const MAX_CHAINS = 10_000;
/** Maximum number of models whose rules are cached. */
const MAX_TARGETS = 1000;

export class RateLimiter {
  readonly #rules: { readonly state: RateLimitRules };
  readonly #now: () => number;
  #seen = -1;
  #ruleCounts = new Map<string, RuleCounts>();
  /** By `<scope>:<subject>`. */
  #bySubject = new Map<string, RuleCounts[]>();
  readonly #chains = new LRUCache<string, RequestCounts>({ maxSize: MAX_CHAINS, sizeCalculation: () => 1 });
  readonly #ofTargets = new LRUCache<string, RequestCounts>({ max: MAX_TARGETS });

  /** @param now milliseconds since the epoch */
  constructor(rules: { readonly state: RateLimitRules }, now: () => number) {
    this.#rules = rules;
    this.#now = now;
  }

  /** Whether there are no rules. */
  get isOpen(): boolean {
    return this.#rules.state.rules.size === 0;
  }

  /**
   * The counts of the rules of the caller's path and of the paths above it. A guardrail's own call is part of a request that holds
   * its place already: limits of concurrent requests do not count it. @throws Refusal 429 `rate_limit_exceeded`
   */
  admit(caller: Limited, at: number): RequestCounts {
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
    for (const counts of periods) counts.countRequest(at);
  }

  /** The counts of the rules of the provider and of the model. @returns a refusal when one of them has no room */
  enter(target: Target, caller: Limited, at: number): RequestCounts | Refusal {
    this.#follow();
    const ruleCounts = this.#of(target);
    const refusal = refusalOf(ruleCounts, caller, at);
    if (refusal !== undefined) return refusal;
    countRequest(ruleCounts, at);
    return ruleCounts;
  }

  leave(ruleCounts: RequestCounts): void {
    for (const counts of ruleCounts) counts.leave();
  }

  /** Removes a request for which no target could be called. @param at when it was admitted */
  revert(ruleCounts: RequestCounts, at: number): void {
    for (const counts of ruleCounts) counts.revertRequest(at);
  }

  countTokens(ruleCounts: RequestCounts, tokens: number): void {
    const at = this.#now();
    for (const counts of ruleCounts) counts.countTokens(at, tokens);
  }

  hasRoom(target: Target): boolean {
    this.#follow();
    const at = this.#now();
    return this.#of(target).every((counts) => counts.msUntilRoom(at) === 0);
  }

  /** The counts of the rules of the path and of the paths above it, without passing them. */
  on(userPath: string): RequestCounts {
    this.#follow();
    return this.#chain(userPath);
  }

  /** The counts of a rule, by the rule's key. */
  counts(key: string): RuleCounts | undefined {
    this.#follow();
    return this.#ruleCounts.get(key);
  }

  /**
   * Takes places for a request that another gateway has admitted, also where there is no room.
   * @param at when it counts in the periods; undefined when it is counted there
   * @returns its places, to be left at its end
   */
  enterElsewhere(
    { userPath, isAuxiliary, target }: { userPath?: string; isAuxiliary?: boolean; target?: Names },
    at: number | undefined,
  ): RequestCounts {
    this.#follow();
    const all = target === undefined ? this.#chain(userPath ?? '/') : this.#named(target.provider, target.model);
    const ruleCounts = isAuxiliary === true ? all.filter(({ rule }) => rule.periodSeconds > 0) : all;
    for (const counts of ruleCounts) {
      if (at === undefined) counts.occupy();
      else counts.enter(at);
    }
    return ruleCounts;
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
    const targetCounts = target === undefined ? NONE : this.#named(target.provider, target.model);
    for (const ruleCounts of [above, targetCounts]) {
      for (const counts of ruleCounts) {
        if (tokens === undefined) counts.countRequest(at);
        else counts.countTokens(at, tokens);
      }
    }
  }

  save(): SavedCounts[] {
    this.#follow();
    return [...this.#ruleCounts].map(([key, counts]) => counts.save(key));
  }

  restore(saved: readonly SavedCounts[]): void {
    this.#follow();
    for (const one of saved) this.#ruleCounts.get(one.key)?.restore(one);
  }

  #follow(): void {
    const { changes, rules } = this.#rules.state;
    if (changes === this.#seen) return;
    this.#seen = changes;
    const before = this.#ruleCounts;
    this.#ruleCounts = new Map();
    for (const [key, rule] of rules) {
      const counts = before.get(key) ?? new RuleCounts(rule);
      counts.follow(rule);
      this.#ruleCounts.set(key, counts);
    }
    this.#bySubject = Map.groupBy(this.#ruleCounts.values(), ({ rule }) => `${rule.scope}:${rule.subject}`);
    this.#chains.clear();
    this.#ofTargets.clear();
  }

  #chain(userPath: string): RequestCounts {
    let chain = this.#chains.get(userPath);
    if (chain === undefined) {
      chain = pathsAbove(userPath).flatMap((path) => this.#bySubject.get(`user_path:${path}`) ?? NONE);
      this.#chains.set(userPath, chain);
    }
    return chain;
  }

  #of({ provider, model }: Target): RequestCounts {
    return this.#named(provider.name, model);
  }

  #named(provider: string, model: string): RequestCounts {
    const target = `${provider}/${model}`;
    let found = this.#ofTargets.get(target);
    if (found === undefined) {
      found = this.#withNames(provider, model);
      this.#ofTargets.set(target, found);
    }
    return found;
  }

  #withNames(provider: string, model: string): RequestCounts {
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

/** The refusal of the full rule that takes longest to have room again; undefined when all have room. */
function refusalOf(ruleCounts: RequestCounts, caller: Limited, at: number): Refusal | undefined {
  let full: RuleCounts | undefined;
  let longest = 0;
  for (const counts of ruleCounts) {
    const wait = counts.msUntilRoom(at);
    if (wait > longest) {
      full = counts;
      longest = wait;
    }
  }
  if (full === undefined) return undefined;
  const message = messageOf(full.rule, mayNameAmounts(caller, full.rule));
  return refusals.rateLimitExceeded(message, Math.ceil(longest / 1000));
}

function countRequest(ruleCounts: RequestCounts, at: number): void {
  for (const counts of ruleCounts) counts.enter(at);
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
