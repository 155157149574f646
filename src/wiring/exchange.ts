/** The exchange pipeline's dependencies on the rest of the gateway. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExchangeDependencies, ExchangeSummary, Resilience } from '../commands/exchange/pipeline/dependencies.ts';
import type { Config } from '../config/config.ts';
import { mintEventId } from '../events/event-id.ts';
import type { Metrics } from '../http/metrics.ts';
import { maxAnswerBytes } from './size-limits.ts';

/** Derived from the configuration and the clock, not from another component. */
type Derived =
  | 'resilienceOf'
  | 'recordBeforeCall'
  | 'maxAnswerBytes'
  | 'streamLimits'
  | 'newId'
  | 'random'
  | 'wait'
  | 'ended'
  | 'responseNotStored';

export interface ExchangeParts extends Omit<ExchangeDependencies, Derived> {
  readonly config: Pick<Config, 'log' | 'streamLimits'>;
  readonly metrics: Pick<Metrics, 'observeExchange' | 'responseNotStored'>;
  /** Called with every exchange that ended, for plugins; undefined when none needs it. */
  readonly completed: ((summary: ExchangeSummary) => void) | undefined;
  /** By provider name. */
  readonly resilience: ReadonlyMap<string, Resilience>;
}

export function exchangeDependencies({
  config,
  metrics,
  resilience,
  completed,
  ...parts
}: ExchangeParts): ExchangeDependencies {
  return {
    ...parts,
    resilienceOf(name) {
      const found = resilience.get(name);
      if (found === undefined) throw new Error(`no resilience policy for provider ${name}`);
      return found;
    },
    recordBeforeCall: config.log.durability === 'strict' ? 'durable' : 'written',
    maxAnswerBytes: maxAnswerBytes(parts.log),
    streamLimits: config.streamLimits,
    newId: mintEventId,
    random: Math.random,
    wait: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
    ended(summary) {
      metrics.observeExchange(summary);
      completed?.(summary);
    },
    responseNotStored: (provider) => metrics.responseNotStored(provider),
  };
}
