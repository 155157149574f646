/** OpenAPI operations of Anthropic's message batches. */
import { z } from 'zod';
import { messageBatchRequestSchema } from '../commands/files/message-batch-dialect.ts';
import { json, type Operation, query } from './openapi-operation.ts';

const time = z.iso.datetime();
const batch = z.looseObject({
  id: z.string(),
  type: z.literal('message_batch'),
  processing_status: z.enum(['in_progress', 'canceling', 'ended']),
  request_counts: z.object({
    processing: z.int(),
    succeeded: z.int(),
    errored: z.int(),
    canceled: z.int(),
    expired: z.int(),
  }),
  ended_at: time.nullable(),
  created_at: time,
  expires_at: time,
  archived_at: time.nullable(),
  cancel_initiated_at: time.nullable(),
  results_url: z.string().nullable().describe('below the URL of the gateway'),
});
const ofOne = { id: 'The id of the batch' };
const provider = query('provider', "A provider's name or type");
const errors = [400, 401, 404, 501, 502, 503];
const common = { tag: 'files', errorSchema: 'MessagesError', parameters: [provider] } as const;
const success = { description: 'The batch, in the shape of Anthropic', content: json(batch) };

export const messageBatchOperations: readonly Operation[] = [
  {
    ...common,
    operationId: 'createMessageBatch',
    methods: ['POST'],
    path: '/v1/messages/batches',
    summary: 'Create a batch of messages',
    description:
      "It goes to the one provider that serves all its models and has batches: with Anthropic's API as it is, with OpenAI's as chat completions.",
    request: { required: true, schema: messageBatchRequestSchema },
    success,
    errors: [400, 401, 404, 413, 429, 501, 502, 503, 504],
  },
  {
    ...common,
    operationId: 'listMessageBatches',
    methods: ['GET'],
    path: '/v1/messages/batches',
    summary: 'List the batches of messages of all providers',
    parameters: [
      query('limit', 'From 1 to 1000', z.int().default(20)),
      query('after_id', 'The id of the batch before the page'),
      provider,
    ],
    success: {
      description: 'Newest first',
      content: json(
        z.object({
          data: z.array(batch),
          has_more: z.boolean(),
          first_id: z.string().nullable(),
          last_id: z.string().nullable(),
        }),
      ),
    },
    errors,
  },
  {
    ...common,
    operationId: 'getMessageBatch',
    methods: ['GET'],
    path: '/v1/messages/batches/{id}',
    summary: 'Fetch a batch of messages',
    pathParameters: ofOne,
    success,
    errors,
  },
  {
    ...common,
    operationId: 'cancelMessageBatch',
    methods: ['POST'],
    path: '/v1/messages/batches/{id}/cancel',
    summary: 'Cancel a batch of messages',
    pathParameters: ofOne,
    success,
    errors,
  },
  {
    ...common,
    operationId: 'deleteMessageBatch',
    methods: ['DELETE'],
    path: '/v1/messages/batches/{id}',
    summary: 'Delete a batch of messages that is over',
    pathParameters: ofOne,
    success: {
      description: 'It is gone',
      content: json(z.object({ id: z.string(), type: z.literal('message_batch_deleted') })),
    },
    errors,
  },
  {
    ...common,
    operationId: 'getMessageBatchResults',
    methods: ['GET'],
    path: '/v1/messages/batches/{id}/results',
    summary: 'Fetch what came of each request of a batch of messages that is over',
    pathParameters: ofOne,
    success: {
      description: 'One JSON object in each line; 409 while the batch is not over',
      content: { 'application/x-jsonl': { type: 'string' } },
    },
    errors: [...errors, 409],
  },
];
