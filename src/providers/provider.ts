/**
 * The interface of a provider for the exchange, and its configuration. A provider depends on no event, HTTP server or
 * projection.
 */

import type { MessageSocket } from '../network/message-socket.ts';
import type { ProxyOf } from './proxies.ts';

/** A time limit and the setting that defines it, for the error of a call that exceeds it. */
export interface TimeLimit {
  readonly ms: number;
  /** The variable or the path in chancery.yaml. */
  readonly setting: string;
}

/** Optional parts of a provider's OpenAI API beside chat, responses and embeddings. */
export const openAiFamilies = [
  'completions',
  'speech',
  'transcriptions',
  'images',
  'files',
  'batches',
  'responses_input_tokens',
  'responses_compact',
] as const;
/** `message_batches`: batches of Anthropic's own API. */
export type Family = (typeof openAiFamilies)[number] | 'message_batches';

/**
 * A model request's dialect: OpenAI's three, Anthropic's Messages, and Ollama's own two. `send` supports those that the
 * provider has; the rest of a provider's API is reached through `forward`.
 */
export const dialects = ['chat', 'responses', 'embeddings', 'messages', 'ollama_chat', 'ollama_embed'] as const;
export type Dialect = (typeof dialects)[number];

export interface ProviderCall {
  readonly dialect: Dialect;
  /** The model in the body: a provider's rate limits are per model. */
  readonly model?: string;
  /** The request body in the provider's dialect, with its own model id: sent unchanged. */
  readonly body: Uint8Array;
  readonly stream: boolean;
  /** Added to the provider's own headers: lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent upstream as `X-Request-ID`. */
  readonly requestId: string;
  readonly signal: AbortSignal;
  /**
   * Set for a client on a WebSocket, and aborted when that is closed: the call is sent on a WebSocket of the provider,
   * which is kept for the client's later calls, when the provider has them and this one is free.
   */
  readonly client?: AbortSignal | undefined;
  /** A response that only the memory of that WebSocket has: elsewhere the call fails as `disconnected`. */
  readonly continues?: string | undefined;
  /** The input is for a response that runs on that WebSocket: the answer is the response that the provider begins after it. */
  readonly steers?:
    | {
        readonly responseId: string;
        /** Called with the provider's message that the input waits for results of tools; the call then fails. */
        readonly pending: (message: string) => void;
      }
    | undefined;
}

export interface ForwardCall {
  readonly method: string;
  /** Below `/p/{provider}`, starting with `/`, with the query string. */
  readonly path: string;
  /** The path is `/v1/…` of OpenAI's API, wherever the provider serves it, and not one of its own routes. */
  readonly openAi?: boolean;
  /** The requested model, where it is known. */
  readonly model?: string;
  /** Already stripped of credentials and hop-by-hop headers; lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** An iterable is streamed. */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
  /** Opens a WebSocket instead: the reply is 101 with its socket, or a refusal. */
  readonly socket?: { /** Larger messages of the provider end it. */ readonly maxMessageBytes: number };
  readonly requestId: string;
  readonly signal: AbortSignal;
}

export interface ReplyHead {
  readonly status: number;
  /** Lower-case names; a repeated header is joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface ProviderReply extends ReplyHead {
  readonly body: ReplyBody;
  /** Of the status 101. The caller closes it. */
  readonly socket?: MessageSocket;
  /** Of that socket: how long the provider may be silent within an answer. */
  readonly idle?: TimeLimit;
}

/** The answer's bytes, read once, either whole or in pieces. */
export interface ReplyBody {
  /** @throws ProviderFailure (`too_large`, `broken`, `idle`) */
  bytes(maxBytes: number): Promise<Buffer>;
  /**
   * Passes each piece on when it arrives from the socket. While a promise returned by `onPiece` is pending, at most one
   * more piece is read, so a slow consumer slows the provider. Resolves when the answer has ended in an orderly way.
   * @throws ProviderFailure (`broken`, `idle`), or the error of `onPiece`, after cancelling the call
   */
  pieces(onPiece: (piece: Buffer) => void | Promise<unknown>): Promise<void>;
  /** Bytes that have arrived so far, as transferred. */
  readonly arrived: number;
  /** Ends the call now. Has no effect after its end. */
  cancel(): void;
}

