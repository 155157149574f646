/** `ANY /p/{provider}/…`: a request to a provider's own API, recorded like any other. */

import { requestBodyReceived } from '../../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../../events/log.ts';
import { type BodyBounds, jsonProblem, withoutByteOrderMark } from '../../../../json/body-scan.ts';
import { isObject } from '../../../../json/is-object.ts';
import type { Provider, ReplyHead } from '../../../../providers/provider.ts';
import type { Frame } from '../../../../providers/stream-frames.ts';
import type { ClientEvent, JsonObject } from '../../../../providers/translate/json.ts';
import type { PassedRequest } from '../../../model-request/admission.ts';
import { parseChunk } from '../../../model-request/answer-body.ts';
import { forwardOperations, requestedUnits } from '../../../model-request/forward-operations.ts';
import { type ModelRequest, READ_MEMBERS, type ReadResult } from '../../../model-request/model-request.ts';
import { type DeferredWork, hasAnswerLimit, readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import { isPending } from '../../../responses/storable-response.ts';
import { returnedHeaders } from '../../delivery/answer-headers.ts';
import type { ExchangeDialect } from '../../dialect.ts';
import type { ExchangeRecord } from '../../exchange-record.ts';
import type { Upload } from '../../plan.ts';
import {
  type AnswerReader,
  AnswerStream,
  type AnswerWriter,
  type FrameResult,
  type WrittenEnd,
} from '../../response-stream.ts';

/** Idempotent methods, which may be repeated. */
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT']);

/** Of a model's name in the record of a refused request. */
const MAX_MODEL_LENGTH = 1024;
/** A refused body may be one that would take long to parse. */
const MAX_PARSED_BYTES = 64 * 1024;

export interface Passthrough {
  readonly request: ModelRequest;
  readonly provider: Provider;
  /** Below `/p/{provider}`, with the query as the client sent it. */
  readonly path: string;
  /** The client's headers that the provider gets. */
  readonly headers: Record<string, string>;
  /** Further headers of the answer that the client gets, beside the usual ones. */
  readonly addedAnswerHeaders: ReadonlySet<string>;
  readonly bodyLimitBytes: number;
  /** Of JSON that is read. */
  readonly bounds: BodyBounds;
  /** Of the provider: one of them is called where the body of a request to a model names none. */
  listedModels(): readonly string[];
}

/** A request that is refused before anything of it is sent to a provider. */
export interface RefusedPassthrough {
  /** With the body as far as it was read. */
  readonly request: ModelRequest;
  readonly refusal: Refusal;
  /** Undefined when there is no provider of the name in the address. */
  readonly provider: Provider | undefined;
}

/** The dialect of a request that is refused: it is recorded, and answered with the refusal. */
export function refusedPassthrough({ request, refusal, provider }: RefusedPassthrough): ExchangeDialect {
  const refused = (): ReadResult => {
    const parsedRequest = { model: modelIn(request.body), provider: undefined, stream: false, json: {} };
    return { ok: false, refusal, known: { parsedRequest, provider } };
  };
  return {
    name: 'passthrough',
    endpoint: '/p',
    mayBeFree: true,
    read: refused,
    take: refused,
    plan() {
      throw refusal;
    },
    streamOfRecorded() {
      throw refusal;
    },
  };
}

/** The dialect of one passthrough request. The gateway reads its body only where a budget counts the request. */
export function passthroughDialect(call: Passthrough): ExchangeDialect {
  const { request, provider, path, headers, addedAnswerHeaders, bodyLimitBytes, listedModels } = call;
  const { method, body, bodyPieces } = request;
  const begins = deferredWorkKind(method, path);
  const isNative = method === 'POST' && NATIVE.test(routeOf(path));
  let passed: { readonly request: PassedRequest | undefined } | undefined;
  const unparsed = (): ReadResult => ({
    ok: true,
    parsedRequest: { model: '', provider: undefined, stream: false, json: {} },
  });
  return {
    name: 'passthrough',
    endpoint: '/p',
    mayBeFree: true,
    read: unparsed,
    take: unparsed,
    target: () => ({ provider, model: '' }),
    passed() {
      passed ??= { request: method === 'POST' ? passedRequest(call) : undefined };
      return passed.request;
    },
    plan({ record, reservation, policy }) {
      if (reservation?.isCounted && startsUncountedWork(method, path)) throw refusals.unmetered();
      return {
        kind: 'forward',
        dialect: 'passthrough',
        answer: 'anything',
        call: { method, path, headers },
        verbatim: true,
        body:
          bodyPieces === undefined
            ? nonEmpty(body)
            : new RecordedUpload(bodyPieces, { record, limitBytes: bodyLimitBytes, keep: policy.capture === 'full' }),
        repeatable:
          bodyPieces === undefined && (REPEATABLE.has(method) || request.headers['idempotency-key'] !== undefined),
        newStream: () =>
          passthroughStream(
            begins,
            isNative ? passed?.request?.parsedRequest.model || onlyOf(listedModels()) : undefined,
          ),
      };
    },
    streamOfRecorded: () => passthroughStream(begins),
    answerHeaders: (reply) => answerHeaders(reply, method, addedAnswerHeaders),
  };
}

/** Kinds of requests whose cost is estimated by their members, by the ends of their paths. The first one applies. */
const ENDPOINTS = [
  ...['/v1/chat/completions', '/v1/messages', '/v1/messages/count_tokens', '/v1/responses', '/v1/embeddings'],
  ...forwardOperations.map(({ endpoint }) => endpoint),
];

/** Routes of local servers' own APIs to models, some of which need not name the model: Ollama, llama.cpp, SGLang. */
const NATIVE = /^\/(?:api\/(?:chat|generate|embed|embeddings)|completion|infill|generate)$/;

/** Of a request that names no model. */
const MAX_CANDIDATES = 100;

/** Some servers ignore repeated and final slashes. */
function routeOf(path: string): string {
  const [route = ''] = path.split('?', 1);
  return route.replaceAll(/\/{2,}/g, '/').replace(/\/$/, '');
}

function endpointOfRoute(route: string): string {
  if (/^\/api\/embed(?:dings)?$/.test(route)) return '/v1/embeddings';
  return ENDPOINTS.find((one) => route.endsWith(one.slice('/v1'.length))) ?? route;
}

function onlyOf<One>(list: readonly One[]): One | undefined {
  return list.length === 1 ? list[0] : undefined;
}

/** The members of a request as they are read at the endpoint. */
function membersAt(endpoint: string, type: string, json: Record<string, unknown>): Record<string, unknown> {
  // Ollama's routes of OpenAI's API ignore the members of its own.
  if (type === 'ollama' && endpoint.startsWith('/v1/')) return { ...json, options: undefined, num_predict: undefined };
  if (endpoint !== '/generate') return json;
  const { text, input_ids, sampling_params: sampling } = json;
  return { ...json, prompt: text ?? input_ids, n: isObject(sampling) ? sampling.n : undefined };
}

/** Undefined when the body is not JSON of a known model, or would take long to parse. */
function passedRequest({ request, provider, path, bounds, listedModels }: Passthrough): PassedRequest | undefined {
  const body = withoutByteOrderMark(request.body);
  const problem = jsonProblem(body, bounds, true, READ_MEMBERS);
  const isRepeated = problem?.kind === 'repeated' || problem?.kind === 'ambiguous';
  const isWithin = problem === undefined || (isRepeated && jsonProblem(body, bounds, false) === undefined);
  const given = isWithin ? parseChunk(body.toString()) : undefined;
  const endpoint = endpointOfRoute(routeOf(path));
  const isModelCall = hasAnswerLimit(endpoint) || endpoint === '/v1/embeddings';
  const named = given?.['model'] || (isModelCall ? listedModels() : undefined);
  const models: readonly unknown[] = Array.isArray(named) ? named : [named];
  const candidates = models.filter((model) => typeof model === 'string').map((model) => ({ provider, model }));
  if (given === undefined || candidates.length === 0 || candidates.length > MAX_CANDIDATES) return undefined;
  const model = onlyOf(candidates)?.model ?? '';
  const json = membersAt(endpoint, provider.type, given);
  // Limits for each prompt of a list.
  const isAmbiguous = isRepeated || Array.isArray(json['sampling_params']);
  const operation = forwardOperations.find((one) => one.endpoint === endpoint);
  return {
    endpoint,
    parsedRequest: { model, provider: undefined, stream: json['stream'] === true, json },
    candidates,
    units: operation === undefined ? undefined : requestedUnits(operation, json),
    isAmbiguous,
  };
}

/** The model that the body names; empty when it names none, is not whole, or is long. */
function modelIn(body: Buffer): string {
  if (body.length > MAX_PARSED_BYTES) return '';
  const model = parseChunk(body.toString())?.['model'];
  return typeof model === 'string' ? model.slice(0, MAX_MODEL_LENGTH) : '';
}

function nonEmpty(body: Buffer): Buffer | undefined {
  return body.length > 0 ? body : undefined;
}

function answerHeaders(reply: ReplyHead, method: string, added: ReadonlySet<string>): Record<string, string> {
  const headers = returnedHeaders(reply.headers, added);
  // The answer to HEAD states the length of a body that does not follow.
  const length = reply.headers['content-length'];
  if (method === 'HEAD' && length !== undefined) headers['content-length'] = length;
  return headers;
}

// Work that a request to a provider's own API starts and that continues after its answer.

/** The kind of work that a successful request starts; undefined when nothing continues after its answer. */
export function deferredWorkKind(method: string, path: string): DeferredWork['kind'] | undefined {
  if (method !== 'POST') return undefined;
  const [route = ''] = path.split('?', 1);
  if (/\/batches\/?$/.test(route)) return 'batch';
  return /\/responses\/?$/.test(route) ? 'response' : undefined;
}

/** Whether the request starts work that continues after its answer and whose cost is unknown until then. */
function startsUncountedWork(method: string, path: string): boolean {
  const [route = ''] = path.split('?', 1);
  return method === 'POST' && /\/(?:batches|fine_tuning\/jobs|videos)\/?$|:batch/i.test(route);
}

/**
 * Any answer of a provider's own API: its bytes pass unchanged, and end where the provider ends them.
 * @param begins the result of `deferredWorkKind` for the request
 * @param model of an answer that does not name it
 */
export function passthroughStream(begins?: DeferredWork['kind'], model?: string): AnswerStream {
  const answer = new PassthroughAnswer(begins, model);
  return new AnswerStream(answer, answer);
}

// Any answer of a provider's own API: unchanged, and read only for its usage.

const TERMINAL_TYPES = new Set(['response.completed', 'response.incomplete', 'response.failed', 'message_stop']);
/** A longer text is not the name of a model or the id of an answer. */
const MAX_NAME_LENGTH = 256;
/** Of one request that report their own usage. */
const MAX_ANSWERS = 1000;
/** Of a JSON line; events begin with a name. */
const OPEN_BRACE = 0x7b;

export class PassthroughAnswer implements AnswerReader, AnswerWriter {
  readonly namesEvents = false;
  model: string | undefined;
  answerId: string | undefined;
  readonly #begins: DeferredWork['kind'] | undefined;
  #work: DeferredWork | undefined;
  /** The last reported usage, member by member: the counts of a stream are cumulative. */
  #usage: Record<string, unknown> | undefined;
  /** As servers report it in their own APIs, of each answer to several prompts. */
  readonly #own = new Map<unknown, Record<string, unknown>>();
  #terminal = false;
  /** The answer is a stream of JSON lines. */
  #isLines = false;

  /** As for `passthroughStream`. */
  constructor(begins?: DeferredWork['kind'], model?: string) {
    this.#begins = begins;
    this.model = model;
  }

  readWhole(bytes: Buffer, parsed: unknown) {
    if (Array.isArray(parsed)) for (const [place, one] of parsed.entries()) this.#observe(one, place);
    else this.#observe(parsed);
    return { answer: parsed, bytes };
  }

  read({ data, raw }: Frame): FrameResult {
    if (data === '[DONE]') this.#terminal = true;
    else if (data !== undefined) {
      const event = parseChunk(data);
      this.#observe(event);
      if (raw[0] === OPEN_BRACE) {
        this.#isLines = true;
        if (event?.done === true) this.#terminal = true;
      }
      if (typeof event?.type === 'string' && TERMINAL_TYPES.has(event.type)) this.#terminal = true;
    }
    return { bytes: raw, terminal: this.#terminal };
  }

  deferredWork(): DeferredWork | undefined {
    return this.#work;
  }

  usage(): TokenUsage {
    return readUsage(this.#usage ?? sumOf([...this.#own.values()]));
  }

  writeWhole(answer: unknown): unknown {
    return answer;
  }

  write(event: JsonObject): readonly JsonObject[] {
    return [event];
  }

  finish(): WrittenEnd {
    return { events: [], cut: false };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return this.#isLines ? [] : [refusal.envelope()];
  }

  abandon(): readonly ClientEvent[] {
    return [];
  }

  /** Notes a background response of the provider, or a batch, until it is over. */
  #follow({ id, status, background }: Record<string, unknown>, kind: DeferredWork['kind']): void {
    const isWork = kind === 'batch' || (background === true && isPending({ status: String(status) }));
    this.#work = isWork && typeof id === 'string' ? { kind, id } : undefined;
  }

  /** The facts are at the top, in the `response` of a Responses event, or in the `message` of a Messages event. */
  #observe(parsed: unknown, place?: number): void {
    if (!isObject(parsed)) return;
    const own = ownUsage(parsed);
    if (own !== undefined) {
      const at = parsed.index ?? place;
      if (this.#own.has(at) || this.#own.size < MAX_ANSWERS) this.#own.set(at, { ...this.#own.get(at), ...own });
    }
    for (const holder of [parsed, parsed.response, parsed.message]) {
      if (!isObject(holder)) continue;
      if (this.#begins !== undefined && holder.object === this.#begins) this.#follow(holder, this.#begins);
      if (typeof holder.model === 'string' && holder.model.length <= MAX_NAME_LENGTH) this.model = holder.model;
      if (typeof holder.id === 'string' && holder.id.length <= MAX_NAME_LENGTH) this.answerId ??= holder.id;
      if (!isObject(holder.usage)) continue;
      if (readUsage(holder.usage).source === 'unknown') continue;
      const counts = Object.entries(holder.usage).filter(([, value]) => value !== null);
      this.#usage = this.#usage === undefined ? holder.usage : { ...this.#usage, ...Object.fromEntries(counts) };
    }
  }
}

/** Counts in the answers of Ollama (`prompt_eval_count`), llama.cpp (`tokens_evaluated`) and SGLang (`meta_info`). */
function ownUsage(answer: Record<string, unknown>): Record<string, unknown> | undefined {
  const meta = isObject(answer.meta_info) ? answer.meta_info : {};
  const counts = {
    prompt_tokens: meta.prompt_tokens ?? answer.tokens_evaluated ?? answer.prompt_eval_count,
    completion_tokens: meta.completion_tokens ?? answer.tokens_predicted ?? answer.eval_count,
    cached_tokens: meta.cached_tokens,
  };
  const given = Object.entries(counts).filter(([, value]) => (value ?? null) !== null);
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

function sumOf([first, ...others]: readonly Record<string, unknown>[]): Record<string, unknown> | undefined {
  if (first === undefined) return undefined;
  const sum = { ...first };
  for (const one of others) {
    for (const [name, value] of Object.entries(one)) sum[name] = Number(sum[name] ?? 0) + Number(value);
  }
  return sum;
}

// A request body that is sent to the provider piece by piece; each piece is recorded before it is sent.

interface UploadOptions {
  readonly record: ExchangeRecord;
  readonly limitBytes: number;
  /** Whether the bytes are recorded, or only their number. */
  readonly keep: boolean;
}

class RecordedUpload implements Upload {
  readonly #pieces: AsyncIterable<Buffer>;
  readonly #options: UploadOptions;
  #failure: Refusal | LogUnavailable | undefined;

  constructor(pieces: AsyncIterable<Buffer>, options: UploadOptions) {
    this.#pieces = pieces;
    this.#options = options;
  }

  get failure(): Refusal | LogUnavailable | undefined {
    return this.#failure;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { record, limitBytes, keep } = this.#options;
    let index = 0;
    let bytes = 0;
    for await (const piece of this.#pieces) {
      bytes += piece.length;
      if (bytes > limitBytes) throw this.#fail(refusals.bodyTooLarge(limitBytes));
      record.note(requestBodyReceived.create({ index }, record.context, keep ? piece : undefined));
      index += 1;
      try {
        await record.flush('written');
      } catch (error) {
        throw error instanceof LogUnavailable ? this.#fail(error) : error;
      }
      yield piece;
    }
  }

  #fail<Failure extends Refusal | LogUnavailable>(failure: Failure): Failure {
    this.#failure = failure;
    return failure;
  }
}
