import { z } from 'zod';
import { isObject } from '../../json/is-object.ts';
import type { Refused } from '../../providers/translate/refusal.ts';
import { type Accepted, checkRequest } from '../request-check.ts';

const text = z.string().nullish();
const flag = z.boolean().nullish();
const object = z.looseObject({}).nullish();

/** The members of an item that the gateway itself reads; others depend on its type. */
export const inputItemSchema = z.looseObject({
  type: text,
  role: text,
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]).nullish(),
  id: text,
});

export const createRequestSchema = z.looseObject({
  model: z.string().min(1),
  provider: text,
  input: z.union([z.string(), z.array(inputItemSchema)]).nullish(),
  instructions: z.union([z.string(), z.array(z.looseObject({}))]).nullish(),
  previous_response_id: text,
  conversation: z.union([z.string(), z.looseObject({ id: z.string() })]).nullish(),
  background: flag,
  store: flag,
  stream: flag,
  stream_options: object,
  max_output_tokens: z.int().nullish(),
  max_tool_calls: z.int().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_logprobs: z.int().nullish(),
  parallel_tool_calls: flag,
  tools: z.array(z.looseObject({ type: z.string() })).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({})]).nullish(),
  reasoning: object,
  text: object,
  metadata: z.record(z.string(), z.string()).nullish(),
  include: z.array(z.string()).nullish(),
  truncation: text,
  service_tier: text,
  safety_identifier: text,
  prompt_cache_key: text,
  prompt_cache_options: object,
  prompt_cache_retention: text,
  user: text,
});

/** Body of `POST /v1/responses`: the members that the gateway reads. `null` means "not given" everywhere. */
export type CreateResponseRequest = z.infer<typeof createRequestSchema>;

export function parseCreateResponse(json: unknown): Accepted<CreateResponseRequest> | Refused {
  const hasPrompt = isObject(json) && json['prompt'] !== undefined && json['prompt'] !== null;
  return checkRequest(createRequestSchema, json, hasPrompt ? ['model'] : ['model', 'input']);
}
