/** The usage of an answer, in the gateway's form: as the answer reports it, or estimated. Pure. */
import type { z } from 'zod';
import type { tokenCounts } from '../../events/catalogue/exchange.ts';
import { isObject } from '../../json/is-object.ts';
import { MAX_CALLS } from '../../providers/parallel-calls.ts';
import { providerType } from '../../providers/types.ts';

/** Counts are null where the provider does not report them. */
export interface TokenUsage extends Readonly<z.infer<z.ZodObject<typeof tokenCounts>>> {
  /** Seconds of audio, where a provider counts them. */
  readonly inputSeconds?: number | undefined;
  readonly source: 'provider' | 'unknown';
  readonly raw: Record<string, unknown> | null;
  /** Of parallel calls, until every one has reported all: what each has reported. The counts are the sum of these. */
  readonly byCall?: readonly { readonly usage: TokenUsage; readonly isFinal: boolean }[];
}

export const unknownUsage: TokenUsage = {
  inputTokens: null,
  outputTokens: null,
  totalTokens: null,
  cachedInputTokens: null,
  cacheWriteInputTokens: null,
  cacheWrite1hInputTokens: null,
  reasoningTokens: null,
  audioInputTokens: null,
  audioOutputTokens: null,
  imageInputTokens: null,
  imageOutputTokens: null,
  acceptedPredictionTokens: null,
  rejectedPredictionTokens: null,
  source: 'unknown',
  raw: null,
};

type Json = Record<string, unknown>;
const nothing: Json = Object.freeze({});

/**
 * Reads every vocabulary: `prompt_tokens`/`completion_tokens` and `input_tokens`/`output_tokens`. Anthropic's
 * `input_tokens` exclude cached tokens; here they are included, as with other providers. A member that is not a number
 * of tokens is null, and so is a total of which a part cannot be read.
 */
export function readUsage(raw: unknown): TokenUsage {
  if (!isObject(raw)) return unknownUsage;
  const inputTokens = count(raw.prompt_tokens) ?? withCached(count(raw.input_tokens), raw);
  const outputTokens = count(raw.completion_tokens) ?? count(raw.output_tokens);
  const total = count(raw.total_tokens);
  // OpenAI counts some transcriptions in seconds; Mistral reports seconds for all.
  const seconds = raw.type === 'duration' ? raw.seconds : raw.prompt_audio_seconds;
  const isSeconds = typeof seconds === 'number' && seconds >= 0 && seconds <= MAX_COUNT;
  const inputSeconds = isSeconds ? seconds : undefined;
  if (inputTokens === null && outputTokens === null && total === null && inputSeconds === undefined) {
    return unknownUsage;
  }
  const { prompt_tokens_details, input_tokens_details, completion_tokens_details, output_tokens_details } = raw;
  // The Realtime API names them in the singular.
  const input = [prompt_tokens_details, input_tokens_details, raw.input_token_details].find(isObject) ?? nothing;
  const output = [completion_tokens_details, output_tokens_details, raw.output_token_details].find(isObject) ?? nothing;
  const isSummable = inputTokens !== null && (outputTokens !== null || !OUTPUT_NAMES.some((name) => name in raw));
  const usage: TokenUsage = {
    inputTokens,
    outputTokens,
    totalTokens: total ?? (isSummable ? inputTokens + (outputTokens ?? 0) : null),
    cachedInputTokens:
      count(input.cached_tokens) ??
      count(raw.cache_read_input_tokens) ??
      count(raw.prompt_cache_hit_tokens) ??
      count(raw.cached_tokens),
    cacheWriteInputTokens:
      count(input.cache_write_tokens) ?? count(input.cache_creation_tokens) ?? count(raw.cache_creation_input_tokens),
    cacheWrite1hInputTokens:
      count(input.cache_write_1h_tokens) ??
      count(isObject(raw.cache_creation) ? raw.cache_creation.ephemeral_1h_input_tokens : undefined),
    reasoningTokens: count(output.reasoning_tokens) ?? count(output.thinking_tokens) ?? count(raw.reasoning_tokens),
    audioInputTokens: count(input.audio_tokens),
    audioOutputTokens: count(output.audio_tokens),
    imageInputTokens: count(input.image_tokens),
    imageOutputTokens: count(output.image_tokens),
    acceptedPredictionTokens: count(output.accepted_prediction_tokens),
    rejectedPredictionTokens: count(output.rejected_prediction_tokens),
    source: 'provider',
    raw,
  };
  return inputSeconds === undefined ? usage : { ...usage, inputSeconds };
}

/**
 * The usage as it is charged and recorded: thinking that a provider of this type counts beside the output is a part of
 * it. Where the documentation of a provider does not say so, a total above input and output is not charged.
 */
