/** Admission by budgets and rate limits. Without either, it costs two comparisons. */
import type { EpochMs } from '../../events/event.ts';
import type {
  Admission,
  AdmissionRequest,
  Charge,
  EarlierTokens,
  RecordedReservation,
  RequestReservation,
  ReservationOnLog,
} from '../model-request/admission.ts';
import type { Caller } from '../model-request/model-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import { countedTokens, type TokenUsage } from '../model-request/usage.ts';
import { Refusal } from '../refusal.ts';
import { mayReadAmounts, type ScopedKey } from '../visibility.ts';
import type { BudgetAdmission, BudgetReservation } from './budget-gate.ts';
import type { CostForecaster } from './cost-forecast.ts';
import type { RateLimiter, RequestCounts } from './rate-limiter.ts';
import type { SlidingWindow } from './sliding-window.ts';

export interface LimitAdmissionParts {
  readonly budgets: BudgetAdmission;
  readonly limits: RateLimiter;
  readonly forecaster: CostForecaster;
  now(): EpochMs;
  /** Called for every request that was refused, and for every target without room. */
  refused(refusal: Refusal): void;
}

export class LimitAdmission implements Admission {
  readonly #parts: LimitAdmissionParts;
  /** The running exchanges that are counted in a window. */
  readonly #open = new Set<string>();

  constructor(parts: LimitAdmissionParts) {
    this.#parts = parts;
  }

  /** Ids of the running exchanges that are counted in a window. */
  get open(): ReadonlySet<string> {
    return this.#open;
  }

  admit(
    request: AdmissionRequest,
    signal: AbortSignal,
  ): RequestReservation | undefined | Promise<RequestReservation | undefined> {
    const { budgets, limits, forecaster } = this.#parts;
    const isCounted = request.checksBudgets && !budgets.isOpen;
    if (!isCounted && limits.isOpen) return undefined;
    try {
      if (!isCounted) return this.#reserved(request, undefined);
      const admitted = budgets.admitWhenRoom(request, () => forecaster.forecast(request), signal);
      if (!(admitted instanceof Promise)) return this.#reserved(request, admitted.reservation);
      return admitted
        .then(({ reservation }) => this.#reserved(request, reservation))
        .catch((error) => this.#fail(error));
    } catch (error) {
      return this.#fail(error);
    }
  }

  #fail(error: unknown): never {
    if (error instanceof Refusal) this.#parts.refused(error);
    throw error;
  }

  /** @throws Refusal when the limits have no room */
  #reserved(request: AdmissionRequest, reservation: BudgetReservation | undefined): RequestReservation {
    const { limits, now } = this.#parts;
    try {
      const at = now();
      const path = limits.isOpen ? [] : limits.admit(request.caller, at);
      this.#open.add(request.exchangeId);
      return new LimitReservation(this.#parts, { request, at, path, reservation, open: this.#open });
    } catch (error) {
      reservation?.settle(false);
      throw error;
    }
  }

  admitRequest(caller: Pick<Caller, 'userPath' | 'key'>): void {
    const { limits, now } = this.#parts;
    if (limits.isOpen) return;
    try {
      limits.pass(caller, now());
    } catch (error) {
      this.#fail(error);
    }
  }

  hasRoom(target: Target): boolean {
    const { limits } = this.#parts;
    return limits.isOpen || limits.hasRoom(target);
  }
}

interface Admitted {
  readonly request: AdmissionRequest;
  /** When the request was admitted. */
  readonly at: number;
  readonly path: RequestCounts;
  readonly reservation: BudgetReservation | undefined;
  /** The running exchanges that are counted in a window. */
  readonly open: Set<string>;
}

class LimitReservation implements RequestReservation {
  readonly #parts: LimitAdmissionParts;
  readonly #admitted: Admitted;
  #target: Target | undefined;
  /** The counts of the rules of the target. */
  #entered: RequestCounts = [];
  #enteredAt = 0;
  #settled = false;

  constructor(parts: LimitAdmissionParts, admitted: Admitted) {
    this.#parts = parts;
    this.#admitted = admitted;
  }

  outputLimit(target: Target): number | undefined {
    return this.#admitted.reservation?.limit?.(target);
  }

  reservedCost(): number | undefined {
    return this.#admitted.reservation?.reserved;
  }

  inputCounted(usage: TokenUsage): RecordedReservation | undefined {
    const { reservation, request } = this.#admitted;
    const { forecaster } = this.#parts;
    const target = this.#target;
    if (reservation === undefined || target === undefined) return undefined;
    const nano = forecaster.boundOfCounted(target, request, usage, reservation.limit?.(target));
    return nano === undefined ? undefined : reservation.correct(nano);
  }

  again(): Refusal | undefined {
    const refusal = this.#admitted.reservation?.again();
    if (refusal !== undefined) this.#parts.refused(refusal);
    return refusal;
  }

