/**
 * The expected cost of a request: from its size, from the answer length that it allows, and from the recent cost of
 * requests to the same model. The forecast is rather too high than too low, since the excess is released.
 */
import { LRUCache } from 'lru-cache';
import type { AdmissionRequest, Charge, EarlierTokens } from '../model-request/admission.ts';
import { forwardOperations, requestedUnits } from '../model-request/forward-operations.ts';
import type { Target } from '../model-request/routing-types.ts';
import {
  boundOfAnswers,
  boundOfOutput,
  callsFor,
  expectedOutput,
  hasAnswerLimit,
  largestLimit,
  outputLimit,
  requestedAnswers,
  type TokenUsage,
  unknownUsage,
} from '../model-request/usage.ts';
import { reportsCost } from '../pricing/cost-of-usage.ts';
import type { Pricing } from '../pricing/pricing.ts';
import {
  type BoundedRequest,
  boundOfCounted,
  type CostBound,
  costBoundOf,
  mostInputTokens,
  type SetLimit,
} from './cost-bound.ts';

/** Nano-dollars. */
export interface CostForecast {
  /**
   * The cost that does not depend on the content: a price per request. 0 where `likely` was learned, which is no
   * less.
   */
  readonly least: number;
  /** Undefined when the provider reports its cost and has not reported any yet. */
  readonly likely: number | undefined;
  /** The cost of the longest answer that the request allows; `likely` when the request sets no limit. */
  readonly most: number | undefined;
  /** The cost of its longest answer, which it cannot exceed; undefined when there is no such bound. */
  readonly bound?: number | undefined;
  /** Undefined when the gateway cannot limit the answer, or must not. */
  readonly limit?: AnswerLimit | undefined;
  /** Whether it is based on recorded requests. If not, it refuses no request without a bound while no other reservation exists. */
  readonly learned: boolean;
}

/** How the gateway can limit the length of the answers, so that a request costs no more than what is left. */
export interface AnswerLimit {
  /** Tokens of the longest answer, which `bound` counts. */
  readonly longest: number;
  /** Whether the provider gets this limit: the request has none. */
  readonly isMissing: boolean;
  /** A limit that hardly any answer reaches, going by recent ones. */
  readonly ample: number;
  /** Fewer tokens are no useful answer. */
  readonly least: number;
  /** The cost that the request cannot exceed under this limit, in nano-dollars; undefined when there is no such bound. */
  boundAt(tokens: number): number | undefined;
  /** The limit for each target. */
  at(tokens: number): SetLimit;
}

/** What is known about the longest answer of a model. */
export interface LongestAnswers {
  /** The output limit of a model and its context window, in tokens; undefined when they are not known. */
  of(target: Target): { readonly output?: number | undefined; readonly context?: number | undefined };
  /** Of a model about which neither is known. */
  readonly usual: number;
  /** Whether the gateway may set a limit. */
  readonly isSent: boolean;
}

/** The expected size and cost of one request of a batch. */
export interface BatchLineForecast {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Nano-dollars; undefined when there is no price. */
  readonly cost: number | undefined;
  /** The cost that it cannot exceed; undefined when there is no such bound, or it is not needed. */
  readonly bound?: number | undefined;
}

interface Assumed extends Pick<AdmissionRequest, 'endpoint' | 'units'> {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly calls?: number;
}

/** Observations of one model: the recent maximum, which decays towards the average. */
interface ObservedCosts {
  inputPerByte: number;
  outputTokens: number;
  /** For a model without a price whose provider reports the cost. */
  cost: number;
}

const DECAY = 0.05;
/** Of more models, the least recently used one is forgotten. `max` would allocate them at once. */
const MAX_MODELS = 10_000;
/** English text has four or five bytes per token, plus the JSON around it. */
const BYTES_PER_TOKEN = 3;
const OUTPUT_TOKENS = 1024;
/** This endpoint names a model without calling it. */
const COUNTING = '/v1/messages/count_tokens';
const EMBEDDINGS = '/v1/embeddings';
const BATCHES = '/v1/batches';
/** The part of a context window that an answer may have although the request could fill it. */
const CONTEXT_DIVISOR = 8;
/** An answer is seldom so many times as long as the longest recent one of its model. */
const AMPLE = 4;
/** Providers refuse lower limits. */
const LEAST_OUTPUT_TOKENS = 16;

const freeForecast: CostForecast = { least: 0, likely: 0, most: 0, learned: true };

export class CostForecaster {
  readonly #pricing: Pricing;
  readonly #longest: LongestAnswers | undefined;
  readonly #seen = new LRUCache<string, ObservedCosts>({ maxSize: MAX_MODELS, sizeCalculation: () => 1 });

  /** @param longest undefined where bounds of costs are not needed */
  constructor(pricing: Pricing, longest?: LongestAnswers) {
    this.#pricing = pricing;
    this.#longest = longest;
  }

