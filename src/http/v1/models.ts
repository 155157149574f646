/** `GET /v1/models` and `GET /v1/models/{selector}`, in OpenAI's format or, for Anthropic's clients, in Anthropic's. */

import type { VisibleModels } from '../../commands/access/visible-models.ts';
import { refusals } from '../../commands/refusal.ts';
import { anyKey } from '../access-class.ts';
import type { Routes } from '../api/route-schema.ts';
import { isAnthropicClient } from '../client-error-format.ts';
import type { Query } from '../query.ts';
import { callerOf } from '../server.ts';
import type { ModelListEntry } from './listed-model.ts';
import { modelInfo, pageOfModels } from './messages-models.ts';

/** @param models without those that the caller may not use */
export function registerModels(app: Routes, models: VisibleModels<ModelListEntry>): void {
  app.get<{ Querystring: Query }>('/v1/models', anyKey, (request) => {
    const listed = models.list(callerOf(request));
    if (isAnthropicClient(request)) return pageOfModels(listed, request.query);
    return { object: 'list', data: listed.map(toWire) };
  });
  app.get<{ Params: { '*': string } }>('/v1/models/*', anyKey, (request) => {
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
