/**
 * Model calls by guardrails. A call is a request like any other: it is routed, recorded, priced and counted at its own
 * user path. Guardrails do not run for it, so no call causes another.
 */

import type { UserPath } from '../../events/event.ts';
import { isObject } from '../../json/is-object.ts';
import { type ModelAnswer, type ModelCall, ModelCallFailed } from '../guardrails/guardrail-type.ts';
import { parseChunk } from '../model-request/answer-body.ts';
import type { Client, EndReason, ModelRequest } from '../model-request/model-request.ts';
import { Refusal } from '../refusal.ts';
import { everything } from '../visibility.ts';

export class AuxiliaryCalls {
  readonly #exchanges: AuxiliaryExchanges;

  constructor(options: AuxiliaryExchangesOptions) {
    this.#exchanges = new AuxiliaryExchanges(options);
  }

  /** Rejects at once when the signal is aborted; the exchange then ends by itself. */
  async call(call: ModelCall): Promise<ModelAnswer> {
    const { signal, model } = call;
    const ended = await this.#exchanges.run(requestOf(call), signal);
    switch (ended.end) {
      case 'cancelled':
        throw new ModelCallFailed(`the call of the model '${model}' was cancelled`, ended.exchangeId);
      case 'beyond_limit': {
        const { limit } = this.#exchanges;
        throw new ModelCallFailed(
          `the model '${model}' was not called: guardrails run ${limit} calls of models already, which is the limit`,
        );
      }
      case 'answered':
        return answerIn(ended.content, model, ended.exchangeId);
    }
  }

  /** The gateway stops without waiting for the calls. */
  cut(): void {
    this.#exchanges.cut();
  }
}

function requestOf({ requestId, exchangeId, userPath, model, provider, messages, maxTokens, temperature }: ModelCall) {
  const body = {
    model,
    ...(provider !== undefined && { provider }),
    messages,
    max_tokens: maxTokens,
    ...(temperature !== undefined && { temperature }),
  };
  return auxiliaryRequest({ requestId, causationId: exchangeId, userPath, path: '/v1/chat/completions', body });
}

/** @throws ModelCallFailed when there is no text */
function answerIn(content: Uint8Array | Refusal, model: string, exchangeId: string): ModelAnswer {
  const failed = (why: string) => new ModelCallFailed(`the call of the model '${model}' failed: ${why}`, exchangeId);
  if (content instanceof Refusal) {
    const { code, message, status, provider } = content;
    // The message of a provider may repeat texts of the request. It is in the record of the exchange.
    throw failed(`${status}${code === null ? '' : ` ${code}`}${provider === undefined ? `: ${message}` : ''}`);
  }
  const choice = firstChoice(content);
  if (choice === undefined) throw failed('the answer is no chat completion');
  const { message, finish_reason } = choice;
  const text = isObject(message) ? textOf(message['content']) : undefined;
  if (text === undefined || text === '') {
    if (isObject(message) && typeof message['refusal'] === 'string') throw failed('the model refused');
    throw failed(`the answer has no text (finish_reason ${JSON.stringify(finish_reason)})`);
  }
  return { text, isCut: finish_reason === 'length', exchangeId };
}

function firstChoice(content: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  const choices = parseChunk(Buffer.from(content.buffer, content.byteOffset, content.length).toString())?.['choices'];
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
  return isObject(first) ? first : undefined;
}