export function withThinking(usage: TokenUsage, type: string): TokenUsage {
  const { inputTokens, outputTokens, totalTokens, reasoningTokens } = usage;
  if (inputTokens === null || outputTokens === null || totalTokens === null) return usage;
  const rest = totalTokens - inputTokens - outputTokens;
  if (rest <= 0) return usage;
  const beside = providerType(type)?.thinkingBesideOutput;
  const isThinking =
    reasoningTokens === null ? beside === 'in total' : beside !== undefined && reasoningTokens === rest;
  return isThinking ? { ...usage, outputTokens: outputTokens + rest, reasoningTokens: rest } : usage;
}

/**
 * Whether an answer without reported output has none, as for embeddings: its provider counts input, a total not above
 * it, and has no member for output tokens.
 */
export function hasNoOutput({ inputTokens, outputTokens, totalTokens, raw }: TokenUsage): boolean {
  if (outputTokens !== null || inputTokens === null || totalTokens === null || totalTokens > inputTokens) return false;
  return raw === null || !OUTPUT_NAMES.some((name) => name in raw);
}

/** Whether the provider has counted input and output, or the seconds of a recording. */
export function isReported({ inputTokens, outputTokens, inputSeconds }: TokenUsage): boolean {
  return inputSeconds !== undefined || (inputTokens !== null && outputTokens !== null);
}

/** Whether an answer whose text has no tokens can be charged as its provider reported it. */
export function isCounted(usage: TokenUsage): boolean {
  return isReported(usage) || hasNoOutput(usage);
}

/** What in a report cannot be read or contradicts itself; undefined for nearly every report. */
export function contradictionIn(usage: TokenUsage): string | undefined {
  const { inputTokens, outputTokens, totalTokens, cachedInputTokens, raw } = usage;
  const found: string[] = [];
  if (raw !== null) {
    for (const name of COUNTS)
      if ((raw[name] ?? 0) !== 0 && count(raw[name]) === null) found.push(`${name} is no count`);
  }
  if (inputTokens !== null && outputTokens !== null && totalTokens !== null) {
    const rest = totalTokens - inputTokens - outputTokens;
    if (rest > 0) found.push(`${rest} tokens of the total are neither input nor output`);
    if (rest < 0) found.push(`the total is ${-rest} tokens below input and output`);
  }
  if (inputTokens !== null && cachedInputTokens !== null && cachedInputTokens > inputTokens) {
    found.push(`${cachedInputTokens} cached tokens of ${inputTokens} input tokens`);
  }
  return found.length === 0 ? undefined : found.join('; ');
}

const OUTPUT_NAMES = ['completion_tokens', 'output_tokens'] as const;
const OLLAMA_NAMES = ['prompt_eval_count', 'eval_count'] as const;
const COUNTS = ['prompt_tokens', 'input_tokens', ...OUTPUT_NAMES, 'total_tokens', ...OLLAMA_NAMES] as const;

function withCached(uncached: number | null, raw: Json): number | null {
  if (uncached === null) return null;
  return uncached + (count(raw.cache_read_input_tokens) ?? 0) + (count(raw.cache_creation_input_tokens) ?? 0);
}

/** More than any request has. Sums and prices of larger counts would exceed the range of the record and the tables. */
const MAX_COUNT = 1e12;

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_COUNT ? value : null;
}

/** Tokens counted by the gateway when a provider did not report them. */
export interface EstimatedTokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** The units of a request that are not tokens. */
export interface Units {
  /** Characters of text to be spoken. */
  readonly inputCharacters?: number | undefined;
  readonly outputImages?: number | undefined;
}

/** Work that a provider continues after its answer; its cost is known when it is over. */
export interface DeferredWork {
  readonly kind: 'response' | 'batch';
  /** The provider's own id of the work. */
  readonly id: string;
  /** For a batch whose input was read: the work per model. */
  readonly parts?: readonly WorkPart[] | undefined;
}

/** The part of such work for one model. */
export interface WorkPart extends EstimatedTokens {
  readonly model: string;
  readonly answers: number;
}

/**
 * The tokens that rate limits count: the estimate where there is one, else the reported number; null when it is
 * unknown.
 */
export function countedTokens(reported: number | null, estimate: EstimatedTokens | undefined): number | null {
  return estimate === undefined ? reported : estimate.inputTokens + estimate.outputTokens;
}

// Estimates the tokens of a request or an answer that no provider has counted. Pure.

