/**
 * Keeps the counts of the rate limits over a restart. They are saved from time to time, with their position in the
 * log. At the start, the log is read from that position, and later requests and tokens are added. Without saved
 * counts, the log is read from the beginning of the longest window.
 */
import { attemptStarted, usageRecorded } from '../../events/catalogue/exchange.ts';
import { idOf, type Position, type RecordedEvent } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { positionAtTime } from '../../events/position-at-time.ts';
import { countedTokens } from './counted-tokens.ts';
import type { SavedGauge } from './gauge.ts';
import type { RateLimiter, RateLimitRules } from './rate-limiter.ts';

/** The counts up to a position in the log. */
export interface LimitMemory {
  readonly position: Position;
  readonly gauges: readonly SavedGauge[];
  /** Exchanges that were running: their requests are counted, their tokens are not yet. */
  readonly open: readonly string[];
}

export interface RestoreOptions {
  readonly log: EventLog;
  readonly limiter: RateLimiter;
  readonly rules: RateLimitRules;
  /** Undefined when nothing was saved, or the saved counts belong to another log. */
  readonly memory: LimitMemory | undefined;
  /** Later events are counted elsewhere; undefined: there are none. */
  readonly upTo?: Position | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Called once, before any request is admitted. */
export async function restoreLimits({ log, limiter, rules, memory, upTo, now }: RestoreOptions): Promise<void> {
  const longest = Math.max(0, ...[...rules.rules.values()].map(({ periodSeconds }) => periodSeconds));
  if (longest === 0) return;
  if (memory !== undefined) limiter.restore(memory.gauges);
  const oldest = await positionAtTime(log, now - longest * 1000);
  const after = memory !== undefined && memory.position > oldest ? memory.position : oldest;
  const open = new Set(memory?.open);
  const filter = { types: [attemptStarted.type, usageRecorded.type] };
  for await (const event of log.readAll({ after, filter })) {
    if (upTo !== undefined && event.position > upTo) break;
    const { userPath = '/' } = event.context;
    if (event.type === usageRecorded.type) {
      const tokens = countedTokensOf(event);
      if (tokens !== undefined) limiter.recount(tokens);
      continue;
    }
    const { attempt, kind, provider, model = '' } = attemptStarted.data.parse(event.data);
    if (kind === 'retry' || kind === 'translation' || open.has(idOf(event.stream))) continue;
    // When the first candidate has an open circuit breaker, the first call is a failover.
    const isFirst = kind === 'primary' || attempt === 1;
    limiter.recount({ at: event.at, target: { provider, model }, ...(isFirst ? { userPath } : {}) });
  }
}

/** The tokens of a `usage.recorded`; undefined when they count against no limit, or are not known. */
export function countedTokensOf({ at, context, data }: RecordedEvent) {
  const { provider, model, totalTokens, answers, cacheType, ...rest } = usageRecorded.data.parse(data);
  const { estimated, estimatedInputTokens: inputTokens = 0, estimatedOutputTokens: outputTokens = 0 } = rest;
  const tokens = countedTokens(totalTokens, estimated === true ? { inputTokens, outputTokens } : undefined);
  // The tokens of a batch become known as a sum, at a time when its requests are no longer running. Answers from the
  // response cache count against no limit.
  if (tokens === null || answers !== undefined || cacheType !== undefined) return undefined;
  return { at, userPath: context.userPath ?? '/', target: { provider, model }, tokens };
}
