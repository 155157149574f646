/**
 * Takes what the rate limits have counted over a restart. It is written down from time to time, with the place in the
 * log it was true at; a start reads on from there, and counts what was let through and spent since. Where nothing was
 * written down, the log is read from where the longest window begins.
 */
import { attemptStarted, usageRecorded } from '../../events/catalogue/exchange.ts';
import { idOf, type Position } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { positionAtTime } from '../../events/position-at-time.ts';
import { countedTokens } from './counted-tokens.ts';
import type { SavedGauge } from './gauge.ts';
import type { RateLimiter, RateLimitRules } from './rate-limiter.ts';

/** What was counted up to a place in the log. */
export interface LimitMemory {
  readonly position: Position;
  readonly gauges: readonly SavedGauge[];
  /** Exchanges that were under way: their requests are counted, what they spend is not yet. */
  readonly open: readonly string[];
}

export interface RestoreOptions {
  readonly log: EventLog;
  readonly limiter: RateLimiter;
  readonly rules: RateLimitRules;
  /** Undefined: nothing was written down, or what was is of another log. */
  readonly memory: LimitMemory | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** To be called once, before anything is let through. */
export async function restoreLimits({ log, limiter, rules, memory, now }: RestoreOptions): Promise<void> {
  const longest = Math.max(0, ...[...rules.rules.values()].map(({ periodSeconds }) => periodSeconds));
  if (longest === 0) return;
  if (memory !== undefined) limiter.restore(memory.gauges);
  const oldest = await positionAtTime(log, now - longest * 1000);
  const after = memory !== undefined && memory.position > oldest ? memory.position : oldest;
  const open = new Set(memory?.open);
  const filter = { types: [attemptStarted.type, usageRecorded.type] };
  for await (const event of log.readAll({ after, filter })) {
    const { userPath = '/' } = event.context;
    if (event.type === usageRecorded.type) {
      const { provider, model, totalTokens, answers, ...rest } = usageRecorded.data.parse(event.data);
      const { estimated, estimatedInputTokens: inputTokens = 0, estimatedOutputTokens: outputTokens = 0 } = rest;
      const tokens = countedTokens(totalTokens, estimated === true ? { inputTokens, outputTokens } : undefined);
      // The requests of a batch are not under way at the time that their sum becomes known.
      if (tokens !== null && answers === undefined) {
        limiter.recount({ at: event.at, userPath, target: { provider, model }, tokens });
      }
      continue;
    }
    const { attempt, kind, provider, model = '' } = attemptStarted.data.parse(event.data);
    if (kind === 'retry' || kind === 'translation' || open.has(idOf(event.stream))) continue;
    // Who was to be asked first may have had an open circuit breaker, so that the first call is a failover.
    const isFirst = kind === 'primary' || attempt === 1;
    limiter.recount({ at: event.at, target: { provider, model }, ...(isFirst ? { userPath } : {}) });
  }
}
