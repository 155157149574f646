/**
 * A model provider without a model: it speaks OpenAI's API, answers the same to the same question, and misbehaves
 * on request. Tests and benchmarks stand on it, so it depends on nothing but Node.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { chatCompletion, type Rendering } from './chat.ts';
import { completion } from './completions.ts';
import { deliver } from './delivery.ts';
import { embeddings, rerank } from './embeddings.ts';
import { type Fault, FaultPlan } from './fault.ts';
import { isObject, type Json, type JsonObject, parseJson, textIn } from './json.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';
import { Responses } from './responses.ts';
import { tokensOf } from './tokens.ts';
import { hashOf } from './words.ts';

export interface SimulatedModel {
  readonly id: string;
  /** The `meta` object with which llama.cpp describes a model. */
  readonly meta?: JsonObject;
}

export interface SimulatedProviderOptions {
  readonly models?: readonly (string | SimulatedModel)[];
  /** `native`: keeps responses itself. `absent`: answers 404 to all of `/v1/responses`, as llama.cpp does. */
  readonly responses?: 'native' | 'absent';
  /** Refuse models that are not listed with a 404. Otherwise every id is answered, as llama.cpp does. */
  readonly strictModels?: boolean;
  /** When given, `Authorization: Bearer <apiKey>` is demanded. */
  readonly apiKey?: string;
  /** Milliseconds between stream frames; 0 is as fast as it goes, one write per frame. */
  readonly paceMs?: number;
  /** Length of an ordinary answer, in tokens. */
  readonly words?: number;
  /** For `/props`; the route is absent when `false`. */
  readonly props?: false | { readonly contextWindow?: number; readonly modalities?: Readonly<Record<string, boolean>> };
  /** How many requests are remembered. */
  readonly remember?: number;
  /** How long a background response stays queued, in milliseconds. */
  readonly backgroundMs?: number;
}

/** `open` until the answer was sent whole (`answered`), the client left (`aborted`) or a fault cut it (`cut`). */
export type Outcome = 'open' | 'answered' | 'aborted' | 'cut';

export interface RecordedRequest {
  readonly method: string;
  /** With the query string. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  readonly outcome: Outcome;
  readonly aborted: boolean;
  /** Stream frames handed to the socket so far. */
  readonly framesSent: number;
  /** Resolves when the outcome is known. */
  readonly ended: Promise<Outcome>;
}

export interface SimulatedProvider {
  /** @returns the base URL, ending in `/v1`. Port 0 takes a free one. */
  listen(port?: number, host?: string): Promise<string>;
  /** Drops every open connection. */
  close(): Promise<void>;
  /** The newest requests, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** The next request to arrive, with its body. */
  nextRequest(): Promise<RecordedRequest>;
  readonly control: FaultPlan;
}

export const MODELS = ['simulated-small', 'simulated-large', 'simulated-embed'] as const;
/** Made once: an error takes its time to make. */
const CLIENT_LEFT = new Error('the client left');
const FILE_NOT_FOUND: Reply = {
  status: 404,
  json: { error: { code: 404, message: 'File Not Found', type: 'not_found_error' } },
};

