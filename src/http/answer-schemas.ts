/** Schemas of the routes' answers, for the OpenAPI description. All objects are open: providers add members. */
import { z } from 'zod';

const count = z.int().min(0);
const unixSeconds = z.int().describe('Unix time in seconds');
const anyObject = z.looseObject({});

export const errorEnvelope = z
  .object({
    error: z.object({
      code: z.string().nullable(),
      message: z.string(),
      param: z.string().nullable(),
      type: z.enum([
        'provider_error',
        'rate_limit_error',
        'invalid_request_error',
        'authentication_error',
        'not_found_error',
        'permission_error',
        'guardrail_error',
        'internal_error',
      ]),
      provider: z.string().optional().describe('the provider that produced the error; absent when the gateway did'),
    }),
  })
  .describe('The format of all errors.');

const chatUsage = z.looseObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: anyObject.optional(),
  completion_tokens_details: anyObject.optional(),
});

export const chatCompletion = z.looseObject({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: unixSeconds,
  model: z.string(),
  provider: z.string().optional(),
  choices: z.array(
    z.looseObject({
      index: count,
      message: z.looseObject({
        role: z.string(),
        content: z.string().nullable(),
        tool_calls: z.array(anyObject).optional(),
      }),
      finish_reason: z.string().nullable(),
    }),
  ),
  usage: chatUsage.optional(),
});

export const embeddingList = z.looseObject({
  object: z.literal('list'),
  data: z.array(
    z.looseObject({
      object: z.literal('embedding'),
      index: count,
      embedding: z.union([z.array(z.number()), z.string()]).describe('numbers, or base64 when requested'),
    }),
  ),
  model: z.string(),
  usage: z.looseObject({ prompt_tokens: count, total_tokens: count }).optional(),
});

const responseUsage = z.looseObject({
  input_tokens: count,
  output_tokens: count,
  total_tokens: count,
  input_tokens_details: anyObject.optional(),
  output_tokens_details: anyObject.optional(),
});

export const responseObject = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: unixSeconds,
  model: z.string(),
  provider: z.string().optional(),
  status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  previous_response_id: z.string().nullish(),
  output: z.array(z.looseObject({ id: z.string().optional(), type: z.string() })),
  usage: responseUsage.nullish(),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullish(),
});

/** A response that was created earlier: a provider may have left members out, and an interrupted one may lack them. */
export const earlierResponse = responseObject.partial({ created_at: true, model: true, output: true });

export const responseDeletion = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  deleted: z.literal(true),
});

export const item = z.looseObject({ id: z.string(), type: z.string() });

export const inputItemList = z.looseObject({
  object: z.literal('list'),
  data: z.array(item),
  first_id: z.string().nullish(),
  last_id: z.string().nullish(),
  has_more: z.boolean(),
});

export const conversation = z.object({
  id: z.string(),
  object: z.literal('conversation'),
  created_at: unixSeconds,
  metadata: z.record(z.string(), z.string()),
});

export const conversationDeletion = z.object({
  id: z.string(),
  object: z.literal('conversation.deleted'),
  deleted: z.literal(true),
});

export const model = z.looseObject({
  id: z.string().describe('`<provider>/<model>`'),
  object: z.literal('model'),
  created: unixSeconds,
  owned_by: z.string(),
  metadata: anyObject.optional(),
});

export const modelList = z.looseObject({ object: z.literal('list'), data: z.array(model) });

export const health = z.object({ status: z.literal('ok') });

export const readiness = z.looseObject({
  status: z.enum(['ready', 'degraded', 'not_ready']),
  components: z.looseObject({
    storage: z.enum(['ok', 'degraded', 'down']),
    stream_index: z.enum(['ok', 'rebuilding']).optional().describe('absent while the gateway starts'),
  }),
  log_damage: z
    .array(z.string())
    .optional()
    .describe(
      'segments of the log that cannot be read, each with the place; `chancery log accept-loss` accepts the loss',
    ),
  starting: z
    .looseObject({
      reason: z.enum([
        'log: opening',
        'log: catching up',
        'engine unreachable',
        'disk: the replica cannot be written',
        'read models: catching up',
        'starting',
      ]),
      position: z.string().optional().describe('of the last event that this gateway has, or that its read models have'),
    })
    .optional()
    .describe('while a gateway starts: with a log on an engine (`LOG_URL`), or when its read models read a long log'),
  log_engine: z
    .looseObject({
      name: z.string(),
      connected: z.boolean().describe('whether appends reach the engine and are read back'),
      unread_appends: count.describe('appends that the engine has acknowledged and that were not read back yet'),
      last_read_at: z.string().optional().describe('when something was last read from the engine'),
    })
    .optional()
    .describe('only with a log on an engine (`LOG_URL`)'),
  workers: z
    .looseObject({
      configured: count,
      running: count.describe('that serve requests'),
      reason: z.string().optional().describe('why no worker serves requests, or one that ends could not be replaced'),
    })
    .optional()
    .describe('only with several workers (`GATEWAY_WORKERS`)'),
});

const messageUsage = z.looseObject({
  input_tokens: count.describe('without those read from, or written to, a cache'),
  output_tokens: count,
  cache_read_input_tokens: count.nullish(),
  cache_creation_input_tokens: count.nullish(),
});

export const message = z.looseObject({
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(z.looseObject({ type: z.string() })),
  stop_reason: z.string().nullable(),
  stop_sequence: z.string().nullable(),
  usage: messageUsage,
});

export const tokenCount = z.looseObject({ input_tokens: count });

export const messagesErrorSchema = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.enum([
        'invalid_request_error',
        'authentication_error',
        'permission_error',
        'not_found_error',
        'request_too_large',
        'rate_limit_error',
        'overloaded_error',
        'api_error',
      ]),
      message: z.string(),
      details: anyObject.optional().describe('the code, parameter and provider of the error, where there are any'),
    }),
    request_id: z.string(),
  })
  .describe("An error in Anthropic's format.");