/** For English text, without the punctuation of JSON. */
const BYTES_PER_TOKEN = 4;
/** Tokens of an attached image, recording or document of usual size, whatever its length. */
const MEDIA_TOKENS = 1_000;
const MEDIA = /^(?:data:[^,]{0,200};base64,|[A-Za-z0-9+/=_-]{1024})/;
const OUTPUT_TOKENS = 1024;
/** Members of OpenAI's and Anthropic's APIs, and of local servers with limits of their own. */
export const OUTPUT_LIMITS: readonly string[] = [
  ...['max_output_tokens', 'max_completion_tokens', 'max_tokens'],
  ...['n_predict', 'num_predict', 'max_new_tokens'],
];
const ALL_LIMITS: readonly string[] = ['options.num_predict', ...OUTPUT_LIMITS];

export function tokensInBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

export function tokensInText(text: string): number {
  return tokensInBytes(Buffer.byteLength(text));
}

/** Tokens of all text in a request. The names of members represent the text that a model gets around it. */
export function promptTokens(json: unknown): number {
  let bytes = 0;
  let media = 0;
  // Iterative, because a client may nest to any depth.
  const rest: unknown[] = [json];
  while (rest.length > 0) {
    const value = rest.pop();
    if (typeof value === 'string') {
      if (MEDIA.test(value)) media += 1;
      else bytes += Buffer.byteLength(value);
    } else if (Array.isArray(value)) {
      for (const each of value) rest.push(each);
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        bytes += name.length;
        rest.push(member);
      }
    }
  }
  return tokensInBytes(bytes) + media * MEDIA_TOKENS;
}

type RequestMembers = Readonly<Record<string, unknown>>;

/** More are refused by every provider. */
const MOST_ANSWERS = 1000;
/** Of a number as text. */
const MAX_DIGITS = 40;
/** No model answers with more tokens; a client may send any number. */
const MAX_OUTPUT_TOKENS = 100_000_000;

/**
 * The longest answer that a request allows, by any of its limits that a provider may apply; undefined when it has
 * none, or when one of them is not a positive number, such as -1, which local servers treat as unlimited.
 */
export function outputLimit(json: RequestMembers): number | undefined {
  let longest: number | undefined;
  for (const name of ALL_LIMITS) {
    const limit = memberAt(json, name);
    if (limit === null) continue;
    if (typeof limit !== 'number' || !(limit > 0)) return undefined;
    longest = Math.min(Math.max(limit, longest ?? 0), MAX_OUTPUT_TOKENS);
  }
  return longest;
}

/** The largest number among the limits, those included that only some providers understand; 0 without any. */
export function largestLimit(json: RequestMembers): number {
  let largest = 0;
  for (const name of ALL_LIMITS) largest = Math.max(largest, numberIn(memberAt(json, name)) ?? 0);
  return Math.min(largest, MAX_OUTPUT_TOKENS);
}

const CHAT_LIMITS = ['max_tokens', 'max_completion_tokens'];
/**
 * The members that limit an answer, by endpoint or by dialect to the provider: those of other APIs are ignored there. The
 * first is the one that the gateway adds. A dot precedes a member of a member.
 */
const ANSWER_LIMITS: Readonly<Record<string, readonly string[]>> = {
  '/v1/chat/completions': CHAT_LIMITS,
  '/v1/completions': ['max_tokens'],
  '/v1/messages': ['max_tokens'],
  '/v1/responses': ['max_output_tokens'],
  chat: CHAT_LIMITS,
  forward: ['max_tokens'],
  messages: ['max_tokens'],
  ollama_chat: ['options.num_predict'],
  responses: ['max_output_tokens'],
  // Of servers' own APIs: Ollama, llama.cpp, SGLang.
  '/api/chat': ['options.num_predict'],
  '/api/generate': ['options.num_predict'],
  '/completion': ['n_predict'],
  '/infill': ['n_predict'],
  '/generate': ['sampling_params.max_new_tokens'],
};
/** Members that the servers of a type, or the translation for them, read besides those. */
const SERVER_LIMITS: Readonly<Record<string, readonly string[]>> = {
  // It turns a request of another API into a chat completion, with all its members.
  llamacpp: ['n_predict', ...CHAT_LIMITS],
  ollama: ['num_predict', 'options.num_predict'],
  simulated: ['n_predict'],
};

/** Of chat completions, by the type of the server. */
const chatLimits = new Map(Object.entries(SERVER_LIMITS).map(([type, own]) => [type, [...CHAT_LIMITS, ...own]]));

/** Whether the gateway knows how answers are limited there. */
export function hasAnswerLimit(endpoint: string): boolean {
  return Object.hasOwn(ANSWER_LIMITS, endpoint);
}

