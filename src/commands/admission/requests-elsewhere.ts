/**
 * Rate limits count what other processes have counted: requests of other gateways, and those before a restart. The counts
 * are saved from time to time, with their position in the log. At the start, the log is read from that position, and later
 * requests and tokens are added. Without saved counts, the log is read from the beginning of the longest window.
 */
import { attemptStarted, exchangeEnds, requestRefused, usageRecorded } from '../../events/catalogue/exchange.ts';
import { leaseEnded, leaseGranted } from '../../events/catalogue/gateway.ts';
import { type EpochMs, idOf, type Position, type RecordedEvent } from '../../events/event.ts';
import { type EventLog, positionAtTime } from '../../events/log.ts';
import type { LimitMemory } from '../../projections/limit-memory-store.ts';
import { countedTokens } from '../model-request/usage.ts';
import type { RateLimiter, RateLimitRules, RequestCounts } from './rate-limiter.ts';

interface RestoreOptions {
  readonly log: EventLog;
  readonly limiter: RateLimiter;
  readonly rules: RateLimitRules;
  /** Undefined when nothing was saved, or the saved counts belong to another log. */
  readonly memory: LimitMemory | undefined;
  /** Later events are counted elsewhere; undefined: there are none. */
  readonly upTo?: Position | undefined;
  readonly now: EpochMs;
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
function countedTokensOf({ at, context, data }: RecordedEvent) {
  const { provider, model, totalTokens, answers, cacheType, ...rest } = usageRecorded.data.parse(data);
  const { estimated, estimatedInputTokens: inputTokens = 0, estimatedOutputTokens: outputTokens = 0 } = rest;
  const tokens = countedTokens(totalTokens, estimated === true ? { inputTokens, outputTokens } : undefined);
  // The tokens of a batch become known as a sum, at a time when its requests are no longer running. Answers from the
  // response cache count against no limit.
  if (tokens === null || answers !== undefined || cacheType !== undefined) return undefined;
  return { at, userPath: context.userPath ?? '/', target: { provider, model }, tokens };
}

// Counts the requests of other gateways in the rate limits, as their events are read. A request counts from its first call of
// a provider, its tokens from their record on. Requests of this gateway are counted where they are admitted.

/** An open exchange, as rate limits need it where several gateways use the log: whose it is, and whom it counts for. */
interface ExchangeElsewhere {
  readonly id: string;
  /** Whose exchange it is; undefined when its gateway has ended and no other one was there. */
  readonly gateway?: string | undefined;
  /** Whether that gateway has it from another one, and has not resumed it. */
  readonly isInherited: boolean;
  readonly userPath: string;
  /** Whether a guardrail sent it, as part of another request. */
  readonly isAuxiliary: boolean;
  /** Calls since it began, or was resumed. */
  readonly calls: number;
  /** Of the latest call. */
  readonly provider: string;
  readonly model: string;
}

/** The state of a projection (`src/wiring/limits.ts`). */
export interface ExchangesElsewhere {
  readonly open: Map<string, ExchangeElsewhere>;
  /** The exchange that ended with the last events: its usage may follow. */
  ended: ExchangeElsewhere | undefined;
}

interface Places {
  readonly at: number;
  readonly path: RequestCounts;
  readonly target: RequestCounts;
}

export class RequestsElsewhere {
  readonly #limiter: RateLimiter;
  readonly #gateway: () => string;
  readonly #places = new Map<string, Places>();
  #after: Position | undefined;

  /** @param gateway id of this gateway, once it has its lease */
  constructor(limiter: RateLimiter, gateway: () => string) {
    this.#limiter = limiter;
    this.#gateway = gateway;
  }

  /**
   * Takes the places of the requests that are running elsewhere, and counts from now on. What the log has up to this position
   * is in the windows.
   */
  begin(exchanges: ExchangesElsewhere, after: Position): void {
    this.#after = after;
    for (const exchange of exchanges.open.values()) {
      if (exchange.calls > 0 && !this.#isHere(exchange))
        this.#places.set(exchange.id, this.#placesOf(exchange, undefined));
    }
  }

  /** @param exchanges after this event */
  read(exchanges: ExchangesElsewhere, event: RecordedEvent): void {
    if (this.#after === undefined || event.position <= this.#after) return;
    const { type } = event;
    const id = idOf(event.stream);
    if (type === attemptStarted.type)
      this.#called(exchanges.open.get(id), attemptStarted.data.parse(event.data).kind, event.at);
    else if (type === usageRecorded.type) this.#spent(exchanges, id, event);
    else if (exchangeEnds.has(type)) this.#over(id, type === requestRefused.type);
    else if (type === leaseEnded.type || type === leaseGranted.type) this.#leaveInherited(exchanges);
  }

  /** Whether this gateway has admitted it. */
  #isHere({ gateway, isInherited }: ExchangeElsewhere): boolean {
    return gateway === this.#gateway() && !isInherited;
  }

  #called(exchange: ExchangeElsewhere | undefined, kind: string, at: number): void {
    if (exchange === undefined || this.#isHere(exchange) || this.#limiter.isOpen) return;
    const before = this.#places.get(exchange.id);
    if (before !== undefined && (kind === 'retry' || kind === 'translation')) return;
    if (before !== undefined) this.#limiter.leave(before.target);
    this.#places.set(exchange.id, { ...this.#placesOf(exchange, at, before?.path), at: before?.at ?? at });
  }

  /** @param at when the request counts in the windows; undefined when it is counted there */
  #placesOf(
    { userPath, isAuxiliary, provider, model }: ExchangeElsewhere,
    at: number | undefined,
    path?: RequestCounts,
  ): Places {
    const limiter = this.#limiter;
    return {
      at: at ?? 0,
      path: path ?? limiter.enterElsewhere({ userPath, isAuxiliary }, at),
      target: limiter.enterElsewhere({ target: { provider, model } }, at),
    };
  }

  #spent({ open, ended }: ExchangesElsewhere, id: string, event: RecordedEvent): void {
    const exchange = open.get(id) ?? (ended?.id === id ? ended : undefined);
    // Without an exchange, it is the usage of work that continued after one: no gateway has counted it.
    if (exchange !== undefined && this.#isHere(exchange)) return;
    const tokens = countedTokensOf(event);
    if (tokens !== undefined) this.#limiter.recount(tokens);
  }

  /** @param wasRefused before any provider was called: its reservation did not fit in a budget */
  #over(id: string, wasRefused: boolean): void {
    const places = this.#places.get(id);
    if (places === undefined) return;
    this.#places.delete(id);
    for (const ruleCounts of [places.path, places.target]) {
      if (wasRefused) this.#limiter.revert(ruleCounts, places.at);
      this.#limiter.leave(ruleCounts);
    }
  }

  /** What this gateway has inherited runs nowhere until it is resumed here. */
  #leaveInherited({ open }: ExchangesElsewhere): void {
    for (const id of this.#places.keys()) if (open.get(id)?.gateway === this.#gateway()) this.#over(id, false);
  }
}