/** Some providers answer with a list of parts. */
function textOf(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  return content
    .map((part: unknown) => (isObject(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('');
}

/** Embeddings that the semantic cache needs. A call is a request like any other, at a user path of its own. */
export interface EmbeddingCall {
  readonly text: string;
  readonly model: string;
  readonly provider: string | undefined;
  /** Of the request whose text it is. */
  readonly requestId: string;
  readonly exchangeId: string;
  readonly userPath: string;
  readonly signal: AbortSignal;
}

/** `refused`: by a limit or budget of this caller, or of the gateway; the next call may succeed. */
type EmbeddingFailure = 'refused' | 'cancelled' | 'failed';

export class EmbeddingCallFailed extends Error {
  override readonly name = 'EmbeddingCallFailed';
  readonly failure: EmbeddingFailure;

  constructor(failure: EmbeddingFailure, message: string) {
    super(message);
    this.failure = failure;
  }
}

export class EmbeddingCalls {
  readonly #exchanges: AuxiliaryExchanges;

  constructor(options: AuxiliaryExchangesOptions) {
    this.#exchanges = new AuxiliaryExchanges(options);
  }

  /** Rejects at once when the signal is aborted. @throws EmbeddingCallFailed, whose message holds no text of a request */
  async embed({ text, model, provider, signal, exchangeId, ...of }: EmbeddingCall): Promise<Float32Array> {
    const failed = (failure: EmbeddingFailure, why: string) =>
      new EmbeddingCallFailed(failure, `the embedding with the model '${model}' failed: ${why}`);
    const body = { model, ...(provider !== undefined && { provider }), input: text, encoding_format: 'base64' };
    const request = auxiliaryRequest({ ...of, causationId: exchangeId, path: '/v1/embeddings', body });
    const ended = await this.#exchanges.run(request, signal);
    if (ended.end === 'cancelled') throw failed('cancelled', 'it was cancelled');
    if (ended.end === 'beyond_limit') {
      throw failed('refused', `${this.#exchanges.limit} embeddings are computed already, which is the limit`);
    }
    const { content } = ended;
    if (content instanceof Refusal) {
      const why = `${content.status} ${content.code ?? content.type}`;
      throw failed(content.provider === undefined && content.status === 429 ? 'refused' : 'failed', why);
    }
    const vector = vectorIn(content);
    if (vector === undefined) throw failed('failed', 'the answer has no embedding');
    return vector;
  }

  /** The gateway stops without waiting for the calls. */
  cut(): void {
    this.#exchanges.cut();
  }
}

function vectorIn(content: Uint8Array): Float32Array | undefined {
  const data = parseChunk(Buffer.from(content.buffer, content.byteOffset, content.length).toString())?.['data'];
  const first: unknown = Array.isArray(data) ? data[0] : undefined;
  const embedding: unknown = isObject(first) ? first['embedding'] : undefined;
  const vector = typeof embedding === 'string' ? floatsIn(embedding) : Array.isArray(embedding) ? embedding : undefined;
  if (vector === undefined || vector.length === 0) return undefined;
  return vector.every((value: unknown) => typeof value === 'number' && Number.isFinite(value))
    ? Float32Array.from(vector)
    : undefined;
}

/** Little-endian numbers of four bytes in base64, as OpenAI's API sends them. Some providers send lists all the same. */
function floatsIn(base64: string): number[] | undefined {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length % 4 !== 0) return undefined;
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
}

/** Exchanges that the gateway runs for itself, a limited number at the same time. */
interface AuxiliaryExchangesOptions {
  /**
   * Runs a request as the exchange with this id. Resolves when it has ended; never rejects. Bounds the size of the
   * answer.
   */
  run(exchangeId: string, request: ModelRequest, client: Client): Promise<void>;
  newId(): string;
  /** Exchanges at the same time; there are no further ones. */
  readonly limit: number;
}

/** `cancelled`: by the signal; the exchange then ends by itself. `beyond_limit`: there is no exchange. */
type AuxiliaryEnd =
  | { readonly end: 'answered'; readonly exchangeId: string; readonly content: Uint8Array | Refusal }
  | { readonly end: 'cancelled'; readonly exchangeId: string | undefined }
  | { readonly end: 'beyond_limit' };

class AuxiliaryExchanges {
  readonly #options: AuxiliaryExchangesOptions;
  readonly #running = new Set<CollectingClient>();

  constructor(options: AuxiliaryExchangesOptions) {
    this.#options = options;
  }

  get limit(): number {
    return this.#options.limit;
  }

  /** Resolves at once when the signal is aborted. Never rejects. */
  async run(request: ModelRequest, signal: AbortSignal): Promise<AuxiliaryEnd> {
    const { run, newId, limit } = this.#options;
    if (signal.aborted) return { end: 'cancelled', exchangeId: undefined };
    if (this.#running.size >= limit) return { end: 'beyond_limit' };
    const exchangeId = newId();
    const client = new CollectingClient();
    this.#running.add(client);
    const cancelled = Promise.withResolvers<AuxiliaryEnd>();
    const onAbort = () => {
      client.endEarly(endReasonOf(signal.reason));
      cancelled.resolve({ end: 'cancelled', exchangeId });
    };
    signal.addEventListener('abort', onAbort, { once: true });
    void run(exchangeId, request, client).finally(() => this.#running.delete(client));
    const answered = client.whenAnswered.then((content) => ({ end: 'answered', exchangeId, content }) as const);
    try {
      return await Promise.race([answered, cancelled.promise]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** The gateway stops without waiting for them. */
  cut(): void {
    for (const client of this.#running) client.endEarly('gateway_stopping');
  }
}

interface AuxiliaryRequest {
  readonly requestId: string;
  /** The exchange for which the gateway sends it. */
  readonly causationId?: string | undefined;
  readonly userPath: string;
  readonly path: '/v1/chat/completions' | '/v1/embeddings';
  readonly body: object;
}

/** A request of the gateway itself: without guardrails, and without what restricts clients to models. */
function auxiliaryRequest({ requestId, causationId, userPath, path, body }: AuxiliaryRequest): ModelRequest {
  return {
    caller: {
      actor: 'system',
      userPath: userPath as UserPath,
      authMethod: 'no_key',
      visibility: everything,
      origin: 'plugin',
    },
    requestId,
    causationId,
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify(body)),
  };
}

const endReasons: readonly unknown[] = ['client_gone', 'gateway_stopping', 'cancelled'] satisfies EndReason[];

function isEndReason(reason: unknown): reason is EndReason {
  return endReasons.includes(reason);
}

/** A signal is aborted by the client of the request, or by a time limit. */
function endReasonOf(reason: unknown): EndReason {
  return isEndReason(reason) ? reason : 'cancelled';
}

/** The size of the answer is bounded by the exchange. */
class CollectingClient implements Client {
  readonly #controller = new AbortController();
  readonly #answered = Promise.withResolvers<Uint8Array | Refusal>();

  get ended(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves with the whole body, or with the refusal in its place. */
  get whenAnswered(): Promise<Uint8Array | Refusal> {
    return this.#answered.promise;
  }

  readonly begun = false;
  readonly isKeptOpen = false;

  endEarly(reason: EndReason): void {
    if (!this.#controller.signal.aborted) this.#controller.abort(reason);
  }

  answer(_status: number, _headers: Record<string, string>, body: Uint8Array): void {
    this.#answered.resolve(body);
  }

  refuse(refusal: Refusal): void {
    this.#answered.resolve(refusal);
  }

  keepOpen(): void {}

  /** A stream was not requested: the exchange ends. */
  begin(): void {
    const message = 'the answer is a stream, which was not requested';
    this.#answered.resolve(new Refusal({ status: 502, type: 'provider_error', code: null, message }));
    this.endEarly('cancelled');
  }

  write(): undefined {}

  end(): void {}
}
