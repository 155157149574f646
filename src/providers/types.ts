/** The provider types: one table of differences, a row per type. Every other property is that of plain OpenAI. */
import { type Dialect, type Family, openAiFamilies, type Support } from './provider.ts';
import { ollamaEfforts } from './translate/chat-to-ollama/request.ts';
import {
  plainReasoning,
  type ReasoningEffort,
  type ReasoningStyle,
  reasoningEfforts,
} from './translate/responses-to-chat/reasoning.ts';

export interface ProviderType {
  /** Works without an API key. */
  readonly keyless: boolean;
  readonly requiresBaseUrl: boolean;
  /** Usually a server on the same machine or network: it may be slow, and starts and stops at any time. */
  readonly isLocal?: boolean;
  readonly defaultBaseUrl?: string;
  /** Added to a base URL without a path. Default `/v1`. */
  readonly defaultPath?: string;
  /** Settings beyond the common ones: environment suffix → option name. */
  readonly extra?: Readonly<Record<string, string>>;
  /** How an API key is sent: as a bearer token, or in the header of that name. */
  readonly auth: 'bearer' | 'api-key' | 'x-api-key';
  /** Its dialects, each with its path below the base URL. Undefined: OpenAI's three. */
  readonly paths?: Partial<Readonly<Record<Dialect, string>>>;
  /** Its dialect for chat completions. Default `chat`; others have a `ChatAdapter`. */
  readonly chatDialect?: Dialect;
  readonly responses: Support;
  /** Its `/v1/responses` accepts WebSockets. */
  readonly webSockets?: boolean;
  readonly responseLifecycle: Support;
  readonly embeddings: Support;
  /** The supported optional endpoints. Undefined: unknown; the provider's answer to a call decides. */
  readonly serves?: readonly Family[];
  /** Whether `/p/{provider}/…` is enabled by default. */
  readonly passthrough: boolean;
  /** It has OpenAI's Realtime API. */
  readonly realtime?: boolean;
  /** Where WebSockets of its own API differ from its requests: their paths, and the header of the key. */
  readonly sockets?: { readonly path: 'root'; readonly auth: string };
  /**
   * Passthrough paths that are served below the base URL; every other path is served from the server's root, which is
   * the base URL without its `/v1`. Undefined: everything is below the base URL.
   */
  readonly servedFromBase?: readonly string[];
  /** Prefix that is removed from the ids of the model listing. */
  readonly modelIdPrefix?: string;
  /** Its members for the reasoning effort and for reasoning of earlier turns. */
  readonly reasoning: ReasoningStyle;
  /**
   * Its documentation says that `completion_tokens` exclude thinking: the total includes it, and `reasoning_tokens`
   * give its number or not (`in total`). Undefined: thinking is a part of `completion_tokens`.
   */
  readonly thinkingBesideOutput?: 'in reasoning_tokens' | 'in total';
  /** Its documentation says that the first event of a stream counts the input. */
  readonly countsInputFirst?: boolean;
  /** A chat request is sent as the client wrote it, except for the model's name. */
  readonly chatAsSent?: boolean;
  /** Serves models that its listing does not contain, so requests for unlisted models are sent as well. */
  readonly unlistedModels?: boolean;
  /** Its o-series and gpt-5 models accept `max_completion_tokens` instead of `max_tokens`, and no `temperature`. */
  readonly openAiReasoningModels?: boolean;
  /** Supports only `max_tokens`. */
  readonly maxTokensOnly?: boolean;
  /** Refuses requests with `stream_options`; it reports usage at the end of a stream anyway. */
  readonly refusesStreamOptions?: boolean;
  /** Its dialect for embeddings. Default `embeddings`. */
  readonly embeddingsDialect?: Dialect;
  /** Headers of every call, unless the client sends its own value. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Headers built from options: header → option name. */
  readonly optionHeaders?: Readonly<Record<string, string>>;
}

