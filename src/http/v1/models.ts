/** `GET /v1/models` and `GET /v1/models/{selector}`, in OpenAI's format or, for Anthropic's clients, in Anthropic's. */
import { z } from 'zod';
import type { VisibleModels } from '../../commands/access/model-access.ts';
import { refusals } from '../../commands/refusal.ts';
import * as answers from '../answer-schemas.ts';
import { queryOfParameters, textParameter } from '../api/parameters.ts';
import { anyKey, jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { isAnthropicClient } from '../errors.ts';
import { openAiLimitIn } from '../paging.ts';
import { type Query, single } from '../request-head.ts';
import { callerOf } from '../server.ts';
import { anthropicRequestHeaders } from './declare.ts';

/** The models in the format of Anthropic's list ("List Models"). */
const anthropicModel = z.object({
  type: z.literal('model'),
  id: z.string(),
  display_name: z.string(),
  created_at: z.iso.datetime(),
  max_input_tokens: z.number().nullable(),
  max_tokens: z.number().nullable(),
});

const anthropicModelPage = z.object({
  data: z.array(anthropicModel),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});

/** One page of the list. @throws Refusal for a bad query */
function pageOfModels(models: readonly ModelListEntry[], query: Query) {
  const limit = openAiLimitIn(query, { usual: 20, most: 1000 });
  const after = placeOf(models, query, 'after_id');
  const before = placeOf(models, query, 'before_id');
  const end = before ?? models.length;
  const start = after === undefined ? (before === undefined ? 0 : Math.max(0, end - limit)) : after + 1;
  const page = models.slice(start, Math.min(end, start + limit));
  const hasMore = before !== undefined && after === undefined ? start > 0 : start + page.length < end;
  return {
    data: page.map(modelInfo),
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}

function modelInfo({ id, created, metadata }: ModelListEntry) {
  const known: { readonly [member: string]: unknown } = { ...metadata };
  const { display_name, context_window, max_output_tokens } = known;
  return {
    type: 'model',
    id,
    display_name: typeof display_name === 'string' ? display_name : id,
    created_at: new Date(created * 1000).toISOString(),
    max_input_tokens: typeof context_window === 'number' ? context_window : null,
    max_tokens: typeof max_output_tokens === 'number' ? max_output_tokens : null,
  };
}

function placeOf(models: readonly ModelListEntry[], query: Query, param: 'after_id' | 'before_id'): number | undefined {
  const id = single(query[param]);
  if (id === undefined) return undefined;
  const place = models.findIndex((model) => model.id === id);
  if (place === -1) throw refusals.invalidRequest(`'${param}' is not a model of the list.`, param, 'invalid_value');
  return place;
}

const listModels = anyKey('listModels', 'List models', {
  description: "With an `anthropic-version` header in Anthropic's format, in pages.",
  tag: 'models',
  requestHeaders: anthropicRequestHeaders,
  querystring: queryOfParameters({
    limit: textParameter("Of Anthropic's format", { type: 'integer', minimum: 1, maximum: 1000, default: 20 }),
    after_id: textParameter("Of Anthropic's format: id of the model before the page"),
    before_id: textParameter("Of Anthropic's format: id of the model after the page"),
  }),
  response: { 200: jsonAnswer('The models of all providers', z.union([answers.modelList, anthropicModelPage])) },
});

const getModel = anyKey('getModel', 'Get a model', {
  tag: 'models',
  params: pathParameters({ selector: '`<provider>/<model>`, with or without escaped slashes' }),
  requestHeaders: anthropicRequestHeaders,
  response: { 200: jsonAnswer('The model', z.union([answers.model, anthropicModel])) },
  errors: [404],
});

/** @param models without those that the caller may not use */
export function registerModels(app: Routes, models: VisibleModels<ModelListEntry>): void {
  app.get<{ Querystring: Query }>('/v1/models', listModels, (request) => {
    const listed = models.list(callerOf(request));
    if (isAnthropicClient(request)) return pageOfModels(listed, request.query);
    return { object: 'list', data: listed.map(toWire) };
  });
  app.get<{ Params: { '*': string } }>('/v1/models/*', getModel, (request) => {
    const selector = request.params['*'];
    const model = models.find(selector, callerOf(request));
    if (model === undefined) throw refusals.modelNotFound(selector);
    return isAnthropicClient(request) ? modelInfo(model) : toWire(model);
  });
}

function toWire({ id, created, ownedBy, metadata }: ModelListEntry) {
  const entry = { id, object: 'model', created, owned_by: ownedBy };
  return metadata === undefined ? entry : { ...entry, metadata };
}

interface ModelListEntry {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: object;
}
