/**
 * The expected cost of a request: from its size, from how long it lets the answer become, and
 * from what requests to the same model have cost recently. Too much is better than too little, since it is given back.
 */

import type { AdmissionRequest, Charge } from '../model-request/admission.ts';
import { forwardOperations, unitsAsked } from '../model-request/forward-operations.ts';
import type { Target } from '../model-request/target.ts';
import { answersAsked, expectedOutput, outputLimit } from '../model-request/token-estimate.ts';
import { unknownUsage } from '../model-request/usage.ts';
import type { Pricing } from '../pricing/pricing.ts';
import { reportsCost } from '../pricing/reported-cost.ts';

/** Nano-dollars. */
export interface CostForecast {
  /** What it costs whatever it says: a price for each request. 0 where `likely` was learned, which is no less. */
  readonly least: number;
  /** Undefined: its provider is going to tell what it costs, and has not done so yet. */
  readonly likely: number | undefined;
  /** With the longest answer that the request allows; `likely` where it does not say. */
  readonly most: number | undefined;
  /** Whether it is based on recorded requests. An estimate that is not never refuses a request that runs alone. */
  readonly learned: boolean;
}

/** What one request of a batch is likely to take. */
export interface BatchLineForecast {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Nano-dollars; undefined when there is no price. */
  readonly cost: number | undefined;
}

interface Assumed extends Pick<AdmissionRequest, 'endpoint' | 'units'> {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What was seen of one model: the recent maximum, which decays towards the average. */
interface Seen {
  inputPerByte: number;
  outputTokens: number;
  /** Of a model without a price whose provider says itself what it costs. */
  cost: number;
}

const FADING = 0.05;
/** Models beyond this many push out those seen first. */
const MAX_MODELS = 10_000;
/** English has four or five bytes in a token, and JSON around it. */
const BYTES_PER_TOKEN = 3;
const OUTPUT_TOKENS = 1024;
/** Names a model and makes no use of it. */
const COUNTING = '/v1/messages/count_tokens';
const EMBEDDINGS = '/v1/embeddings';
const BATCHES = '/v1/batches';

const freeForecast: CostForecast = { least: 0, likely: 0, most: 0, learned: true };

export class CostForecaster {
  readonly #pricing: Pricing;
  readonly #seen = new Map<string, Seen>();

  constructor(pricing: Pricing) {
    this.#pricing = pricing;
  }

  /**
   * Of the dearest of those that may be asked.
   * @param earlierTokens of turns that go in front of what the request says itself
   */
  forecast(request: AdmissionRequest, earlierTokens = 0): CostForecast {
    if (request.endpoint === COUNTING) return freeForecast;
    let dearest: CostForecast | undefined;
    for (const target of request.candidates) {
      const one = this.#forecastFor(target, request, earlierTokens);
      if (dearest === undefined || isDearer(one, dearest)) dearest = one;
    }
    return dearest ?? freeForecast;
  }

  /**
   * Of one request of a batch. Where it does not say how long its answer may be, no less is assumed than what the model
   * has answered recently.
   */
  ofBatch(target: Target, endpoint: string, json: Record<string, unknown>, bytes: number): BatchLineForecast {
    const seen = this.#seen.get(keyOf(target, endpoint));
    const usual = Math.max(seen?.outputTokens ?? 0, OUTPUT_TOKENS);
    const outputTokens = endpoint === EMBEDDINGS ? 0 : expectedOutput(json, usual);
    const inputTokens = Math.ceil(bytes * (seen?.inputPerByte ?? 1 / BYTES_PER_TOKEN));
    const operation = forwardOperations.find((one) => one.endpoint === endpoint);
    const units = operation === undefined ? undefined : unitsAsked(operation, json);
    const cost = this.#costOf(target, { endpoint: BATCHES, units, inputTokens, outputTokens });
    return { inputTokens, outputTokens, cost };
  }