export function createSimulatedProvider(options: SimulatedProviderOptions = {}): SimulatedProvider {
  const { words = 16, paceMs = 0, remember = 1000 } = options;
  const models = (options.models ?? MODELS).map((model) => (typeof model === 'string' ? { id: model } : model));
  const started = Math.floor(Date.now() / 1000);
  const control = new FaultPlan();
  const responses = new Responses({ keep: 10_000, backgroundMs: options.backgroundMs ?? 50 });
  const requests: Recording[] = [];
  const waiting: ((request: RecordedRequest) => void)[] = [];
  let ids = 0;

  const rendering = (fault: Fault | undefined): Rendering => ({
    fault,
    words,
    newId: (prefix) =>
      `${prefix}${process.pid.toString(16)}${started.toString(16)}${(++ids).toString(16).padStart(12, '0')}`,
    now: () => Math.floor(Date.now() / 1000),
  });

  function record(recording: Recording): void {
    requests.push(recording);
    if (requests.length > remember) requests.shift();
    for (const arrived of waiting.splice(0)) arrived(recording);
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    const recording = new Recording(request, body);
    const { method = 'GET', url = '/' } = request;
    const mark = url.indexOf('?');
    const path = mark === -1 ? url : url.slice(0, mark);
    const json = body.length > 0 ? parseJson(body.toString()) : undefined;
    const fault = control.pick(method, path, isObject(json) ? json : {});
    const left = new AbortController();
    response.on('close', () => {
      recording.end(response.writableFinished ? 'answered' : fault?.cutAfterChunks !== undefined ? 'cut' : 'aborted');
      if (recording.outcome !== 'answered') left.abort(CLIENT_LEFT);
    });
    record(recording);
    let reply: Reply;
    try {
      authorize(request, options.apiKey);
      reply = route(method, path, new URLSearchParams(mark === -1 ? '' : url.slice(mark)), json, rendering(fault));
    } catch (refusal) {
      if (!(refusal instanceof Refused)) throw refusal;
      reply = { status: refusal.status, json: refusal.body() };
    }
    const onFrame = () => {
      recording.framesSent++;
    };
    await deliver(reply, { response, fault, plan: control, signal: left.signal, paceMs, onFrame });
  }

  function route(
    method: string,
    path: string,
    query: URLSearchParams,
    json: Json | undefined,
    render: Rendering,
  ): Reply {
    if (path === '/v1/responses' || path.startsWith('/v1/responses/')) {
      return options.responses === 'absent' ? FILE_NOT_FOUND : responsesRoute(method, path, query, json, render);
    }
    switch (`${method} ${path}`) {
      case 'POST /v1/chat/completions':
        return chatCompletion(objectBody(json), render);
      case 'POST /v1/completions':
        return completion(objectBody(json), render);
      case 'POST /v1/embeddings':
        return embeddings(objectBody(json));
      case 'POST /rerank':
      case 'POST /v1/rerank':
        return rerank(objectBody(json));
      case 'POST /tokenize':
        return {
          status: 200,
          json: { tokens: tokensOf(textIn(objectBody(json).content) ?? '').map((token) => hashOf(token) % 32_000) },
        };
      case 'GET /v1/models':
        return { status: 200, json: { object: 'list', data: models.map(listed) } };
      case 'GET /health':
        return { status: 200, json: { status: 'ok' } };
      case 'GET /props':
        return options.props === false ? FILE_NOT_FOUND : { status: 200, json: propsOf(options.props ?? {}) };
      default:
        return FILE_NOT_FOUND;
    }
  }

  function responsesRoute(
    method: string,
    path: string,
    query: URLSearchParams,
    json: Json | undefined,
    render: Rendering,
  ): Reply {
    const [id, below] = path.slice('/v1/responses'.length).split('/').slice(1);
    if (method === 'POST') {
      if (id === undefined) return responses.create(objectBody(json), render);
      if (id === 'input_tokens') return responses.inputTokens(objectBody(json), render);
      if (id === 'compact') return responses.compact(objectBody(json), render);
      if (below === 'cancel') return responses.cancel(id);
    } else if (id !== undefined) {
      if (method === 'GET' && below === undefined) return responses.retrieve(id, query);
      if (method === 'GET' && below === 'input_items') return responses.inputItems(id, query);
      if (method === 'DELETE' && below === undefined) return responses.delete(id);
    }
    return FILE_NOT_FOUND;
  }

  function objectBody(body: Json | undefined): JsonObject {
    if (!isObject(body)) throw new Refused(400, 'the body must be a JSON object');
    const { model } = body;
    if (options.strictModels && typeof model === 'string' && !models.some(({ id }) => id === model)) {
      throw new Refused(404, `The model '${model}' does not exist.`, { param: 'model', code: 'model_not_found' });
    }
    return body;
  }

  function listed({ id, meta }: SimulatedModel): JsonObject {
    return { id, object: 'model', created: started, owned_by: 'simulated', ...(meta === undefined ? {} : { meta }) };
  }

  const server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0 }, (request, response) => {
    handle(request, response).catch((error: NodeJS.ErrnoException) => {
      if (error === CLIENT_LEFT || error.name === 'AbortError' || error.code === 'ECONNRESET') return;
      console.error('the simulated provider failed:', error);
      response.destroy(error);
    });
  });

  return {
    requests,
    control,
    nextRequest: () => new Promise((resolve) => waiting.push(resolve)),
    async listen(port = 0, host = '127.0.0.1') {
      await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, 1024, resolve));
      const address = server.address();
      return `http://${host}:${typeof address === 'object' && address ? address.port : port}/v1`;
    },
    close() {
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

class Recording implements RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly #body: Buffer;
  readonly #ended = Promise.withResolvers<Outcome>();
  outcome: Outcome = 'open';
  framesSent = 0;

  constructor(request: IncomingMessage, body: Buffer) {
    this.method = request.method ?? 'GET';
    this.path = request.url ?? '/';
    this.headers = request.headers;
    this.#body = body;
  }

  get body(): string {
    return this.#body.toString();
  }

  get aborted(): boolean {
    return this.outcome === 'aborted';
  }

  get ended(): Promise<Outcome> {
    return this.#ended.promise;
  }

  end(outcome: Outcome): void {
    this.outcome = outcome;
    this.#ended.resolve(outcome);
  }
}

function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  return new Promise((resolve, reject) => {
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => resolve(parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts)));
    request.on('error', reject);
  });
}

function authorize(request: IncomingMessage, apiKey: string | undefined): void {
  if (apiKey === undefined || request.headers.authorization === `Bearer ${apiKey}`) return;
  throw new Refused(401, 'Incorrect API key provided.', { code: 'invalid_api_key', type: 'authentication_error' });
}

function propsOf({
  contextWindow = 4096,
  modalities,
}: Exclude<SimulatedProviderOptions['props'], false | undefined>): JsonObject {
  return {
    default_generation_settings: { id: 0, n_ctx: contextWindow, params: {} },
    total_slots: 1,
    model_path: 'simulated',
    chat_template: '',
    modalities: { vision: false, audio: false, ...modalities },
    build_info: 'simulated',
  };
}
