/** The models in the format of Anthropic's list ("List Models"). */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { openAiLimitIn } from '../paging.ts';
import { type Query, single } from '../query.ts';
import type { ModelListEntry } from './listed-model.ts';

export const anthropicModel = z.object({
  type: z.literal('model'),
  id: z.string(),
  display_name: z.string(),
  created_at: z.iso.datetime(),
  max_input_tokens: z.number().nullable(),
  max_tokens: z.number().nullable(),
});

export const anthropicModelPage = z.object({
  data: z.array(anthropicModel),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});

/** One page of the list. @throws Refusal for a bad query */
export function pageOfModels(models: readonly ModelListEntry[], query: Query) {
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

export function modelInfo({ id, created, metadata }: ModelListEntry) {
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
