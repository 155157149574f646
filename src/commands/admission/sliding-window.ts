/**
 * An amount counted over a sliding window. The window is divided into 60 parts, and a part counts until all of it is
 * out of the window: no stretch of the window's length admits more than is allowed, and an amount is dropped at most
 * a 60th of the window too late. Times are milliseconds since the epoch.
 */

import type { SavedCounts } from '../../projections/limit-memory-store.ts';

const PARTS = 60;
/** The current part is incomplete, so one more part is needed to cover the whole length. */
const RING = PARTS + 1;

/** The parts that are not empty: their number since the epoch, and the amount in each. */
type SavedWindow = readonly (readonly [part: number, amount: number])[];

export class SlidingWindow {
  readonly #partMs: number;
  readonly #amounts = new Float64Array(RING);
  #newest = 0;
  /** No part before it has an amount. */
  #oldest = 0;
  #total = 0;

  constructor(periodSeconds: number) {
    this.#partMs = (periodSeconds * 1000) / PARTS;
  }

  /** An amount older than the window is not counted. */
  add(at: number, amount: number): void {
    this.#addTo(this.#partAt(at), amount);
  }

  used(at: number): number {
    this.#lookFrom(at);
    return this.#total;
  }

  /** Milliseconds until at most `allowed` is counted, if nothing is added; 0 when it is so now. */
  msUntil(at: number, allowed: number): number {
    let left = this.used(at);
    if (left <= allowed) return 0;
    for (let part = this.#newest - PARTS; part < this.#newest; part++) {
      left -= this.#inPart(part);
      if (left <= allowed) return this.#msUntilGone(part, at);
    }
    return this.#msUntilGone(this.#newest, at);
  }

  /** Milliseconds until the oldest amount is dropped; 0 when the window is empty. */
  msUntilLess(at: number): number {
    if (this.used(at) === 0) return 0;
    let part = Math.max(this.#oldest, this.#newest - PARTS);
    while (part < this.#newest && this.#inPart(part) === 0) part++;
    this.#oldest = part;
    return this.#msUntilGone(part, at);
  }

  clear(): void {
    this.#amounts.fill(0);
    this.#total = 0;
  }

  save(): SavedWindow {
    const saved: [number, number][] = [];
    for (let part = this.#newest - PARTS; part <= this.#newest; part++) {
      const amount = this.#inPart(part);
      if (amount > 0) saved.push([part, amount]);
    }
    return saved;
  }

  /** Adds the saved amounts of a window of the same length. */
  restore(saved: SavedWindow): void {
    for (const [part, amount] of saved) this.#addTo(part, amount);
  }

  #partAt(at: number): number {
    return Math.floor(at / this.#partMs);
  }

  #inPart(part: number): number {
    return part < 0 ? 0 : (this.#amounts[part % RING] ?? 0);
  }

  #msUntilGone(part: number, at: number): number {
    return Math.max(1, (part + RING) * this.#partMs - at);
  }

  #addTo(part: number, amount: number): void {
    this.#moveTo(part);
    if (part < 0 || part <= this.#newest - RING) return;
    if (part < this.#oldest) this.#oldest = part;
    this.#amounts[part % RING] = this.#inPart(part) + amount;
    this.#total += amount;
  }

  #lookFrom(at: number): void {
    const part = this.#partAt(at);
    // The clock was set back by more than the window, so the amounts have no place in it.
    if (part < this.#newest - RING) {
      this.clear();
      this.#newest = part;
    } else this.#moveTo(part);
  }

  #moveTo(part: number): void {
    if (part <= this.#newest) return;
    if (part - this.#newest >= RING) this.clear();
    else {
      for (let next = this.#newest + 1; next <= part; next++) {
        this.#total -= this.#inPart(next);
        this.#amounts[next % RING] = 0;
      }
    }
    this.#newest = part;
  }
}

// One rate limit and its counts. Times are milliseconds since the epoch.

/** A rate limit in its current state. */
export interface RateLimitRule {
  readonly scope: 'user_path' | 'provider' | 'model';
  readonly subject: string;
  /** 0 for a limit of concurrent requests. */
  readonly periodSeconds: number;
  /** Null when requests are not limited. */
  readonly maxRequests: number | null;
  readonly maxTokens: number | null;
  readonly lastResetAt?: number | undefined;
}

export class RuleCounts {
  rule: RateLimitRule;
  /** Concurrent requests. */
  inFlight = 0;
  /** Undefined for a limit of concurrent requests. */
  readonly requests: SlidingWindow | undefined;
  readonly tokens: SlidingWindow | undefined;

  constructor(rule: RateLimitRule) {
    this.rule = rule;
    this.requests = rule.periodSeconds === 0 ? undefined : new SlidingWindow(rule.periodSeconds);
    this.tokens = rule.periodSeconds === 0 ? undefined : new SlidingWindow(rule.periodSeconds);
  }

  /** Applies a changed rule; clears the counts when the rule was reset. */
  follow(rule: RateLimitRule): void {
    const wasReset = rule.lastResetAt !== this.rule.lastResetAt;
    this.rule = rule;
    if (!wasReset) return;
    this.requests?.clear();
    this.tokens?.clear();
  }

  /** Milliseconds until one more request has room; 0 when it has room now. */
  msUntilRoom(at: number): number {
    const { maxRequests, maxTokens } = this.rule;
    if (this.requests === undefined) return maxRequests !== null && this.inFlight >= maxRequests ? 1000 : 0;
    const requests = maxRequests === null ? 0 : this.requests.msUntil(at, maxRequests - 1);
    const tokens = maxTokens === null ? 0 : (this.tokens?.msUntil(at, maxTokens - 1) ?? 0);
    return Math.max(requests, tokens);
  }

  enter(at: number): void {
    this.occupy();
    this.countRequest(at);
  }

  /** Takes the place of a request that is counted already. */
  occupy(): void {
    this.inFlight += 1;
  }

  leave(): void {
    this.inFlight -= 1;
  }

  /** Counts a request, unless the rule was reset after it was admitted. */
  countRequest(at: number): void {
    if (at >= (this.rule.lastResetAt ?? 0)) this.requests?.add(at, 1);
  }

  /** Removes a request that this limit admitted at that time and another limit refused. */
  revertRequest(at: number): void {
    if (at >= (this.rule.lastResetAt ?? 0)) this.requests?.add(at, -1);
  }

  countTokens(at: number, tokens: number): void {
    if (tokens > 0 && at >= (this.rule.lastResetAt ?? 0)) this.tokens?.add(at, tokens);
  }

  /** The counts, and the milliseconds until they decrease. */
  read(at: number) {
    return {
      requests: this.requests?.used(at) ?? 0,
      tokens: this.tokens?.used(at) ?? 0,
      inFlight: this.inFlight,
      resetMs: Math.max(this.requests?.msUntilLess(at) ?? 0, this.tokens?.msUntilLess(at) ?? 0),
    };
  }

  save(key: string): SavedCounts {
    const resetAt = this.rule.lastResetAt;
    return { key, resetAt, requests: this.requests?.save() ?? [], tokens: this.tokens?.save() ?? [] };
  }

  /** Restores saved counts, unless the rule was reset after they were saved. */
  restore({ resetAt, requests, tokens }: SavedCounts): void {
    if (resetAt !== this.rule.lastResetAt) return;
    this.requests?.restore(requests);
    this.tokens?.restore(tokens);
  }
}
