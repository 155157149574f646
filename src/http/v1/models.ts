/** `GET /v1/models` and `GET /v1/models/{selector}`, in OpenAI's format or, for Anthropic's clients, in Anthropic's. */
import { z } from 'zod';
import type { VisibleModels } from '../../commands/access/visible-models.ts';
import { refusals } from '../../commands/refusal.ts';
import * as answers from '../answer-schemas.ts';
import { anyKey } from '../api/declare.ts';
import { queryOfParameters, textParameter } from '../api/parameters.ts';
import { jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { isAnthropicClient } from '../client-error-format.ts';
import type { Query } from '../query.ts';
import { callerOf } from '../server.ts';
import { anthropicRequestHeaders } from './declare.ts';
import type { ModelListEntry } from './listed-model.ts';
import { anthropicModel, anthropicModelPage, modelInfo, pageOfModels } from './messages-models.ts';

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
