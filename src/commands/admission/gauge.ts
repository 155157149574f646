/** One rate limit with what it has counted. Times are milliseconds since the epoch. */
import { type SavedWindow, SlidingWindow } from './sliding-window.ts';

/** A rate limit, as it is now. */
export interface RateLimitRule {
  readonly scope: 'user_path' | 'provider' | 'model';
  readonly subject: string;
  /** 0: of what is under way at the same time. */
  readonly periodSeconds: number;
  /** Null: not limited. */
  readonly maxRequests: number | null;
  readonly maxTokens: number | null;
  readonly lastResetAt?: number | undefined;
}

export interface SavedGauge {
  readonly key: string;
  /** The last reset that it knew of. */
  readonly resetAt?: number | undefined;
  readonly requests: SavedWindow;
  readonly tokens: SavedWindow;
}

export class Gauge {
  rule: RateLimitRule;
  /** Requests under way. */
  inFlight = 0;
  /** Undefined for a limit of what is under way. */
  readonly requests: SlidingWindow | undefined;
  readonly tokens: SlidingWindow | undefined;

  constructor(rule: RateLimitRule) {
    this.rule = rule;
    this.requests = rule.periodSeconds === 0 ? undefined : new SlidingWindow(rule.periodSeconds);
    this.tokens = rule.periodSeconds === 0 ? undefined : new SlidingWindow(rule.periodSeconds);
  }

  /** The rule was changed; when it was reset, nothing is counted any more. */
  follow(rule: RateLimitRule): void {
    const wasReset = rule.lastResetAt !== this.rule.lastResetAt;
    this.rule = rule;
    if (!wasReset) return;
    this.requests?.clear();
    this.tokens?.clear();
  }

  /** Milliseconds until one more request has room; 0 when it has now. */
  msUntilRoom(at: number): number {
    const { maxRequests, maxTokens } = this.rule;
    if (this.requests === undefined) return maxRequests !== null && this.inFlight >= maxRequests ? 1000 : 0;
    const requests = maxRequests === null ? 0 : this.requests.msUntil(at, maxRequests - 1);
    const tokens = maxTokens === null ? 0 : (this.tokens?.msUntil(at, maxTokens - 1) ?? 0);
    return Math.max(requests, tokens);
  }

  enter(at: number): void {
    this.inFlight += 1;
    this.countRequest(at);
  }

  leave(): void {
    this.inFlight -= 1;
  }

  /** What was counted before the rule was reset stays forgotten. */
  countRequest(at: number): void {
    if (at >= (this.rule.lastResetAt ?? 0)) this.requests?.add(at, 1);
  }

  /** It was let through by this limit at that time, and by another not. */
  takeBackRequest(at: number): void {
    if (at >= (this.rule.lastResetAt ?? 0)) this.requests?.add(at, -1);
  }

  countTokens(at: number, tokens: number): void {
    if (tokens > 0 && at >= (this.rule.lastResetAt ?? 0)) this.tokens?.add(at, tokens);
  }

  /** What is counted, and milliseconds until it is less. */
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

  /** What was saved before the rule was reset is forgotten. */
  restore({ resetAt, requests, tokens }: SavedGauge): void {
    if (resetAt !== this.rule.lastResetAt) return;
    this.requests?.restore(requests);
    this.tokens?.restore(tokens);
  }
}
