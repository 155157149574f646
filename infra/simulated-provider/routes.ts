/** The routes of the simulated provider. */
import type { IncomingHttpHeaders } from 'node:http';
import { speech, transcribed } from './audio.ts';
import { Batches } from './batches.ts';
import { chatCompletion, type Rendering } from './chat.ts';
import { completion } from './completions.ts';
import { dialectOf } from './dialect.ts';
import { embeddings, rerank } from './embeddings.ts';
import { type FaultPlan, faultIn } from './fault.ts';
import { Files } from './files.ts';
import type { Form, FormFile } from './form.ts';
import { images } from './images.ts';
import { isObject, type Json, type JsonObject, textIn } from './json.ts';
import { Messages } from './messages.ts';
import { modelList, modelNamed } from './models.ts';
import { ollamaChat, ollamaEmbed, ollamaShow, ollamaTags, ollamaVersion } from './ollama.ts';
import {
  CONTEXT_WINDOW,
  FAMILIES,
  familyNamed,
  type SimulatedModel,
  type SimulatedProviderOptions,
} from './options.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';
import { Responses } from './responses.ts';
import { tokensOf } from './tokens.ts';
import { hashOf } from './words.ts';

export interface SimulatedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  /** The body, when it is JSON, or the fields of a form. */
  readonly json: Json | undefined;
  /** The files of a form; undefined when the body is no form. */
  readonly files: readonly FormFile[] | undefined;
}

export interface RouteOptions extends SimulatedProviderOptions {
  readonly models: readonly SimulatedModel[];
  /** When the provider was made, in Unix seconds. */
  readonly started: number;
  readonly control: FaultPlan;
  /** The rendering of answers without a fault. */
  readonly plain: Rendering;
}

/** @throws Refused */
export type Route = (request: SimulatedRequest, render: Rendering) => Reply;

const FILE_NOT_FOUND: Reply = {
  status: 404,
  json: { error: { code: 404, message: 'File Not Found', type: 'not_found_error' } },
};
const KEEP = 10_000;
const KEEP_FILES = 1000;

