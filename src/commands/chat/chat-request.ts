import { z } from 'zod';
import type { Refused } from '../../providers/translate/json.ts';
import { type Accepted, checkRequest } from '../request-check.ts';

export const chatRequestSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(z.looseObject({ role: z.string() })).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({}).nullish(),
});

/** Body of `POST /v1/chat/completions`: the members that the gateway reads. */
type ChatCompletionRequest = z.infer<typeof chatRequestSchema>;

export function parseChatRequest(json: unknown): Accepted<ChatCompletionRequest> | Refused {
  return checkRequest(chatRequestSchema, json, ['model', 'messages']);
}

/** The id of a chat completion that the gateway itself generates. */
export function completionIdOf(exchangeId: string): string {
  return `chatcmpl-${exchangeId.replaceAll('-', '')}`;
}