const openAiShaped = ['models', 'chat/completions', 'responses', 'completions', 'embeddings'];
const lowToHigh: readonly ReasoningEffort[] = ['low', 'medium', 'high'];
const toXhigh = reasoningEfforts.filter((effort) => effort !== 'max');

/** OpenAI's own models do not return their reasoning, so none can be sent back. */
const openAiReasoning: ReasoningStyle = { effort: 'flat', levels: toXhigh, replay: 'omit' };

/** What most hosted providers have in common. */
const hosted = {
  keyless: false,
  requiresBaseUrl: false,
  auth: 'bearer',
  responses: 'no',
  responseLifecycle: 'no',
  embeddings: 'yes',
  passthrough: false,
} as const;

/** What most local servers have in common. */
const local = { ...hosted, keyless: true, isLocal: true, responses: 'unknown', passthrough: true } as const;

const rows = {
  /** llama.cpp's server, and any plain OpenAI-compatible local server. No default: its usual port is the gateway's. */
  llamacpp: {
    ...local,
    requiresBaseUrl: true,
    serves: ['completions'],
    servedFromBase: openAiShaped,
    reasoning: plainReasoning,
    chatAsSent: true,
  },
  openai: {
    ...hosted,
    realtime: true,
    defaultBaseUrl: 'https://api.openai.com/v1',
    responses: 'yes',
    webSockets: true,
    responseLifecycle: 'yes',
    serves: openAiFamilies,
    passthrough: true,
    reasoning: openAiReasoning,
    openAiReasoningModels: true,
  },
  vllm: {
    ...local,
    defaultBaseUrl: 'http://localhost:8000/v1',
    // Its omni models provide speech and images.
    serves: ['completions', 'transcriptions', 'speech', 'images'],
    servedFromBase: [...openAiShaped, 'audio/transcriptions', 'audio/translations'],
    reasoning: { effort: 'flat', levels: lowToHigh, replay: 'reasoning_content' },
  },
  sglang: {
    ...local,
    defaultBaseUrl: 'http://localhost:30000/v1',
    serves: ['completions', 'transcriptions', 'images'],
    servedFromBase: openAiShaped,
    reasoning: { effort: 'flat', levels: lowToHigh, replay: 'reasoning_content' },
  },
  groq: {
    ...hosted,
    defaultBaseUrl: 'https://api.groq.com/openai/v1',
    defaultPath: '/openai/v1',
    responses: 'yes',
    // Its Responses API is stateless: nothing is stored under an id.
    responseLifecycle: 'no',
    embeddings: 'unknown',
    serves: ['speech', 'transcriptions', 'files', 'batches'],
    reasoning: { effort: 'flat', levels: ['none', ...lowToHigh], replay: 'reasoning' },
  },
  xai: {
    ...hosted,
    realtime: true,
    defaultBaseUrl: 'https://api.x.ai/v1',
    responses: 'yes',
    webSockets: true,
    responseLifecycle: 'yes',
    embeddings: 'unknown',
    // Its batches have another format.
    serves: ['images', 'files'],
    thinkingBesideOutput: 'in reasoning_tokens',
    reasoning: { effort: 'flat', levels: ['none', ...lowToHigh], replay: 'reasoning_content' },
  },
  deepseek: {
    ...hosted,
    defaultBaseUrl: 'https://api.deepseek.com/v1',
    embeddings: 'no',
    // Completions are part of its beta, below another base URL.
    serves: [],
    passthrough: true,
    // The provider itself lowers levels that it lacks.
    reasoning: { effort: 'flat', levels: reasoningEfforts, replay: 'reasoning_content' },
    maxTokensOnly: true,
  },
  openrouter: {
    ...hosted,
    defaultBaseUrl: 'https://openrouter.ai/api/v1',
    defaultPath: '/api/v1',
    extra: { SITE_URL: 'siteUrl', APP_NAME: 'appName' },
    responses: 'yes',
    // Its Responses API is stateless: nothing is stored under an id.
    responseLifecycle: 'no',
    // Its transcriptions accept JSON, not a form.
    serves: ['completions', 'speech'],
    passthrough: true,
    reasoning: { effort: 'object', levels: toXhigh, replay: 'reasoning' },
    // Routing variants such as `…:nitro` are in no list.
    unlistedModels: true,
    optionHeaders: { 'http-referer': 'siteUrl', 'x-title': 'appName' },
  },
  mistral: {
    ...hosted,
    defaultBaseUrl: 'https://api.mistral.ai/v1',
    // Its batches have another format, and completions only fill in the middle.
    serves: ['transcriptions', 'files'],
    reasoning: { effort: 'flat', levels: ['none', 'high'], replay: 'omit', extraContent: 'omit' },
    // Unknown members are refused with 422.
    maxTokensOnly: true,
    refusesStreamOptions: true,
  },
  /** Google's OpenAI-compatible endpoint. */
  gemini: {
    ...hosted,
    defaultBaseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    defaultPath: '/v1beta/openai',
    // Files are uploaded in its own API.
    serves: ['images', 'batches'],
    modelIdPrefix: 'models/',
    sockets: { path: 'root', auth: 'x-goog-api-key' },
    thinkingBesideOutput: 'in total',
    countsInputFirst: true,
    reasoning: { ...plainReasoning, replay: 'omit' },
  },
  azure: {
    ...hosted,
    realtime: true,
    requiresBaseUrl: true,
    defaultPath: '/openai/v1',
    extra: { API_VERSION: 'apiVersion' },
    auth: 'api-key',
    responses: 'yes',
    webSockets: true,
    responseLifecycle: 'yes',
    serves: openAiFamilies,
    reasoning: openAiReasoning,
    openAiReasoningModels: true,
    // Its listing contains deployable models, not the deployments.
    unlistedModels: true,
  },
  /** Anthropic's Messages API, and other servers with it. */
  anthropic: {
    ...hosted,
    defaultBaseUrl: 'https://api.anthropic.com/v1',
    extra: { DEFAULT_MAX_TOKENS: 'defaultMaxTokens', STRICT_PARAMETERS: 'strictParameters' },
    auth: 'x-api-key',
    headers: { 'anthropic-version': '2023-06-01' },
    paths: { messages: '/messages' },
    chatDialect: 'messages',
    embeddings: 'no',
    serves: ['message_batches'],
    passthrough: true,
    countsInputFirst: true,
    // Thinking is sent back whole and signed, beside the call it led to; its text alone has no effect.
    reasoning: { effort: 'flat', levels: reasoningEfforts, replay: 'omit' },
  },
  /** Ollama's own API. Its routes begin at the server's root, OpenAI's among them below `/v1`. */
  ollama: {
    ...local,
    defaultBaseUrl: 'http://localhost:11434',
    defaultPath: '',
    extra: { STRICT_PARAMETERS: 'strictParameters' },
    paths: { ollama_chat: '/api/chat', ollama_embed: '/api/embed' },
    chatDialect: 'ollama_chat',
    embeddingsDialect: 'ollama_embed',
    responses: 'no',
    serves: ['completions'],
    servedFromBase: [],
    reasoning: { effort: 'flat', levels: ollamaEfforts, replay: 'reasoning_content' },
  },
  /** The demonstration's own upstream. */
  simulated: {
    ...hosted,
    keyless: true,
    requiresBaseUrl: true,
    responses: 'unknown',
    passthrough: true,
    reasoning: plainReasoning,
    chatAsSent: true,
  },
} as const satisfies Record<string, ProviderType>;

const table = new Map<string, ProviderType>(Object.entries(rows));

/** The row of a type; undefined for an unknown type. */
export function providerType(type: string): ProviderType | undefined {
  return table.get(type);
}

/** Every type with its row. */
export const providerTypes: Readonly<Record<string, ProviderType>> = rows;