export function createRoutes(options: RouteOptions): Route {
  const { control: plan, backgroundMs = 50, plain } = options;
  const absent = Object.keys(options).flatMap((name) => {
    const family = familyNamed(name);
    return family !== undefined && options[family] === 'absent' ? [FAMILIES[family]] : [];
  });
  const stamp = (prefix: string) => ({ id: plain.newId(prefix), at: plain.now() });
  const responses = new Responses({ keep: KEEP, backgroundMs, plan });
  const messages = new Messages();
  const files = new Files(KEEP_FILES);
  const batches = new Batches({ files, backgroundMs, plan, stamp, answer: answerInBatch });

  function route(request: SimulatedRequest, render: Rendering): Reply {
    const { method, path, json } = request;
    if (absent.some((root) => isBelow(path, root))) return FILE_NOT_FOUND;
    switch (path) {
      case '/v1/chat/completions':
        return method === 'POST' ? chatCompletion(objectBody(json), render) : FILE_NOT_FOUND;
      case '/v1/completions':
        return method === 'POST' ? completion(objectBody(json), render) : FILE_NOT_FOUND;
      case '/v1/embeddings':
        return method === 'POST' ? embeddings(objectBody(json)) : FILE_NOT_FOUND;
      default:
        return familyRoute(request, render);
    }
  }

  function familyRoute(request: SimulatedRequest, render: Rendering): Reply {
    const { path } = request;
    if (isBelow(path, '/v1/responses')) return responsesRoute(request, render);
    if (isBelow(path, '/v1/messages')) return messagesRoute(request, render);
    if (isBelow(path, '/v1/models')) return modelsRoute(request);
    if (isBelow(path, '/v1/files')) return filesRoute(request, render);
    if (isBelow(path, '/v1/batches')) return batchesRoute(request, render);
    if (isBelow(path, '/api')) return ollamaRoute(request, render);
    return otherRoute(request, render);
  }

  function otherRoute({ method, path, json, files: sent }: SimulatedRequest, render: Rendering): Reply {
    switch (`${method} ${path}`) {
      case 'POST /v1/audio/speech':
        return speech(objectBody(json));
      case 'POST /v1/audio/transcriptions':
        return transcribed(formBody(json, sent), 'transcribe', render);
      case 'POST /v1/audio/translations':
        return transcribed(formBody(json, sent), 'translate', render);
      case 'POST /v1/images/generations':
        return images(objectBody(json), render);
      case 'POST /v1/images/edits': {
        if (sent === undefined) return images(objectBody(json), render, imagesNamed(objectBody(json)));
        const form = formBody(json, sent);
        return images(form.fields, render, form.files);
      }
      case 'POST /rerank':
      case 'POST /v1/rerank':
        return rerank(objectBody(json));
      case 'POST /tokenize':
        return {
          status: 200,
          json: { tokens: tokensOf(textIn(objectBody(json).content) ?? '').map((token) => hashOf(token) % 32_000) },
        };
      case 'GET /health':
        return { status: 200, json: { status: 'ok' } };
      case 'GET /props':
        return options.props === false ? FILE_NOT_FOUND : { status: 200, json: propsOf(options.props ?? {}) };
      case 'GET /':
        return { status: 200, bytes: Buffer.from('Ollama is running'), contentType: 'text/plain; charset=utf-8' };
      default:
        return FILE_NOT_FOUND;
    }
  }

  function ollamaRoute({ method, path, json }: SimulatedRequest, render: Rendering): Reply {
    const contextWindow = options.props === false ? undefined : options.props?.contextWindow;
    const known = { models: options.models, started: options.started, contextWindow };
    switch (`${method} ${path}`) {
      case 'GET /api/version':
        return ollamaVersion();
      case 'GET /api/tags':
        return ollamaTags(known);
      case 'POST /api/show':
        return ollamaShow(objectBody(json), known);
      case 'POST /api/chat':
        return ollamaChat(objectBody(json), render);
      case 'POST /api/embed':
        return ollamaEmbed(objectBody(json));
      default:
        return FILE_NOT_FOUND;
    }
  }

  function messagesRoute({ method, path, headers, json }: SimulatedRequest, render: Rendering): Reply {
    if (method !== 'POST') return FILE_NOT_FOUND;
    if (headers['anthropic-version'] === undefined) throw new Refused(400, 'anthropic-version: header is required');
    if (path === '/v1/messages') return messages.create(objectBody(json), render);
    if (path === '/v1/messages/count_tokens') return messages.countTokens(objectBody(json), render);
    return FILE_NOT_FOUND;
  }

  function modelsRoute({ method, path, query, headers }: SimulatedRequest): Reply {
    if (method !== 'GET') return FILE_NOT_FOUND;
    const { models, started } = options;
    const listing = { models, started, anthropic: headers['anthropic-version'] !== undefined };
    const id = decodeURIComponent(path.slice('/v1/models/'.length));
    return id === '' ? modelList(listing, query) : modelNamed(id, listing);
  }

  function responsesRoute({ method, path, query, json }: SimulatedRequest, render: Rendering): Reply {
    const [id, below] = partsBelow('/v1/responses', path);
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

  function filesRoute({ method, path, query, json, files: sent }: SimulatedRequest, { newId, now }: Rendering): Reply {
    const [id, below] = partsBelow('/v1/files', path);
    if (id === undefined) {
      if (method === 'POST') return files.upload(formBody(json, sent), { id: newId('file-'), at: now() });
      return method === 'GET' ? files.list(query) : FILE_NOT_FOUND;
    }
    if (method === 'GET' && below === 'content') return files.content(id);
    if (below !== undefined) return FILE_NOT_FOUND;
    if (method === 'DELETE') return files.delete(id);
    return method === 'GET' ? files.retrieve(id) : FILE_NOT_FOUND;
  }

  function batchesRoute({ method, path, query, json }: SimulatedRequest, { fault }: Rendering): Reply {
    const [id, below] = partsBelow('/v1/batches', path);
    if (method === 'POST') {
      if (id === undefined) return batches.create(objectBody(json), fault?.holdBackground);
      return below === 'cancel' ? batches.cancel(id) : FILE_NOT_FOUND;
    }
    if (method !== 'GET' || below !== undefined) return FILE_NOT_FOUND;
    return id === undefined ? batches.list(query) : batches.retrieve(id);
  }

  function answerInBatch(path: string, body: JsonObject): { status: number; json: object } {
    const headers = path === '/v1/messages' ? { 'anthropic-version': 'in a batch' } : {};
    const requestBody = { method: 'POST', path, query: new URLSearchParams(), headers, json: body, files: undefined };
    try {
      const reply = route(requestBody, { ...plain, fault: faultIn(body.simulate) });
      return 'json' in reply ? reply : { status: 400, json: { error: { message: 'A batch has no streams.' } } };
    } catch (refusal) {
      if (!(refusal instanceof Refused)) throw refusal;
      return { status: refusal.status, json: dialectOf(path, undefined).errorBody(refusal) };
    }
  }

  function objectBody(body: Json | undefined): JsonObject {
    if (!isObject(body)) throw new Refused(400, 'the body must be a JSON object');
    const { model } = body;
    if (options.strictModels && typeof model === 'string' && !options.models.some(({ id }) => id === model)) {
      throw new Refused(404, `The model '${model}' does not exist.`, { param: 'model', code: 'model_not_found' });
    }
    return body;
  }

  function formBody(fields: Json | undefined, sent: readonly FormFile[] | undefined): Form {
    if (sent === undefined) throw new Refused(400, 'the body must be multipart/form-data');
    return { fields: objectBody(fields), files: sent };
  }

  return route;
}

/** The pictures of a JSON body, as from a form. */
function imagesNamed({ images: named }: JsonObject): FormFile[] {
  if (!Array.isArray(named)) return [];
  return named.map((one) => {
    const bytes = Buffer.from(JSON.stringify(one));
    return { field: 'image', filename: 'image', contentType: 'application/json', bytes };
  });
}

function isBelow(path: string, root: string): boolean {
  return path.startsWith(root) && (path.length === root.length || path[root.length] === '/');
}

function partsBelow(root: string, path: string): string[] {
  return path.slice(root.length).split('/').slice(1);
}

function propsOf({
  contextWindow = CONTEXT_WINDOW,
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