export type FailureKind =
  /** could not connect, or the name could not be resolved */
  | 'unreachable'
  /** the proxy demands other credentials: a retry is useless */
  | 'proxy_refused'
  /** no response headers in time */
  | 'timeout'
  /** no further bytes of the answer in time */
  | 'idle'
  /** the connection broke in mid-answer */
  | 'broken'
  | 'too_large'
  /** its WebSocket ended before it answered: the request may be sent over HTTP */
  | 'disconnected'
  /** the caller's signal was aborted */
  | 'aborted';

/** The provider returned no usable HTTP answer. An HTTP error status is a reply, not a failure. */
export class ProviderFailure extends Error {
  readonly kind: FailureKind;
  readonly provider: string;
  /** False: nothing of the call was sent. */
  readonly isSent: boolean;
  constructor(provider: string, kind: FailureKind, message: string, cause?: unknown, isSent = true) {
    super(message, { cause });
    this.kind = kind;
    this.provider = provider;
    this.isSent = isSent;
  }
}

export type Support = 'yes' | 'no' | 'unknown';

export interface ProviderCapabilities {
  readonly chat: Support;
  /** Whether `/v1/responses` is supported natively. `unknown` is tried, and learned from the answer. */
  readonly responses: Support;
  readonly embeddings: Support;
  /** Whether it stores responses under their id: retrieve, delete, cancel, `previous_response_id`. */
  readonly responseLifecycle: Support;
  /** The supported optional endpoints. Undefined: unknown; the provider's answer to a call decides. */
  readonly serves?: readonly Family[] | undefined;
  readonly passthrough: boolean;
}

export interface ProviderModel {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: ModelMetadata;
  /** Its server could not describe it yet, for example while loading the model: the list is read again soon. */
  readonly isIncomplete?: true;
}

/** The `metadata` object of `GET /v1/models`, with its JSON names. */
export interface ModelMetadata {
  readonly display_name?: string;
  readonly description?: string;
  readonly family?: string;
  readonly modes?: readonly string[];
  readonly categories?: readonly string[];
  readonly tags?: readonly string[];
  readonly context_window?: number;
  readonly max_output_tokens?: number;
  readonly capabilities?: Readonly<Record<string, boolean>>;
  readonly [member: string]: unknown;
}

export interface Provider {
  /** The instance, used in selectors and passthrough paths, for example `llamacpp-gpu`. */
  readonly name: string;
  /** For example `llamacpp`. */
  readonly type: string;
  /** Where its requests are sent: origin, base path and query, without credentials. */
  readonly address: string;
  readonly capabilities: ProviderCapabilities;
  /** The path on its server to which requests in this dialect are sent, without query; undefined when it has none. */
  pathOf(dialect: Dialect): string | undefined;
  /** The type's extra settings by option name, for example `apiVersion`. */
  readonly options: Readonly<Record<string, string>>;
  /** For an answer that is not a stream, from its headers to its end. */
  readonly answerLimit: TimeLimit;
  /** @throws ProviderFailure, UpstreamError */
  listModels(signal: AbortSignal): Promise<ProviderModel[]>;
  /** @throws ProviderFailure */
  send(call: ProviderCall): Promise<ProviderReply>;
  /** Whether the next call of a client on a WebSocket can continue a response from the memory of the provider's. */
  remembers(client: AbortSignal, responseId: string): boolean;
  /** Whether a response runs on the WebSocket of the client, and can be steered. */
  canSteer(client: AbortSignal, responseId: string): boolean;
  /** Any other request to the provider's own API. @throws ProviderFailure */
  forward(call: ForwardCall): Promise<ProviderReply>;
  /**
   * Milliseconds until a call for the model may be made, after 429 answers with `Retry-After` to calls with every
   * credential; 0 when one may be made now. A call uses a credential that is not paused, if there is one.
   */
  pausedMs(model: string): number;
  /**
   * Stores what an answer showed: whether `/v1/responses` is supported natively. `capabilities` returns it from then
   * on; `no` is valid for `RESPONSES_PROBE_MS`, then it is `unknown` again.
   * @param supported undefined: drops the stored value, because the provider changed
   * @param learnedAt milliseconds since the epoch; default now
   */
  learnResponses(supported: boolean | undefined, learnedAt?: number): void;
  /** The text without this provider's credentials, for output and records. */
  redact(text: string): string;
  /** Accepts no further calls. Active ones are ended, or, with `idle`, completed. Default `now`. */
  close(when?: CloseWhen): Promise<void>;
}

