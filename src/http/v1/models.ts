/** `GET /v1/models` and `GET /v1/models/{selector}`. */
import type { FastifyInstance } from 'fastify';
import { refusals } from '../../commands/refusal.ts';

export interface ListedModel {
  readonly id: string;
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: object;
}

export interface ModelListing {
  list(): readonly ListedModel[];
  find(selector: string): ListedModel | undefined;
}

export function registerModels(app: FastifyInstance, models: ModelListing): void {
  app.get('/v1/models', () => ({ object: 'list', data: models.list().map(toWire) }));
  app.get<{ Params: { '*': string } }>('/v1/models/*', (request) => {
    const selector = request.params['*'];
    const model = models.find(selector);
    if (model === undefined) throw refusals.modelNotFound(selector);
    return toWire(model);
  });
}

function toWire({ id, created, ownedBy, metadata }: ListedModel) {
  const entry = { id, object: 'model', created, owned_by: ownedBy };
  return metadata === undefined ? entry : { ...entry, metadata };
}
