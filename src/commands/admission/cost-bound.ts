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
import { isBatch, reportsCost } from '../pricing/cost-of-usage.ts';
import type { PricedUsage, Pricing } from '../pricing/pricing.ts';

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
  target: Target,
  { endpoint: own, pricedAs: endpoint = own, units }: BoundedRequest,
  { input, output, writesCache }: TokenBound,
  pricing: Pricing,
): number | undefined {
  const { provider, model } = target;
  // A provider's own API: the gateway does not know what the request costs.
  if (model === '') return undefined;
  const priced = { provider: provider.name, providerType: provider.type, model, endpoint, units };
  const tierEnds = pricing.tierEnds?.(priced);
  const shape = shapeAt(priced, tierEnds, pricing);
  if (shape === undefined) return reportsCost(provider.type) ? undefined : 0;
  if (shape.isOpen) return undefined;
  if ((shape.dependsOnInput && input === undefined) || (shape.dependsOnOutput && output === undefined))
    return undefined;
  const outputTokens = output ?? 0;
  // A request may turn out smaller than its bound, and a tier of smaller requests may be dearer.
  const smaller = tierEnds?.filter((end) => end < (input ?? Infinity)) ?? [];
  let highest = 0;
  for (const inputTokens of [input ?? 0, ...smaller]) {
    const kinds: Partial<TokenUsage>[] = [{}];
    if (shape.dependsOnReasoning) kinds.push({ reasoningTokens: outputTokens });
    const written = { cacheWriteInputTokens: inputTokens };
    if (writesCache) kinds.push(written, { ...written, cacheWrite1hInputTokens: inputTokens });
    const costs = kinds.map((kind) => sidesOf({ ...plain(inputTokens, outputTokens), ...kind }, priced, pricing));
    const [inputCost, outputCost] = (['input', 'output'] as const).map((side) =>
      Math.max(...costs.map((cost) => cost?.[side] ?? 0)),
    );
    highest = Math.max(highest, (inputCost ?? 0) + (outputCost ?? 0));
  }
  return highest;
}

type Priced = Pick<PricedUsage, 'provider' | 'providerType' | 'model' | 'endpoint' | 'units'>;

/** On which counts the cost at a price depends. */
interface CostShape {
  /** Whether some count leaves the cost unknown. */
  readonly isOpen: boolean;
  readonly dependsOnInput: boolean;
  readonly dependsOnOutput: boolean;
  readonly dependsOnReasoning: boolean;
}

/** By the tiers of a price, which identify it, and whether it is that of a batch. */
const shapes = new WeakMap<readonly number[], Map<boolean, CostShape | undefined>>();

/** Undefined without a price. */
function shapeAt(priced: Priced, tierEnds: readonly number[] | undefined, pricing: Pricing): CostShape | undefined {
  if (tierEnds === undefined || priced.units !== undefined) return computedShape(priced, tierEnds, pricing);
  let known = shapes.get(tierEnds);
  if (known === undefined) {
    known = new Map();
    shapes.set(tierEnds, known);
  }
  const key = isBatch(priced.endpoint);
  if (known.has(key)) return known.get(key);
  const shape = computedShape(priced, tierEnds, pricing);
  known.set(key, shape);
  return shape;
}

function computedShape(priced: Priced, tierEnds: readonly number[] = [], pricing: Pricing): CostShape | undefined {
  const at = (usage: Partial<TokenUsage>) => sidesOf(usage, priced, pricing);
  const least = at(plain(0, 0));
  if (least === undefined) return undefined;
  const sizes = [Math.max(MANY, ...tierEnds.map((end) => end + 1)), ...tierEnds];
  const many = sizes.map((size) => at({ ...plain(size, MANY), inputSeconds: MANY }));
  const thought = sizes.map((size) => at({ ...plain(size, MANY), inputSeconds: MANY, reasoningTokens: MANY }));
  return {
    isOpen: many.includes(undefined),
    dependsOnInput: many.some((cost) => cost?.input !== least.input),
    dependsOnOutput: many.some((cost) => cost?.output !== least.output),
    dependsOnReasoning: thought.some((cost, index) => cost?.output !== many[index]?.output),
  };
}

/** Nano-dollars; undefined when one of them is unknown. */
function sidesOf(usage: Partial<TokenUsage>, priced: Priced, pricing: Pricing) {
  const counts = { ...unknownUsage, source: 'provider' as const, ...usage };
  const { inputCost, outputCost, totalCost } = pricing.costOf({ ...priced, usage: counts });
  return totalCost === null ? undefined : { input: Number(inputCost), output: Number(outputCost) };
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