  enter(target: Target): Refusal | undefined {
    const { limits, now } = this.#parts;
    limits.leave(this.#entered);
    this.#entered = [];
    this.#target = target;
    if (limits.isOpen) return undefined;
    const at = now();
    const entered = limits.enter(target, this.#admitted.request.caller, at);
    if (entered instanceof Refusal) {
      this.#parts.refused(entered);
      return entered;
    }
    this.#entered = entered;
    this.#enteredAt = at;
    return undefined;
  }

  headers(): Record<string, string> | undefined {
    const { path, request } = this.#admitted;
    if (path.length + this.#entered.length === 0) return undefined;
    return rateLimitHeaders([...path, ...this.#entered], request.caller.key, this.#parts.now());
  }

  get onLog(): ReservationOnLog | undefined {
    const { refused } = this.#parts;
    const onLog = this.#admitted.reservation?.onLog;
    if (onLog === undefined) return undefined;
    return {
      next: () => onLog.next(),
      async decided(position) {
        const refusal = await onLog.decided(position);
        if (refusal !== undefined) refused(refusal);
        return refusal;
      },
    };
  }

  get isCounted(): boolean {
    return this.#admitted.reservation !== undefined;
  }

  reserve(nano: number, bound: number | undefined): void {
    this.#inReservation((reservation) => reservation.reserve(nano, bound));
  }

  expectEarlierTurns(tokens: EarlierTokens): void {
    const { forecaster } = this.#parts;
    this.#inReservation((reservation) => reservation.expect(forecaster.forecast(this.#admitted.request, tokens)));
  }

  #inReservation(change: (reservation: BudgetReservation) => void): void {
    const { reservation } = this.#admitted;
    if (reservation === undefined) return;
    try {
      change(reservation);
    } catch (error) {
      if (error instanceof Refusal) this.#parts.refused(error);
      throw error;
    }
  }

  defer(): number | undefined {
    return this.#admitted.reservation?.defer();
  }

  charge(charge: Charge): void {
    const { limits, forecaster } = this.#parts;
    const { reservation, request, path } = this.#admitted;
    const totalTokens = countedTokens(charge.usage.totalTokens, charge.estimate);
    if (totalTokens !== null) {
      limits.countTokens(path, totalTokens);
      limits.countTokens(this.#entered, totalTokens);
    }
    if (reservation === undefined) return;
    if (this.#target !== undefined) forecaster.learn(this.#target, request, charge);
    reservation.charge(charge);
  }

  settle(isRecorded: boolean, wasCalled: boolean): void {
    if (this.#settled) return;
    this.#settled = true;
    const { limits } = this.#parts;
    const { request, reservation, at, path, open } = this.#admitted;
    if (!wasCalled) {
      limits.revert(path, at);
      limits.revert(this.#entered, this.#enteredAt);
    }
    limits.leave(path);
    limits.leave(this.#entered);
    reservation?.settle(isRecorded);
    open.delete(request.exchangeId);
  }
}

/**
 * `x-ratelimit-*`: the remaining room in the tightest of the limits that a request has passed and whose amounts its
 * key may read.
 */
interface RemainingLimit {
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
}

/** @returns undefined when none of them limits a period; empty when the key may read the amounts of none */
function rateLimitHeaders(
  ruleCounts: RequestCounts,
  key: ScopedKey | undefined,
  at: number,
): Record<string, string> | undefined {
  let requests: RemainingLimit | undefined;
  let tokens: RemainingLimit | undefined;
  let isHidden = false;
  for (const counts of ruleCounts) {
    if (!mayReadAmounts(key, counts.rule)) {
      isHidden ||= counts.requests !== undefined || counts.tokens !== undefined;
      continue;
    }
    requests = lower(requests, roomIn(counts.requests, counts.rule.maxRequests, at));
    tokens = lower(tokens, roomIn(counts.tokens, counts.rule.maxTokens, at));
  }
  if (requests === undefined && tokens === undefined) return isHidden ? {} : undefined;
  const headers: Record<string, string> = {};
  if (requests !== undefined) setHeaders(headers, 'requests', requests);
  if (tokens !== undefined) setHeaders(headers, 'tokens', tokens);
  return headers;
}

function roomIn(window: SlidingWindow | undefined, limit: number | null, at: number): RemainingLimit | undefined {
  if (window === undefined || limit === null) return undefined;
  return { limit, remaining: Math.max(0, limit - window.used(at)), resetMs: window.msUntilLess(at) };
}

function lower(one: RemainingLimit | undefined, other: RemainingLimit | undefined): RemainingLimit | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return other.remaining < one.remaining ? other : one;
}

/** The reset is the time until there is more room than now, in OpenAI's format: `12s`. */
function setHeaders(
  headers: Record<string, string>,
  what: 'requests' | 'tokens',
  { limit, remaining, resetMs }: RemainingLimit,
): void {
  headers[`x-ratelimit-limit-${what}`] = String(limit);
  headers[`x-ratelimit-remaining-${what}`] = String(remaining);
  headers[`x-ratelimit-reset-${what}`] = `${Math.ceil(resetMs / 1000)}s`;
}
