/** Request bodies that create and change conversations, checked and normalised. */
import { z } from 'zod';
import type { Metadata } from '../metadata.ts';
import { parseJson } from '../parse-json.ts';
import { refusals, refusedInTranslation } from '../refusal.ts';
import { checkRequest } from '../request-check.ts';
import { inputItemSchema } from '../responses/create-request.ts';

/** Maximum number of items in one request. */
export const MAX_ITEMS_AT_ONCE = 20;

const metadata = z.record(z.string(), z.string());
const items = z.array(inputItemSchema);

export const createConversationSchema = z.looseObject({ items: items.nullish(), metadata: metadata.nullish() });
export const updateConversationSchema = z.looseObject({ metadata });
export const addItemsSchema = z.looseObject({ items });

type GivenItems = z.infer<typeof items>;

/** @param body the client's bytes; an empty body means `{}`. @throws Refusal */
export function readCreateConversation(body: Buffer): { items: GivenItems; metadata: Metadata } {
  const request = read(createConversationSchema, parsed(body), []);
  return { items: notTooMany(request.items ?? []), metadata: request.metadata ?? {} };
}

/** @throws Refusal */
export function readUpdateConversation(body: Buffer): Metadata {
  return read(updateConversationSchema, parsed(body), ['metadata']).metadata;
}

/** @throws Refusal */
export function readAddItems(body: Buffer): GivenItems {
  return notTooMany(read(addItemsSchema, parsed(body), ['items']).items);
}

function parsed(body: Buffer): unknown {
  return body.length === 0 ? {} : parseJson(body);
}

function read<Schema extends z.ZodType>(schema: Schema, json: unknown, required: readonly string[]): z.infer<Schema> {
  const checked = checkRequest(schema, json, required);
  if (!checked.ok) throw refusedInTranslation(checked.refusal);
  return checked.request;
}

function notTooMany(given: GivenItems): GivenItems {
  if (given.length <= MAX_ITEMS_AT_ONCE) return given;
  const message = `'items' may have at most ${MAX_ITEMS_AT_ONCE} entries, but it has ${given.length}.`;
  throw refusals.invalidRequest(message, 'items', 'array_above_max_length');
}
