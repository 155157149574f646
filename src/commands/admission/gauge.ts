/** One rate limit and its counts. Times are milliseconds since the epoch. */
import { type SavedWindow, SlidingWindow } from './sliding-window.ts';

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

export interface SavedGauge {
  readonly key: string;
  /** The last reset of the rule when the counts were saved. */
  readonly resetAt?: number | undefined;
  readonly requests: SavedWindow;
  readonly tokens: SavedWindow;
}

export class Gauge {
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

  save(key: string): SavedGauge {
    const resetAt = this.rule.lastResetAt;
    return { key, resetAt, requests: this.requests?.save() ?? [], tokens: this.tokens?.save() ?? [] };
  }

  /** Restores saved counts, unless the rule was reset after they were saved. */
  restore({ resetAt, requests, tokens }: SavedGauge): void {
    if (resetAt !== this.rule.lastResetAt) return;
    this.requests?.restore(requests);
    this.tokens?.restore(tokens);
  }
}
