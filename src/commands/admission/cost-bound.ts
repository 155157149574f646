/**
 * The highest cost that a request can have: its input at a token per byte, and the longest answer that it allows, at the
 * dearest rates of its candidates and their tiers. A provider that charges more than its price, or ignores the limit, exceeds it.
 */
import { foldedName } from '../../json/body-scan.ts';
import { isNamedOnly } from '../../providers/translate/responses-to-chat/items-to-chat-messages.ts';
import type { AdmissionRequest } from '../model-request/admission.ts';
import type { Target } from '../model-request/routing-types.ts';
import {
  boundOfAnswers,
  boundOfOutput,
  callsFor,
  hasAnswerLimit,
  type TokenUsage,
  unknownUsage,
} from '../model-request/usage.ts';
import { reportsCost } from '../pricing/cost-of-usage.ts';
import type { Pricing } from '../pricing/pricing.ts';

type BoundingFacts = 'endpoint' | 'candidates' | 'units' | 'bodyBytes' | 'isAmbiguous';

/** The parts of a request on which its cost depends. */
export interface BoundedRequest extends Pick<AdmissionRequest, BoundingFacts> {
  readonly json: Readonly<Record<string, unknown>>;
  /** The endpoint whose prices apply; default: its own. */
  readonly pricedAs?: string;
  /** The most tokens of earlier turns in front of the request's own input; undefined when that is not known. */
  readonly earlierTokens?: number | undefined;
}

/** The limit of tokens that the gateway sets for each answer, where the request has none or a larger one. */
export type SetLimit = (target: Target) => number;

/**
 * The bound of a request, with or without a limit that the gateway sets.
 * @returns nano-dollars; undefined when the request has no bound
 */
export type CostBound = (limit?: SetLimit) => number | undefined;

/** Tokens that providers put around a request, and their instructions for the use of tools. */
const OVERHEAD_TOKENS = 100;
const TOOL_OVERHEAD_TOKENS = 1000;
/** Whether a cost depends on a count shows when the count is large. */
const MANY = 1_000_000;
/** Endpoints without an answer whose cost depends on tokens of text alone, for requests of text. */
const INPUT_ENDPOINTS: ReadonlySet<string> = new Set(['/v1/embeddings']);

interface TokenBound {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly writesCache: boolean;
}

/** The longest output at a target, under a limit that the gateway sets there, all answers together. */
type LongestOutput = (target: Target, limit: SetLimit | undefined) => number | undefined;

/** The most tokens of input: a token per byte, and what the provider adds. */
export function mostInputTokens({ bodyBytes, json }: Pick<BoundedRequest, 'bodyBytes' | 'json'>): number {
  return bodyBytes + (Array.isArray(json['tools']) ? TOOL_OVERHEAD_TOKENS : OVERHEAD_TOKENS);
}

/** Reads the request once, for any number of limits. */
export function costBoundOf(request: BoundedRequest, pricing: Pricing): CostBound {
  const tokens = tokenBound(request);
  return (limit) => {
    let highest = 0;
    for (const target of request.candidates) {
      const calls = callsFor(request.endpoint, target.provider.type, request.json);
      const longest = tokens.output(target, limit);
      const output = longest === undefined ? undefined : longest / calls;
      const bound = boundAt(target, request, { ...tokens, output }, pricing);
      if (bound === undefined) return undefined;
      highest = Math.max(highest, calls * bound);
    }
    return highest;
  };
}

/** The most that a request can cost whose input the provider has counted. @param outputTokens its longest answers, all together */
export function boundOfCounted(
  { provider: { name: provider, type: providerType }, model }: Target,
  { endpoint, units }: Pick<BoundedRequest, 'endpoint' | 'units'>,
  { usage, outputTokens }: { readonly usage: TokenUsage; readonly outputTokens: number },
  pricing: Pricing,
): number | undefined {
  const totalTokens = (usage.inputTokens ?? 0) + outputTokens;
  const costs = [null, outputTokens].map((reasoningTokens) => {
    const most = { ...usage, outputTokens, totalTokens, reasoningTokens, raw: null };
    return pricing.costOf({ provider, providerType, model, endpoint, units, usage: most }).totalCost;
  });
  return costs.includes(null) ? undefined : Math.max(...costs.map(Number));
}

function tokenBound(request: BoundedRequest): Omit<TokenBound, 'output'> & { readonly output: LongestOutput } {
  const { endpoint, json, earlierTokens, isAmbiguous } = request;
  const continues = (json['previous_response_id'] ?? json['conversation'] ?? null) !== null;
  const { isText, writesCache } = contentOf(json);
  const isKnown =
    isAmbiguous !== true &&
    (hasAnswerLimit(endpoint) || INPUT_ENDPOINTS.has(endpoint)) &&
    isText &&
    !(continues && earlierTokens === undefined) &&
    // Some servers ignore the case of names.
    Object.keys(json).every((name) => name === foldedName(name));
  if (!isKnown) return { input: undefined, output: () => undefined, writesCache };
  const input = mostInputTokens(request) + (earlierTokens ?? 0);
  return { input, output: hasAnswerLimit(endpoint) ? longestOutput(request) : () => 0, writesCache };
}

function longestOutput({ endpoint, json }: BoundedRequest): LongestOutput {
  const answers = boundOfAnswers(json);
  if (answers === undefined) return () => undefined;
  return (target, limit) => {
    const own = boundOfOutput(json, endpoint, target.provider.type);
    if (own === undefined && limit === undefined) return undefined;
    return Math.min(own ?? Infinity, limit?.(target) ?? Infinity) * answers;
  };
}

