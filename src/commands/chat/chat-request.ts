import { z } from 'zod';

/** Body of `POST /v1/chat/completions`: the members that the gateway reads. */
export const chatRequestSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(z.looseObject({ role: z.string() })).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({}).nullish(),
});

/** The id of a chat completion that the gateway itself generates. */
export function completionIdOf(exchangeId: string): string {
  return `chatcmpl-${exchangeId.replaceAll('-', '')}`;
}