export type CloseWhen = 'now' | 'idle';

/** How long `/v1/responses` is not tried again at a provider without it: servers are upgraded. */
export const RESPONSES_PROBE_MS = 60 * 60_000;

// Configuration of one provider instance. The configuration loader creates it; providers never read files.

export interface ConfiguredModel {
  readonly id: string;
  /** Overrides what the provider reports, member by member. */
  readonly metadata?: ModelMetadata;
}

/**
 * How configured models are used. `fallback`: when the provider's own list fails or is empty. `allowlist`: they are
 * the list, and the provider's list is not read. `merge`: they are added to the provider's list.
 */
export type ModelsMode = 'fallback' | 'allowlist' | 'merge';

export interface ProviderTimeouts {
  /** To open a connection. Default 10,000. */
  readonly connectMs?: number;
  /** From the call to the answer's headers, including the wait for a connection. Default 600 s. */
  readonly headers?: TimeLimit;
  /** For an answer that is not a stream, from its headers to its end. Default 600 s. */
  readonly answer?: TimeLimit;
  /** Between two pieces of a stream. Default 300 s. */
  readonly idle?: TimeLimit;
}

/** Texts of PEM files. */
export interface TlsTexts {
  /** The authorities that are trusted, instead of those of Node and of `NODE_EXTRA_CA_CERTS`. */
  readonly ca?: string;
  /** With which the gateway identifies itself; only together with its key. */
  readonly cert?: string;
  readonly key?: string;
}

export interface ProviderConfig {
  /** The instance, for example `llamacpp-gpu`. */
  readonly name: string;
  /** A row of the type table, for example `llamacpp`. */
  readonly type: string;
  readonly baseUrl: string;
  /** Used in turn, one per call; empty for a keyless provider. */
  readonly apiKeys: readonly string[];
  readonly models: readonly ConfiguredModel[];
  readonly modelsMode: ModelsMode;
  /** The type's extra settings by option name, for example `apiVersion`. */
  readonly options: Readonly<Record<string, string>>;
  readonly timeouts?: ProviderTimeouts;
  /** Calls beyond this many at once wait for a free connection. Default 1,024. */
  readonly connections?: number;
  /** Proxy for its connections instead of the gateway's, with the proxy's credentials; `none`: they are direct. */
  readonly proxyUrl?: string | undefined;
  readonly tls?: TlsTexts | undefined;
  /** Sent with every request, over what the client sends: lower-case names. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly source: 'environment' | 'file' | 'stored';
  /** Whether loopback, link-local and cloud metadata addresses are allowed. Default: unless `source` is `stored`. */
  readonly localAddresses?: boolean;
  /** Asked directly before the first byte of each call for a client is sent; false: it fails as `unreachable`. */
  readonly mayCall?: () => boolean;
  /** Between two pings of its WebSockets. Default 30,000. */
  readonly socketPingMs?: number;
}

/** With the proxies of the whole gateway, which are the same for all providers. */
export type ProxiedProviderConfig = ProviderConfig & { readonly proxyOf: ProxyOf };
