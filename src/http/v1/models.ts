/** `GET /v1/models` and `GET /v1/models/{selector}`, in OpenAI's shape or, for its clients, in Anthropic's. */
import type { FastifyInstance } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import { isAnthropicClient } from '../manners.ts';
import type { ListedModel } from './listed-model.ts';
import { type ModelsQuery, modelInfo, pageOfModels } from './messages-models.ts';

export interface ModelListing {
  list(): readonly ListedModel[];
  find(selector: string): ListedModel | undefined;
}

export function registerModels(app: FastifyInstance, models: ModelListing): void {
  app.get<{ Querystring: ModelsQuery }>('/v1/models', (request) => {
    if (isAnthropicClient(request)) return pageOfModels(models.list(), request.query);
    return { object: 'list', data: models.list().map(toWire) };
  });
  app.get<{ Params: { '*': string } }>('/v1/models/*', (request) => {
    const selector = request.params['*'];
    const model = models.find(selector);
    if (model === undefined) throw refusals.modelNotFound(selector);
    return isAnthropicClient(request) ? modelInfo(model) : toWire(model);
  });
}

function toWire({ id, created, ownedBy, metadata }: ListedModel) {
  const entry = { id, object: 'model', created, owned_by: ownedBy };
  return metadata === undefined ? entry : { ...entry, metadata };
}