/** The members that count as the request's limit at a provider of this type. @param sentTo an endpoint, or a dialect */
export function answerLimits(sentTo: string, type: string): readonly string[] {
  const names = ANSWER_LIMITS[sentTo] ?? [];
  return names === CHAT_LIMITS ? (chatLimits.get(type) ?? names) : names;
}

const knownLimits = new Map<string, readonly string[]>();

/** Those, and the members that may limit the answer instead of them, also where the request is translated. */
export function appliedLimits(sentTo: string, type: string): readonly string[] {
  const key = `${sentTo} ${type}`;
  const known = knownLimits.get(key);
  if (known !== undefined) return known;
  const row = providerType(type);
  const isTranslated =
    (sentTo === '/v1/messages' && row?.paths?.messages === undefined) ||
    (sentTo === '/v1/responses' && row?.responses !== 'yes');
  const translated = isTranslated ? CHAT_LIMITS : [];
  const names = [...new Set([...(ANSWER_LIMITS[sentTo] ?? []), ...(SERVER_LIMITS[type] ?? []), ...translated])];
  // A path of a provider's own API can have any name.
  if (hasAnswerLimit(sentTo)) knownLimits.set(key, names);
  return names;
}

/**
 * The output that no answer exceeds at a provider that follows its API: the largest limit that the provider may apply.
 * Undefined without one, and when one of them could be understood in another way, such as -1 for an endless answer.
 */
export function boundOfOutput(json: RequestMembers, endpoint: string, type: string): number | undefined {
  let isLimited = false;
  for (const name of answerLimits(endpoint, type)) isLimited ||= memberAt(json, name) !== null;
  if (!isLimited) return undefined;
  let longest = 0;
  for (const name of appliedLimits(endpoint, type)) {
    const limit = memberAt(json, name);
    if (limit === null) continue;
    if (!isLimitWithin(limit, Infinity)) return undefined;
    longest = Math.max(longest, Number(limit));
  }
  return Math.min(longest, MAX_OUTPUT_TOKENS);
}

export function isLimitWithin(value: unknown, limit: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= limit;
}

/** Null when there is none. */
function memberAt(json: RequestMembers, path: string): unknown {
  const dot = path.indexOf('.');
  if (dot === -1) return json[path] ?? null;
  const value = json[path.slice(0, dot)] ?? null;
  return typeof value === 'object' ? ((value as RequestMembers | null)?.[path.slice(dot + 1)] ?? null) : null;
}

/** The expected length of an answer before it begins. */
export function expectedOutput(json: RequestMembers, usual: number = OUTPUT_TOKENS): number {
  return Math.ceil((outputLimit(json) ?? Math.max(usual, largestLimit(json))) * requestedAnswers(json));
}

/**
 * How many answers are charged: `best_of` are generated where `n` are returned, for each prompt in a list of prompts.
 * llama.cpp reads `n_cmpl` as `n`.
 */
export function requestedAnswers({ n, n_cmpl, best_of, prompt }: RequestMembers): number {
  return Math.max(...[n, n_cmpl, best_of].map(answerCount)) * promptCount(prompt);
}

/**
 * How many calls of a provider of this type the request takes: one for each choice, where the provider's API gives one
 * choice (decision 120).
 */
export function callsFor(endpoint: string, type: string, { n }: RequestMembers): number {
  if (typeof n !== 'number' || !Number.isInteger(n) || n < 2 || n > MAX_CALLS) return 1;
  const isOneChoice = endpoint === '/v1/chat/completions' && (providerType(type)?.chatDialect ?? 'chat') !== 'chat';
  return isOneChoice ? n : 1;
}

/** The most answers that are charged; undefined when a count could be understood in another way. */
export function boundOfAnswers({ n, n_cmpl, best_of, prompt }: RequestMembers): number | undefined {
  const counts = [n ?? 1, n_cmpl ?? 1, best_of ?? 1].map((count) => (Number.isInteger(count) ? Number(count) : 0));
  if (counts.some((count) => count < 1)) return undefined;
  const isOnePrompt = !Array.isArray(prompt) || prompt.every((token) => typeof token === 'number');
  return Math.max(...counts) * (isOnePrompt ? 1 : prompt.length);
}

function answerCount(value: unknown): number {
  const count = numberIn(value) ?? 1;
  return count > 1 && count <= MOST_ANSWERS ? count : 1;
}

/** Some providers also accept a number as text. */
function numberIn(value: unknown): number | undefined {
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  const number = typeof value === 'number' ? value : Number(value.slice(0, MAX_DIGITS).replaceAll('_', ''));
  return Number.isNaN(number) ? undefined : number;
}

/** A list of numbers is one prompt, in tokens. */
function promptCount(prompt: unknown): number {
  return Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number' ? prompt.length : 1;
}