function boundAt(
  { provider, model }: Target,
  { endpoint: own, pricedAs: endpoint = own, units }: BoundedRequest,
  { input, output, writesCache }: TokenBound,
  pricing: Pricing,
): number | undefined {
  // A provider's own API: the gateway does not know what the request costs.
  if (model === '') return undefined;
  const { name, type: providerType } = provider;
  const costOf = (usage: Partial<TokenUsage>) => {
    const counts = { ...unknownUsage, source: 'provider' as const, ...usage };
    const cost = pricing.costOf({ provider: name, providerType, model, endpoint, units, usage: counts });
    const { inputCost, outputCost, totalCost } = cost;
    return totalCost === null ? undefined : { input: Number(inputCost), output: Number(outputCost) };
  };
  const least = costOf(plain(0, 0));
  if (least === undefined) return reportsCost(provider.type) ? undefined : 0;
  // A request may turn out smaller than its bound, and a tier of smaller requests may be dearer.
  const tierEnds = pricing.tierEnds?.({ provider: name, providerType, model }) ?? [];
  const sizes = [Math.max(MANY, ...tierEnds.map((end) => end + 1)), ...tierEnds];
  const many = sizes.map((size) => costOf({ ...plain(size, MANY), inputSeconds: MANY }));
  if (many.includes(undefined)) return undefined;
  const dependsOnInput = many.some((cost) => cost?.input !== least.input);
  const dependsOnOutput = many.some((cost) => cost?.output !== least.output);
  if ((dependsOnInput && input === undefined) || (dependsOnOutput && output === undefined)) return undefined;
  const outputTokens = output ?? 0;
  const costs = [input ?? 0, ...tierEnds.filter((end) => end < (input ?? Infinity))].map((inputTokens) => {
    const written = { cacheWriteInputTokens: inputTokens };
    const kinds = [
      {},
      { reasoningTokens: outputTokens },
      ...(writesCache ? [written, { ...written, cacheWrite1hInputTokens: inputTokens }] : []),
    ].map((kind) => costOf({ ...plain(inputTokens, outputTokens), ...kind }));
    return Math.max(...kinds.map((cost) => cost?.input ?? 0)) + Math.max(...kinds.map((cost) => cost?.output ?? 0));
  });
  return Math.max(...costs);
}

function plain(inputTokens: number, outputTokens: number) {
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens };
}

// What the members of a request show about its tokens. Conservative: what is not known to be text is not.

interface RequestContent {
  /** Whether its tokens are those of its own text. */
  readonly isText: boolean;
  /** Whether it asks the provider to write to its prompt cache. */
  readonly writesCache: boolean;
}

/** Types of content whose tokens do not depend on its bytes, or that name content stored elsewhere. */
const OTHER_CONTENT = /image|audio|video|file|document|screenshot|reference|upload/i;
const MAX_TYPE_LENGTH = 40;
/** Tools that a client runs; others run at the provider, and what they find becomes input. */
const CLIENT_TOOLS: ReadonlySet<unknown> = new Set([undefined, 'function', 'custom']);
/** Members that add input, or kinds of output, that the request does not show. */
const ADDS_TOKENS = [
  ...['web_search_options', 'plugins', 'audio', 'mcp_servers', 'container', 'prompt_embeds'],
  ...['images', 'image_data', 'video_data', 'audio_data', 'input_embeds'],
];

export function contentOf(json: Readonly<Record<string, unknown>>): RequestContent {
  const { messages, input, system, instructions, tools, prompt, modalities } = json;
  const walked = walk([messages, input, system, instructions, tools]);
  const isText =
    walked.isText &&
    (!Array.isArray(input) || !input.some(isNamedOnly)) &&
    ADDS_TOKENS.every((name) => (json[name] ?? null) === null) &&
    // A stored prompt of the Responses API; in other APIs the prompt is text, a list of texts, or tokens.
    (typeof prompt !== 'object' || prompt === null || Array.isArray(prompt)) &&
    (!Array.isArray(modalities) || modalities.every((one) => one === 'text')) &&
    (!Array.isArray(tools) || tools.every(isClientTool));
  return { isText, writesCache: walked.writesCache || (json['cache_control'] ?? null) !== null };
}

function isClientTool(tool: unknown): boolean {
  return typeof tool === 'object' && tool !== null && CLIENT_TOOLS.has('type' in tool ? tool.type : undefined);
}

function walk(values: readonly unknown[]): { isText: boolean; writesCache: boolean } {
  const found = { isText: true, writesCache: false };
  // Iterative, because a client may nest to any depth.
  const rest: unknown[] = [...values];
  while (rest.length > 0) {
    const value = rest.pop();
    if (Array.isArray(value)) {
      for (const each of value) rest.push(each);
    } else if (typeof value === 'object' && value !== null) {
      const type = 'type' in value ? value.type : undefined;
      if (typeof type === 'string' && type.length <= MAX_TYPE_LENGTH && OTHER_CONTENT.test(type)) found.isText = false;
      if ('cache_control' in value) found.writesCache = true;
      if ('images' in value || 'multimodal_data' in value) found.isText = false;
      if (found.isText && repeatsName(value)) found.isText = false;
      for (const member of Object.values(value)) if (typeof member === 'object') rest.push(member);
    }
  }
  return found;
}

/** Whether two names differ in case only: a server that ignores case may read another of the two than the gateway. */
function repeatsName(object: object): boolean {
  let others: Set<string> | undefined;
  for (const name in object) {
    const own = foldedName(name);
    // Names in lower case differ from each other.
    if (own === name) continue;
    if (Object.hasOwn(object, own) || others?.has(own) === true) return true;
    others ??= new Set();
    others.add(own);
  }
  return false;
}