  /** Remembers what a request turned out to cost. */
  learn(
    target: Target,
    { endpoint, bodyBytes, asked }: Pick<AdmissionRequest, 'endpoint' | 'bodyBytes' | 'asked'>,
    charge: Pick<Charge, 'usage' | 'totalCost'>,
  ): void {
    const { usage, totalCost } = charge;
    const key = keyOf(target, endpoint);
    const seen = this.#seen.get(key);
    const inputPerByte = Math.min(1, (usage.inputTokens ?? 0) / Math.max(1, bodyBytes));
    const outputTokens = (usage.outputTokens ?? 0) / answersAsked(asked.json);
    const cost = totalCost === null ? 0 : Number(totalCost);
    if (seen === undefined) {
      const [first] = this.#seen.keys();
      if (this.#seen.size >= MAX_MODELS && first !== undefined) this.#seen.delete(first);
      this.#seen.set(key, { inputPerByte, outputTokens, cost });
    } else {
      seen.inputPerByte = faded(seen.inputPerByte, inputPerByte);
      seen.outputTokens = faded(seen.outputTokens, outputTokens);
      seen.cost = faded(seen.cost, cost);
    }
  }

  #forecastFor(target: Target, request: AdmissionRequest, earlierTokens: number): CostForecast {
    const { bodyBytes, asked, endpoint, units } = request;
    const seen = this.#seen.get(keyOf(target, endpoint));
    // Nearly nothing that names no model costs anything, a list or a file; a passthrough does as others did before it.
    if (target.model === '') return { least: 0, likely: seen?.cost ?? 0, most: seen?.cost ?? 0, learned: true };
    const answers = answersAsked(asked.json);
    const limit = endpoint === EMBEDDINGS ? undefined : outputLimit(asked.json);
    const usual = endpoint === EMBEDDINGS ? 0 : (seen?.outputTokens ?? limit ?? OUTPUT_TOKENS);
    const outputTokens = Math.ceil(Math.min(usual, limit ?? usual) * answers);
    const inputTokens = Math.ceil(bodyBytes * (seen?.inputPerByte ?? 1 / BYTES_PER_TOKEN)) + earlierTokens;
    const assumed = { endpoint, units, inputTokens, outputTokens };
    const likely = this.#costOf(target, assumed);
    if (likely === undefined) {
      // Without a price table and a reported cost nothing can be charged.
      if (!reportsCost(target.provider.type)) return freeForecast;
      return { least: 0, likely: seen?.cost, most: seen?.cost, learned: seen !== undefined };
    }
    const longest = limit === undefined ? outputTokens : Math.max(outputTokens, Math.ceil(limit * answers));
    const most = longest === outputTokens ? likely : this.#costOf(target, { ...assumed, outputTokens: longest });
    if (seen !== undefined) return { least: 0, likely, most, learned: true };
    const least = this.#costOf(target, { endpoint, units, inputTokens: 0, outputTokens: 0 }) ?? 0;
    return { least, likely, most, learned: least === likely };
  }

  #costOf({ provider: { name: provider, type: providerType }, model }: Target, assumed: Assumed): number | undefined {
    const { endpoint, units, inputTokens, outputTokens } = assumed;
    const totalTokens = inputTokens + outputTokens;
    const usage = { ...unknownUsage, inputTokens, outputTokens, totalTokens, source: 'provider' as const };
    const { totalCost } = this.#pricing.costOf({ provider, providerType, model, endpoint, usage, units });
    return totalCost === null ? undefined : Number(totalCost);
  }
}

function keyOf({ provider, model }: Target, endpoint: string): string {
  return `${provider.name}/${model || endpoint}`;
}

/** A target without a known price counts as the dearest. */
function isDearer(one: CostForecast, other: CostForecast): boolean {
  return (one.likely ?? Number.POSITIVE_INFINITY) > (other.likely ?? Number.POSITIVE_INFINITY);
}

function faded(most: number, now: number): number {
  return now >= most ? now : most + (now - most) * FADING;
}
