/**
 * The response family: a stored Responses API object, on stream `response-<id>`. Requests to another gateway are on
 * `cancellation-<id>`.
 */
import { z } from 'zod';
import { createdBy } from './creator.ts';
import { defineEvent } from './define.ts';

export const responseStored = defineEvent({
  type: 'response.stored',
  when: 'A response reached a state that is stored; the newest event of the stream is the snapshot.',
  body:
    'JSON `{"response": …, "input_items": […]}`: the client\'s response and the client\'s input, normalised; with ' +
    '`placeholders`, an array of `{"placeholder": …, "value": …}`, when guardrails kept values from the provider',
  data: z.object({
    status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    exchangeId: z.string(),
    provider: z.string(),
    providerType: z.string(),
    model: z.string(),
    native: z.boolean().describe('whether the provider stores this response too, under the same id'),
    previousResponseId: z.string().nullable(),
    createdBy,
  }),
});

export const responseDeleted = defineEvent({
  type: 'response.deleted',
  when: 'A client deleted the response; it is no longer served, and neither is the cached answer that it was or had.',
  data: z.object({
    cached: z
      .object({ digest: z.string(), exchangeId: z.string().describe('the exchange that a provider answered') })
      .optional()
      .describe('the answer of the response cache that is no longer served; absent when it was not cached'),
  }),
});

export const responseCancelRequested = defineEvent({
  type: 'response.cancel_requested',
  when: 'A client cancelled or deleted a background response that another gateway generates, through this gateway.',
  data: z.object({}),
});