  /**
   * The forecast of the most expensive candidate.
   * @param earlier turns that are put in front of the request's own input
   */
  forecast(given: AdmissionRequest, earlier?: EarlierTokens): CostForecast {
    const passed = given.passed?.();
    const request = passed === undefined ? given : { ...given, ...passed };
    if (request.endpoint === COUNTING) return freeForecast;
    let highest: CostForecast | undefined;
    for (const target of request.candidates) {
      const one = this.#forecastFor(target, request, earlier?.likely ?? 0);
      if (highest === undefined || costsMore(one, highest)) highest = one;
    }
    if (highest === undefined) return freeForecast;
    if (this.#longest === undefined) return highest;
    const bounded = { ...request, json: request.parsedRequest.json, earlierTokens: earlier?.most() };
    return { ...highest, ...this.#bounds(bounded, this.#longest) };
  }

  /**
   * The most that a request with a bound can still cost, once its provider has counted the input.
   * @param sent the limit that the gateway has set for each answer
   * @returns undefined when it has no limit or no price, or is one of several calls
   */
  boundOfCounted(called: Target, given: AdmissionRequest, usage: TokenUsage, sent?: number): number | undefined {
    const passed = given.passed?.();
    const { endpoint, parsedRequest, units } = passed ?? given;
    const limit = sent ?? boundOfOutput(parsedRequest.json, endpoint, called.provider.type);
    const answers = boundOfAnswers(parsedRequest.json);
    const isOneCall = callsFor(endpoint, called.provider.type, parsedRequest.json) === 1;
    if (limit === undefined || answers === undefined || !isOneCall) return undefined;
    const counted = { usage, outputTokens: limit * answers };
    return boundOfCounted(passed?.candidates[0] ?? called, { endpoint, units }, counted, this.#pricing);
  }

  #bounds(
    request: BoundedRequest & Pick<AdmissionRequest, 'passed'>,
    longest: LongestAnswers,
  ): Pick<CostForecast, 'bound' | 'limit'> {
    const { endpoint, json, candidates } = request;
    const boundOf: CostBound = costBoundOf(request, this.#pricing);
    if (!hasAnswerLimit(endpoint)) return { bound: boundOf() };
    const ownOf = ({ provider }: Target) => boundOfOutput(json, endpoint, provider.type);
    const longestOf = (target: Target) => ownOf(target) ?? longestAnswer(longest, target, request);
    const bound = boundOf(longestOf);
    if (bound === undefined || !longest.isSent || request.passed !== undefined) return { bound };
    const recent = candidates.map((target) => this.#seen.get(keyOf(target, endpoint))?.outputTokens ?? 0);
    const at =
      (tokens: number): SetLimit =>
      (target) =>
        Math.min(tokens, longestOf(target));
    const limit = {
      longest: Math.max(...candidates.map(longestOf)),
      isMissing: candidates.some((target) => ownOf(target) === undefined),
      ample: AMPLE * Math.max(OUTPUT_TOKENS, ...recent),
      least: leastAnswer(json),
      boundAt: (tokens: number) => boundOf(at(tokens)),
      at,
    };
    return { bound, limit };
  }

  /**
   * The forecast of one request of a batch. When it sets no limit on its answer, at least the model's recent answer
   * length is assumed.
   */
  ofBatch(target: Target, endpoint: string, json: Record<string, unknown>, bytes: number): BatchLineForecast {
    const seen = this.#seen.get(keyOf(target, endpoint));
    const usual = Math.max(seen?.outputTokens ?? 0, OUTPUT_TOKENS);
    const outputTokens = endpoint === EMBEDDINGS ? 0 : expectedOutput(json, usual);
    const inputTokens = Math.ceil(bytes * (seen?.inputPerByte ?? 1 / BYTES_PER_TOKEN));
    const operation = forwardOperations.find((one) => one.endpoint === endpoint);
    const units = operation === undefined ? undefined : requestedUnits(operation, json);
    const cost = this.#costOf(target, { endpoint: BATCHES, units, inputTokens, outputTokens });
    if (this.#longest === undefined) return { inputTokens, outputTokens, cost };
    const request = { endpoint, pricedAs: BATCHES, candidates: [target], units, bodyBytes: bytes, json };
    return { inputTokens, outputTokens, cost, bound: costBoundOf(request, this.#pricing)() };
  }

  /** Learns from the actual cost of a request. */
  learn(
    called: Target,
    given: Pick<AdmissionRequest, 'endpoint' | 'bodyBytes' | 'parsedRequest' | 'passed'>,
    charge: Pick<Charge, 'usage' | 'totalCost'>,
  ): void {
    const { usage, totalCost } = charge;
    const passed = given.passed?.();
    const { bodyBytes } = given;
    const { endpoint, parsedRequest } = passed ?? given;
    const key = keyOf(passed?.candidates[0] ?? called, endpoint);
    const seen = this.#seen.get(key);
    const calls = callsFor(endpoint, called.provider.type, parsedRequest.json);
    const inputPerByte = Math.min(1, (usage.inputTokens ?? 0) / Math.max(1, bodyBytes * calls));
    const outputTokens = (usage.outputTokens ?? 0) / requestedAnswers(parsedRequest.json);
    const cost = totalCost === null ? 0 : Number(totalCost);
    if (seen === undefined) {
      this.#seen.set(key, { inputPerByte, outputTokens, cost });
    } else {
      seen.inputPerByte = decayed(seen.inputPerByte, inputPerByte);
      seen.outputTokens = decayed(seen.outputTokens, outputTokens);
      seen.cost = decayed(seen.cost, cost);
    }
  }

  #forecastFor(target: Target, request: AdmissionRequest, earlierTokens: number): CostForecast {
    const { bodyBytes, parsedRequest, endpoint, units } = request;
    const seen = this.#seen.get(keyOf(target, endpoint));
    // Requests without a model, such as lists and files, rarely cost anything; a passthrough whose body names none is
    // expected to cost as much as recent ones.
    if (target.model === '') return { least: 0, likely: seen?.cost ?? 0, most: seen?.cost ?? 0, learned: true };
    const answers = requestedAnswers(parsedRequest.json);
    const limit = endpoint === EMBEDDINGS ? undefined : outputLimit(parsedRequest.json);
    const usual = endpoint === EMBEDDINGS ? 0 : (seen?.outputTokens ?? limit ?? OUTPUT_TOKENS);
    const outputTokens = Math.ceil(Math.min(usual, limit ?? usual) * answers);
    const calls = callsFor(endpoint, target.provider.type, parsedRequest.json);
    const inputTokens = calls * Math.ceil(bodyBytes * (seen?.inputPerByte ?? 1 / BYTES_PER_TOKEN)) + earlierTokens;
    const assumed = { endpoint, units, inputTokens, outputTokens, calls };
    const likely = this.#costOf(target, assumed);
    if (likely === undefined) {
      // Without a price and without a reported cost, nothing can be charged.
      if (!reportsCost(target.provider.type)) return freeForecast;
      return { least: 0, likely: seen?.cost, most: seen?.cost, learned: seen !== undefined };
    }
    const allowed = endpoint === EMBEDDINGS ? 0 : (limit ?? largestLimit(parsedRequest.json));
    const longest = Math.max(outputTokens, Math.ceil(allowed * answers));
    const most = longest === outputTokens ? likely : this.#costOf(target, { ...assumed, outputTokens: longest });
    if (seen !== undefined) return { least: 0, likely, most, learned: true };
    const least = this.#costOf(target, { ...assumed, inputTokens: 0, outputTokens: 0 }) ?? 0;
    return { least, likely, most, learned: least === likely };
  }

  #costOf({ provider: { name: provider, type: providerType }, model }: Target, assumed: Assumed): number | undefined {
    const { endpoint, units, inputTokens, outputTokens, calls } = assumed;
    const totalTokens = inputTokens + outputTokens;
    const usage = { ...unknownUsage, inputTokens, outputTokens, totalTokens, source: 'provider' as const };
    const { totalCost } = this.#pricing.costOf({ provider, providerType, model, endpoint, usage, units, calls });
    return totalCost === null ? undefined : Number(totalCost);
  }
}

function keyOf({ provider, model }: Target, endpoint: string): string {
  return `${provider.name}/${model || endpoint}`;
}

/**
 * The most tokens that a model answers with: its output limit, else the room that the request leaves in its context window.
 * A server refuses a limit beyond that room, and two bytes make a token at most, but for unusual texts.
 */
function longestAnswer({ of, usual }: LongestAnswers, target: Target, request: BoundedRequest): number {
  const { output, context } = of(target);
  if (output !== undefined) return output;
  if (context === undefined) return usual;
  const input = Math.ceil((mostInputTokens(request) + (request.earlierTokens ?? 0)) / 2);
  return Math.max(1, Math.floor(context / CONTEXT_DIVISOR), context - input);
}

/** Anthropic's API refuses a limit that is no larger than what the model may think. */
function leastAnswer({ thinking }: BoundedRequest['json']): number {
  const budget =
    typeof thinking === 'object' && thinking !== null && 'budget_tokens' in thinking ? thinking.budget_tokens : 0;
  return Math.max(LEAST_OUTPUT_TOKENS, (typeof budget === 'number' ? budget : 0) + 1);
}

/** A target without a known price counts as the most expensive. */
function costsMore(one: CostForecast, other: CostForecast): boolean {
  return (one.likely ?? Number.POSITIVE_INFINITY) > (other.likely ?? Number.POSITIVE_INFINITY);
}

function decayed(most: number, now: number): number {
  return now >= most ? now : most + (now - most) * DECAY;
}
