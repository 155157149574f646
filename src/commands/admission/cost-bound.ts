/**
 * The highest cost that a request can have: its input at a token per byte, and the longest answer that it allows, at the
 * dearest rates of its candidates. A provider that charges more than its price, or ignores the limit, exceeds it.
 */
import type { AdmissionRequest } from '../model-request/admission.ts';
import type { Target } from '../model-request/target.ts';
import { boundOfAnswers, boundOfOutput } from '../model-request/token-estimate.ts';
import { type TokenUsage, unknownUsage } from '../model-request/usage.ts';
import type { Pricing } from '../pricing/pricing.ts';
import { reportsCost } from '../pricing/reported-cost.ts';
import { contentOf } from './request-content.ts';

type BoundingFacts = 'endpoint' | 'candidates' | 'units' | 'bodyBytes' | 'repeatsName';

/** The parts of a request on which its cost depends. */
export interface BoundedRequest extends Pick<AdmissionRequest, BoundingFacts> {
  readonly json: Readonly<Record<string, unknown>>;
  /** The endpoint whose prices apply; default: its own. */
  readonly pricedAs?: string;
  /** The most tokens of earlier turns in front of the request's own input; undefined when that is not known. */
  readonly earlierTokens?: number | undefined;
}

/** @returns nano-dollars; undefined when the request has no bound */
export type CostBound = (request: BoundedRequest, pricing: Pricing) => number | undefined;

/** Tokens that providers put around a request, and their instructions for the use of tools. */
const OVERHEAD_TOKENS = 100;
const TOOL_OVERHEAD_TOKENS = 1000;
/** Whether a cost depends on a count shows when the count is large. */
const MANY = 1_000_000;
/**
 * Endpoints whose cost depends on tokens of text alone, for requests of text, and the members of their APIs that limit the
 * answer: a provider ignores those of other APIs. Undefined where there is no answer.
 */
const TEXT_ENDPOINTS: ReadonlyMap<string, readonly string[] | undefined> = new Map([
  ['/v1/chat/completions', ['max_completion_tokens', 'max_tokens']],
  ['/v1/responses', ['max_output_tokens']],
  ['/v1/messages', ['max_tokens']],
  ['/v1/embeddings', undefined],
  ['/v1/completions', ['max_tokens']],
]);

interface TokenBound {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly writesCache: boolean;
}

export const boundOfCost: CostBound = (request, pricing) => {
  const tokens = tokenBound(request);
  let highest = 0;
  for (const target of request.candidates) {
    const bound = boundAt(target, request, tokens, pricing);
    if (bound === undefined) return undefined;
    highest = Math.max(highest, bound);
  }
  return highest;
};

function tokenBound({ endpoint, bodyBytes, json, earlierTokens, repeatsName }: BoundedRequest): TokenBound {
  const continues = (json['previous_response_id'] ?? json['conversation'] ?? null) !== null;
  const { isText, writesCache } = contentOf(json);
  const isKnown =
    TEXT_ENDPOINTS.has(endpoint) &&
    isText &&
    !(continues && earlierTokens === undefined) &&
    // Some servers ignore the case of names.
    Object.keys(json).every((name) => name === name.toLowerCase()) &&
    repeatsName?.() !== true;
  if (!isKnown) return { input: undefined, output: undefined, writesCache };
  const overhead = Array.isArray(json['tools']) ? TOOL_OVERHEAD_TOKENS : OVERHEAD_TOKENS;
  const input = bodyBytes + overhead + (earlierTokens ?? 0);
  const limits = TEXT_ENDPOINTS.get(endpoint);
  return { input, output: limits === undefined ? 0 : longestOutput(json, limits), writesCache };
}

function longestOutput(json: BoundedRequest['json'], limits: readonly string[]): number | undefined {
  const [limit, answers] = [boundOfOutput(json, limits), boundOfAnswers(json)];
  return limit === undefined || answers === undefined ? undefined : limit * answers;
}

function boundAt(
  { provider, model }: Target,
  { endpoint: own, pricedAs: endpoint = own, units }: BoundedRequest,
  { input, output, writesCache }: TokenBound,
  pricing: Pricing,
): number | undefined {
  // A provider's own API: the gateway does not know what the request costs.
  if (model === '') return undefined;
  const costOf = (usage: Partial<TokenUsage>) => {
    const counts = { ...unknownUsage, source: 'provider' as const, ...usage };
    const { name, type: providerType } = provider;
    const cost = pricing.costOf({ provider: name, providerType, model, endpoint, units, usage: counts });
    const { inputCost, outputCost, totalCost } = cost;
    return totalCost === null ? undefined : { input: Number(inputCost), output: Number(outputCost) };
  };
  const least = costOf(plain(0, 0));
  if (least === undefined) return reportsCost(provider.type) ? undefined : 0;
  const many = costOf({ ...plain(MANY, MANY), inputSeconds: MANY });
  if (many === undefined) return undefined;
  const dependsOnInput = many.input !== least.input;
  const dependsOnOutput = many.output !== least.output;
  if ((dependsOnInput && input === undefined) || (dependsOnOutput && output === undefined)) return undefined;
  const [inputTokens, outputTokens] = [input ?? 0, output ?? 0];
  const written = { cacheWriteInputTokens: inputTokens };
  const kinds = [
    {},
    { reasoningTokens: outputTokens },
    ...(writesCache ? [written, { ...written, cacheWrite1hInputTokens: inputTokens }] : []),
  ].map((kind) => costOf({ ...plain(inputTokens, outputTokens), ...kind }));
  return Math.max(...kinds.map((cost) => cost?.input ?? 0)) + Math.max(...kinds.map((cost) => cost?.output ?? 0));
}

function plain(inputTokens: number, outputTokens: number) {
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens };
}
