/** `/v1/models`, in OpenAI's format and in Anthropic's. */
import type { JsonObject } from './json.ts';
import type { SimulatedModel } from './options.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';

export interface Listing {
  readonly models: readonly SimulatedModel[];
  /** Unix seconds. */
  readonly started: number;
  readonly anthropic: boolean;
}

export function modelList(listing: Listing, query: URLSearchParams): Reply {
  const { models } = listing;
  if (!listing.anthropic) {
    return { status: 200, json: { object: 'list', data: models.map((model) => shown(model, listing)) } };
  }
  const limit = Number(query.get('limit') ?? 20);
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000)
    throw new Refused(400, 'limit: Input should be from 1 to 1000');
  const after = query.get('after_id');
  const before = query.get('before_id');
  const start = after === null ? 0 : models.findIndex(({ id }) => id === after) + 1;
  const end = before === null ? models.length : models.findIndex(({ id }) => id === before);
  const page = models.slice(Math.max(start, before === null ? 0 : end - limit), end).slice(0, limit);
  const first = page[0]?.id ?? null;
  const last = page.at(-1)?.id ?? null;
  const has_more = before === null ? start + page.length < models.length : end - page.length > 0;
  const data = page.map((model) => shown(model, listing));
  return { status: 200, json: { data, has_more, first_id: first, last_id: last } };
}

export function modelNamed(id: string, listing: Listing): Reply {
  const model = listing.models.find((each) => each.id === id);
  if (model !== undefined) return { status: 200, json: shown(model, listing) };
  const message = listing.anthropic ? `model: ${id}` : `The model '${id}' does not exist`;
  throw new Refused(404, message, { param: 'model', code: 'model_not_found' });
}

function shown({ id, meta }: SimulatedModel, { started, anthropic }: Listing): JsonObject {
  if (anthropic) {
    return { type: 'model', id, display_name: id, created_at: new Date(started * 1000).toISOString() };
  }
  return { id, object: 'model', created: started, owned_by: 'simulated', ...(meta === undefined ? {} : { meta }) };
}
