import { z } from 'zod';
import type { Refused } from '../../providers/translate/refusal.ts';
import { type Accepted, checkRequest } from '../request-check.ts';

const content = z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]);

/** Body of `POST /v1/messages/count_tokens`: the members that the gateway reads. */
export const countTokensRequestSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(z.looseObject({ role: z.string(), content: content.nullish() })).min(1),
  system: content.nullish(),
  tools: z.array(z.looseObject({})).nullish(),
});

/** Body of `POST /v1/messages`: the members that the gateway reads. */
export const messagesRequestSchema = z.looseObject({
  ...countTokensRequestSchema.shape,
  max_tokens: z.int().min(0),
  stream: z.boolean().nullish(),
  stop_sequences: z.array(z.string()).nullish(),
  tool_choice: z.looseObject({}).nullish(),
  thinking: z.looseObject({}).nullish(),
  metadata: z.looseObject({}).nullish(),
  output_config: z.looseObject({}).nullish(),
});

export type MessagesRequest = z.infer<typeof messagesRequestSchema>;
export type CountTokensRequest = z.infer<typeof countTokensRequestSchema>;

export function parseMessagesRequest(json: unknown): Accepted<MessagesRequest> | Refused {
  return checkRequest(messagesRequestSchema, json, ['model', 'max_tokens', 'messages']);
}

export function parseCountTokensRequest(json: unknown): Accepted<CountTokensRequest> | Refused {
  return checkRequest(countTokensRequestSchema, json, ['model', 'messages']);
}
